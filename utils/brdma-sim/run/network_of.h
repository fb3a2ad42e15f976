// run/network_of.h - a scenario's routers and links in a world, with routes by equal-cost shortest paths.
#pragma once

#include <vector>

#include "network/shape.h"
#include "scenario/scenario.h"
#include "sim/world.h"

namespace brdma::simulator {

// Joins the hosts, which are in the order of the shape's. Links have no faults until apply_faults(). Returns the
// routers, in the order of the shape's switches. Errors: ScenarioError, where a switch has too many equal-cost paths or
// routes.
[[nodiscard]] std::vector<sim::RouterNode*> make_network(sim::RoutedNetwork& network, const Scenario& scenario,
                                                         const Shape& shape, const std::vector<sim::Station*>& hosts);
// Faults, marks and queues of the shape, from now on; and what the switches do.
void apply_faults(sim::RoutedNetwork& network, const Scenario& scenario, const Shape& shape,
                  const std::vector<sim::RouterNode*>& routers);

}  // namespace brdma::simulator
