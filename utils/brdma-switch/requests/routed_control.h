// brdma-switch/requests/routed_control.h - requests of the control socket and of a controller to a topology's switches.
// README.md has the requests and answers.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "forwarding/routed_core.h"

namespace brdma::lab {

// In the loop's thread. A mistake changes nothing; the answer is {"ok":false,"error":...}.
[[nodiscard]] nlohmann::ordered_json answer_routed(const nlohmann::json& request, RoutedCore& core, DataLoop& loop);

[[nodiscard]] nlohmann::ordered_json show_routed(RoutedCore& core, DataLoop& loop);

}  // namespace brdma::lab
