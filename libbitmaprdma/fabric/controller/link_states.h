// fabric/controller/link_states.h - the health of all links of a network map, and what sending by each of them costs.
// Costs are those of the last update_costs(), so that one calculation of routes sees the same ones.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "fabric/controller/link_health.h"
#include "fabric/controller/network_map.h"

namespace brdma::fabric::controller {

class LinkStates {
 public:
  using Costs = std::vector<std::optional<Cost>>;  // of each link; nothing: not usable

  explicit LinkStates(const LinkLimits& limits) : limits_(limits) {}

  // The map has grown.
  void grow(const NetworkMap& map) { health_.resize(map.links().size()); }
  // True: an input of routing has changed. `over_limits`: as in LinkHealth.
  bool handle_report(LinkIndex link, const LinkReport& report, Instant now, bool over_limits);
  bool handle_timeout(Instant now);
  [[nodiscard]] std::optional<Instant> next_timeout() const;

  [[nodiscard]] const LinkHealth& health(LinkIndex link) const { return health_[link]; }
  [[nodiscard]] bool usable(LinkIndex link) const;  // in both directions
  [[nodiscard]] std::uint32_t congested() const;    // number of links

  void update_costs(const NetworkMap& map);
  [[nodiscard]] const Costs& costs() const { return costs_; }
  [[nodiscard]] const Costs& costs_without_load() const { return costs_without_load_; }

 private:
  LinkLimits limits_;
  std::vector<LinkHealth> health_;
  Costs costs_, costs_without_load_;
};

}  // namespace brdma::fabric::controller
