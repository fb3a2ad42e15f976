// brdma-switch/routed_control.h - what the control socket and a controller ask of a topology's switches. README.md has
// the requests and answers.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "routed_core.h"

namespace brdma::lab {

// In the loop's thread. A mistake changes nothing and is answered {"ok":false,"error":...}.
[[nodiscard]] nlohmann::ordered_json answer_routed(const nlohmann::json& request, RoutedCore& core, DataLoop& loop);

[[nodiscard]] nlohmann::ordered_json show_routed(RoutedCore& core, DataLoop& loop);

}  // namespace brdma::lab
