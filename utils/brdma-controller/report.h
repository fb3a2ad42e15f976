// brdma-controller/report.h - the controller's state for people and programs: JSON with stable keys
// (docs/explanation/wan.md), and Prometheus' text form.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "server.h"

namespace brdma::controller_program {

[[nodiscard]] nlohmann::ordered_json state_json(const Server& server);
[[nodiscard]] std::string metrics_text(const Server& server);

}  // namespace brdma::controller_program
