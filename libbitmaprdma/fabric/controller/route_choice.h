// fabric/controller/route_choice.h - the routes towards one prefix: from each switch, the links by which it is cheapest
// to get there. Pure.
//
// Dijkstra from the destinations backwards. A switch sends by every link whose way costs at most `equal_permille` more
// than its best, and whose other end is nearer to the destination: so whatever each flow's hash takes, it gets nearer
// with every hop, and there is no loop.
//
// A switch that nobody can reach at the moment goes on sending as it was told last. It is taken as it is: a way over it
// counts as the longest of the links that it may take, and where one of these leads to no destination, it is no way.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fabric/controller/link_health.h"
#include "fabric/controller/network_map.h"

namespace brdma::fabric::controller {

using NextLinks = std::vector<LinkIndex>;  // sorted

struct RouteQuestion {
  const NetworkMap& map;
  std::span<const std::optional<Cost>> cost;  // of each link; nothing: not usable
  std::span<const SwitchIndex> destinations;
  std::span<const NextLinks* const> fixed;  // of each switch: what it sends by, whatever we want; null: ours to choose
  std::uint32_t equal_permille = 50;
};

struct Routes {
  std::vector<std::optional<Cost>> distance;  // of each switch; nothing: no way
  std::vector<NextLinks> next;                // empty at the destinations, and where there is no way
};

[[nodiscard]] Routes choose_routes(const RouteQuestion& question);

}  // namespace brdma::fabric::controller
