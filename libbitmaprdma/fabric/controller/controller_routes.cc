// Choice of route changes, and the order of their installation.
#include <algorithm>

#include "base/check.h"
#include "fabric/controller/controller.h"

namespace brdma::fabric::controller {
namespace {

const NextLinks kNone;

// Of this switch, to `prefix`.
const NextLinks& installed_links(const Controller::SwitchState& state, PrefixIndex prefix) {
  const auto found = state.installed.find(prefix);
  return found == state.installed.end() ? kNone : found->second;
}

// True if all of these links end at one of `places`.
bool lead_to(const NetworkMap& map, const NextLinks& links, const std::vector<bool>& places) {
  return std::ranges::all_of(links, [&](LinkIndex link) { return places[map.links()[link].to]; });
}

void take_earlier(std::optional<Instant>& timeout, Instant at) {
  if (!timeout || at < *timeout) timeout = at;
}

}  // namespace

// We choose for switches with a session only.
Routes Controller::desired_routes(PrefixIndex prefix) const {
  std::vector<const NextLinks*> fixed(switches_.size(), nullptr);
  for (SwitchIndex i = 0; i < switches_.size(); ++i) {
    if (!switches_[i].connected) fixed[i] = &installed_links(switches_[i], prefix);
  }
  return choose_routes({map_, links_.costs(), map_.attachments(prefix), fixed, settings_.equal_permille});
}

// Cost of sending by `ways`, without load; no distance where they do not reach the destination.
Routes Controller::cost_of(PrefixIndex prefix, const std::vector<const NextLinks*>& ways) const {
  return choose_routes({map_, links_.costs_without_load(), map_.attachments(prefix), ways, settings_.equal_permille});
}

// `gain`: improvement, to choose among several.
Controller::Verdict Controller::judge(PrefixIndex prefix, const Routes& desired, std::uint32_t& gain) const {
  std::vector<const NextLinks*> installed(switches_.size()), wanted(switches_.size());
  for (SwitchIndex i = 0; i < switches_.size(); ++i) {
    installed[i] = &installed_links(switches_[i], prefix);
    wanted[i] = &desired.next[i];
  }
  const Routes current = cost_of(prefix, installed), after = cost_of(prefix, wanted);
  Verdict verdict = Verdict::kStay;
  gain = 0;
  for (SwitchIndex i = 0; i < switches_.size(); ++i) {
    if (!switches_[i].connected || map_.attached(prefix, i) || !desired.distance[i]) continue;
    if (!current.distance[i]) return Verdict::kRepair;
    BRDMA_CHECK(after.distance[i]);
    const Cost &now = *current.distance[i], &then = *after.distance[i];
    const bool avoids = then.congested < now.congested;
    const bool cheaper =
        then.congested == now.congested && then.ns < now.ns - now.ns / 1000 * settings_.improvement_permille;
    // More paths of the same cost: flows spread.
    const bool wider = then == now && desired.next[i].size() > current.next[i].size();
    if (avoids || cheaper || wider) verdict = Verdict::kImprove;
    if (avoids) gain += now.congested - then.congested;
  }
  return verdict;
}

void Controller::decide(Instant now) {
  dirty_ = false;
  look_at_.reset();
  links_.update_costs(map_);
  const bool few = congested_links() <= settings_.congested_links_max;
  std::optional<Improvement> best;
  bool others = false;
  for (PrefixIndex prefix = 0; prefix < prefixes_.size(); ++prefix) {
    PrefixState& state = prefixes_[prefix];
    if (state.change) continue;  // settle_change() makes us look again
    Routes desired = desired_routes(prefix);
    std::uint32_t gain = 0;
    const Verdict verdict = judge(prefix, desired, gain);
    state.better = verdict == Verdict::kImprove && (few || state.asked);
    if (verdict == Verdict::kRepair) {
      ++counters_.repairs;
      begin_change(prefix, std::move(desired), now);
    } else if (!state.better) {
      state.asked = false;
    } else if (const Instant free = state.damper.free_at(settings_.damping); free > now) {
      ++counters_.improvements_held;
      take_earlier(look_at_, free);
    } else if (!best || gain > best->gain) {
      others |= best.has_value();
      best = Improvement{prefix, gain, std::move(desired)};
    } else {
      others = true;
    }
  }
  if (best) improve(std::move(*best), others, now);
}

// One in `pace`. `others`: prefixes have improvements that wait for theirs.
void Controller::improve(Improvement best, bool others, Instant now) {
  if (paced_until_ && *paced_until_ > now) {
    ++counters_.improvements_held;
    return take_earlier(look_at_, *paced_until_);
  }
  ++counters_.improvements;
  paced_until_ = now + settings_.pace;
  prefixes_[best.prefix].asked = false;
  begin_change(best.prefix, std::move(best.routes), now);
  if (others) take_earlier(look_at_, *paced_until_);
}

void Controller::begin_change(PrefixIndex prefix, Routes routes, Instant now) {
  PrefixState& state = prefixes_[prefix];
  BRDMA_CHECK(!state.change);
  Change change;
  change.goal = std::move(routes.next);
  for (SwitchIndex i = 0; i < switches_.size(); ++i) {
    if (!switches_[i].connected || change.goal[i].empty()) continue;  // no route: the installed one does no harm
    if (installed_links(switches_[i], prefix) != change.goal[i]) change.to_update.insert(i);
  }
  state.damper.changed(settings_.damping, now);
  BRDMA_CHECK(!change.to_update.empty());  // else the installed routes would have been as good
  state.change = std::move(change);
}

std::vector<bool> Controller::Change::complete(const NetworkMap& map, PrefixIndex prefix) const {
  std::vector<bool> done(map.switches().size());
  for (SwitchIndex i = 0; i < done.size(); ++i) done[i] = map.attached(prefix, i);
  for (bool more = true; more;) {
    more = false;
    for (SwitchIndex i = 0; i < goal.size(); ++i) {
      if (done[i] || goal[i].empty() || to_update.contains(i) || waiting.contains(i)) continue;
      done[i] = lead_to(map, goal[i], done);
      more |= done[i];
    }
  }
  return done;
}

std::vector<SwitchIndex> Controller::Change::take_ready(const NetworkMap& map, PrefixIndex prefix) {
  const std::vector<bool> done = complete(map, prefix);
  std::vector<SwitchIndex> ready;
  for (const SwitchIndex index : to_update) {
    if (lead_to(map, goal[index], done)) ready.push_back(index);
  }
  for (const SwitchIndex index : ready) {
    to_update.erase(index);
    waiting.insert(index);
  }
  return ready;
}

void Controller::advance(Instant now) {
  std::map<SwitchIndex, Prefixes> batches;
  for (PrefixIndex prefix = 0; prefix < prefixes_.size(); ++prefix) {
    auto& change = prefixes_[prefix].change;
    if (!change || change->abandoned) continue;
    for (const SwitchIndex index : change->take_ready(map_, prefix)) batches[index].push_back(prefix);
  }
  for (auto& [index, prefixes] : batches) {
    InstallRoutes order{map_.switches()[index], ++switches_[index].epoch, {}};
    for (const PrefixIndex prefix : prefixes) {
      PortRoute route{map_.prefixes()[prefix], {}};
      for (const LinkIndex link : prefixes_[prefix].change->goal[index]) {
        route.ports.push_back(map_.links()[link].port);
      }
      order.routes.push_back(std::move(route));
    }
    installs_.add(index, order.epoch, std::move(prefixes), now + settings_.acknowledgement_max);
    ++counters_.installs_sent;
    orders_.push_back(std::move(order));
  }
}

void Controller::abandon(PrefixIndex prefix) {
  Change& change = *prefixes_[prefix].change;
  if (!change.abandoned) ++counters_.changes_abandoned;
  change.abandoned = true;
  change.to_update.clear();
  settle_change(prefix);
}

// Ends the change if it is complete.
void Controller::settle_change(PrefixIndex prefix) {
  auto& change = prefixes_[prefix].change;
  if (!change || !change->waiting.empty() || !change->to_update.empty()) return;
  if (!change->abandoned) ++counters_.changes_done;
  change.reset();
  dirty_ = true;
}

}  // namespace brdma::fabric::controller
