// fabric/controller/route_choice.h - routes towards one prefix: the cheapest links from each switch. Pure.
//
// Dijkstra from the destinations backwards. A switch uses every link whose path costs at most `equal_permille` more
// than its best, and whose other end is nearer to the destination. So each flow gets nearer with every hop, whatever
// its hash chooses, and there is no loop.
//
// An unreachable switch keeps its last routes, which are taken as fixed. A path over it counts as the longest of its
// links, and is no path if one of these leads to no destination.
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
  std::span<const NextLinks* const> fixed;  // of each switch: its fixed links; null: we choose
  std::uint32_t equal_permille = 50;
};

struct Routes {
  std::vector<std::optional<Cost>> distance;  // of each switch; nothing: no path
  std::vector<NextLinks> next;                // empty at the destinations, and where there is no path
};

[[nodiscard]] Routes choose_routes(const RouteQuestion& question);

}  // namespace brdma::fabric::controller
