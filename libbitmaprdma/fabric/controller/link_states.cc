#include "fabric/controller/link_states.h"

#include <algorithm>

namespace brdma::fabric::controller {

bool LinkStates::handle_report(LinkIndex link, const LinkReport& report, Instant now, bool over_limits) {
  LinkHealth& health = health_[link];
  const std::uint64_t version = health.version();
  health.handle_report(report, limits_, now, over_limits);
  return health.version() != version;
}

bool LinkStates::handle_timeout(Instant now) {
  bool changed = false;
  for (LinkHealth& health : health_) {
    const auto due = health.next_timeout(limits_);
    if (due && *due <= now) changed |= health.handle_timeout(limits_, now);
  }
  return changed;
}

std::optional<Instant> LinkStates::next_timeout() const {
  std::optional<Instant> next;
  for (const LinkHealth& health : health_) {
    const auto due = health.next_timeout(limits_);
    if (due && (!next || *due < *next)) next = due;
  }
  return next;
}

bool LinkStates::usable(LinkIndex link) const {
  return health_[link].usable() && health_[NetworkMap::reverse(link)].usable();
}

std::uint32_t LinkStates::congested() const {
  return static_cast<std::uint32_t>(std::ranges::count_if(health_, &LinkHealth::congested));
}

void LinkStates::update_costs(const NetworkMap& map) {
  costs_.assign(health_.size(), std::nullopt);
  costs_without_load_ = costs_;
  for (LinkIndex i = 0; i < health_.size(); ++i) {
    if (!usable(i)) continue;
    costs_[i] = health_[i].cost(map.links()[i].delay);
    costs_without_load_[i] = health_[i].cost_without_load(map.links()[i].delay);
  }
}

}  // namespace brdma::fabric::controller
