#include "congestion/managed_list.h"

#include <algorithm>

namespace brdma::congestion {
namespace {

Bandwidth percent_of(Bandwidth rate, std::uint32_t percent) {
  return Bandwidth::from_bps(rate.bps() / 100 * percent + rate.bps() % 100 * percent / 100);
}

Bandwidth rate_floor(const WanConfig& config) {
  return Bandwidth::from_bps(std::uint64_t{config.managed_rate_min_mbps} * 1'000'000);
}

// A standing queue becomes part of the measured round trip: the value known before counts for a while, as routes
// change.
void note_shortest(ManagedDestination& it, Duration shortest, Instant now) {
  const bool outdated = now - it.shortest_at >= ManagedList::kShortestKept;
  if (shortest == Duration{} || (it.shortest != Duration{} && shortest > it.shortest && !outdated)) return;
  it.shortest = shortest;
  it.shortest_at = now;
}

}  // namespace

ManagedDestination* ManagedList::lower(const IpAddress& peer, Bandwidth delivered, const CongestionConfig& pacing,
                                       const WanConfig& config, Instant now) {
  ManagedDestination* destination = find(peer);
  if (destination == nullptr) {
    if (destinations_.size() == kDestinationsMax) return nullptr;
    const Bandwidth full = std::max(delivered, rate_floor(config));
    const PacerConfig pacer{.burst_bytes = pacing.burst_bytes, .interval = pacing.pace_interval};
    destination = &destinations_.emplace(peer, ManagedDestination{pacer, full}).first->second;
    destination->full = full;
    destination->since = now;
  } else if (now < destination->visit_at && destination->lowered < destination->full) {
    return destination;
  }
  ManagedDestination& it = *destination;
  // A rate above the delivered one bounds nothing: its half may still be a multiple of the link's rate.
  const Bandwidth from = delivered.bps() == 0 ? it.pacer.rate() : std::min(it.pacer.rate(), delivered);
  it.lowered = std::max(percent_of(from, config.managed_rate_percent), rate_floor(config));
  it.pacer.set_rate(it.lowered, now);
  it.weight_percent = it.weight_lowered = std::max(1u, it.weight_percent * config.managed_weight_percent / 100);
  it.visit_at = now + config.visit_interval;
  return destination;
}

ManagedDestination* ManagedList::find(const IpAddress& peer) {
  const auto found = destinations_.find(peer);
  return found == destinations_.end() ? nullptr : &found->second;
}

bool ManagedList::remove(const IpAddress& peer) { return destinations_.erase(peer) != 0; }

ManagedList::Visit ManagedList::visit(ManagedDestination& it, const Observed& observed, const WanConfig& config,
                                      Instant now) {
  it.visit_at = now + config.visit_interval;
  note_shortest(it, observed.shortest, now);
  if (observed.wait * 100 > it.shortest * static_cast<std::int64_t>(config.managed_wait_percent)) {
    const Bandwidth arrives = std::max(observed.delivered, rate_floor(config));
    if (observed.delivered.bps() != 0 && arrives < it.pacer.rate()) {
      it.lowered = arrives;
      it.pacer.set_rate(arrives, now);
    }
    return Visit::kKept;
  }
  const Bandwidth taken = Bandwidth::from_bps(it.full.bps() - std::min(it.lowered, it.full).bps());
  const Bandwidth step = std::max(percent_of(taken, config.managed_raise_percent), Bandwidth::from_bps(1));
  const Bandwidth raised = std::min(it.full, Bandwidth::from_bps(it.pacer.rate().bps() + step.bps()));
  it.pacer.set_rate(raised, now);
  const std::uint32_t weight_step = std::max(1u, (100 - it.weight_lowered) * config.managed_raise_percent / 100);
  it.weight_percent = std::min(100u, it.weight_percent + weight_step);
  if (raised < it.full) return Visit::kRaised;
  it.weight_percent = 100;
  return Visit::kDone;
}

std::optional<Instant> ManagedList::next_visit() const {
  std::optional<Instant> next;
  for (const auto& [peer, destination] : destinations_) {
    if (!next || destination.visit_at < *next) next = destination.visit_at;
  }
  return next;
}

}  // namespace brdma::congestion
