// brdma-switch/control_show.h - the switch's settings and counters as JSON: what "show" answers. docs/cli.md has the
// keys.
#pragma once

#include <nlohmann/json.hpp>

#include "data_loop.h"

namespace brdma::lab {

[[nodiscard]] nlohmann::ordered_json describe_network(const fabric::NetworkConfig& config);
// In the loop's thread.
[[nodiscard]] nlohmann::ordered_json show_switch(DataLoop& loop);

}  // namespace brdma::lab
