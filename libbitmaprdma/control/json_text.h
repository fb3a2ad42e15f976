// control/json_text.h - reads JSON of another process: of bounded depth and size, so that any input costs bounded time
// and memory, and no stack.
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

// No JSON, or beyond `limits`: returns a discarded value (is_discarded()); its is_object() is false too.
[[nodiscard]] nlohmann::ordered_json parse_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace brdma::control
