// control/json_text.h - reads JSON that another process wrote: of bounded depth and size, so that whatever it is costs
// a bounded time and memory, and no stack.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace brdma::control {

struct JsonLimits {
  std::size_t bytes_max = 1u << 20;
  unsigned depth_max = 16;
  std::size_t values_max = 100'000;
};

// What is no JSON, or more than `limits` allow: a discarded value (is_discarded()), of which is_object() is false too.
[[nodiscard]] nlohmann::ordered_json parse_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace brdma::control
