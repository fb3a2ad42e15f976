#include "congestion/window/base_round_trip.h"

#include <algorithm>
#include <utility>

namespace brdma::congestion {
namespace {

constexpr BaseRoundTripConfig kConfig;
constexpr Duration kNone{};

}  // namespace

// Called when the last period has lasted until a drain could measure again.
void BaseRoundTrip::begin_period(Instant now) {
  if (now - period_start_ <= drain_period()) return;
  if (now_ != kNone) before_ = now_;
  now_ = kNone;
  period_start_ = now;
}

void BaseRoundTrip::shift(Duration by) {
  for (Duration* smallest : {&before_, &now_}) {
    if (*smallest != kNone) *smallest = std::max(*smallest + by, kTick);
  }
}

Duration BaseRoundTrip::drain_period() const {
  Duration period = kConfig.drain_period;
  while (period < value() * 64) period = period * 2;
  return period;
}

void BaseRoundTrip::begin_early_drains() {
  lossless_ = false;
  early_ = kConfig.early_drains;
  drain_number_ = -1;
}

Duration BaseRoundTrip::early_period() const { return drain_period() / (std::int64_t{1} << early_); }

bool BaseRoundTrip::drains_are_rare() const { return drain_period() > kConfig.rare_from; }

bool BaseRoundTrip::is_far_beyond(Duration rtt, Duration queueing) const {
  return rtt - value() > queueing * kConfig.doubt_targets;
}

bool BaseRoundTrip::wants_drain(const Round& round, Instant now) {
  const bool doubtful = is_doubtful(round);
  is_early_ = false;
  if (!drain_is_due(now) && !doubtful) return false;
  once_more_ = false;
  return true;
}

// Each early drain doubles the period, up to its length.
bool BaseRoundTrip::drain_is_due(Instant now) {
  while (early_ > 0 && early_period() < value() * kConfig.early_rounds) --early_;
  const std::int64_t number = now.ns() / early_period().ns();
  const std::int64_t last = std::exchange(drain_number_, number);
  if (last < 0 || last == number) return false;
  due_ = Instant::from_ns(number * early_period().ns());
  is_early_ = early_ > 0;
  if (is_early_) {
    --early_;
    drain_number_ = now.ns() / early_period().ns();
  }
  return true;
}

// On a path so long that drains are rare: the path may have become longer, and the window would shrink until the next
// one.
bool BaseRoundTrip::is_doubtful(const Round& round) {
  const bool beyond = round.limited && is_far_beyond(round.rtt, round.queueing);
  if (!beyond || rounds_beyond_ <= 0) undoubted_ = beyond ? round.window : 0;
  if (!beyond) rest_ = std::max(kConfig.doubt_rest_min, rest_ - 1);
  rounds_beyond_ = rounds_beyond_ < 0 || beyond ? rounds_beyond_ + 1 : 0;
  if (rounds_beyond_ < (round.spread ? 1 : kConfig.doubt_rounds) || !drains_are_rare()) return false;
  rounds_beyond_ = -rest_;
  rest_ = std::min(rest_ * 2, kConfig.doubt_rest_max);
  return true;
}

void BaseRoundTrip::begin_drain(Duration rtt, Duration lately, Duration queueing) {
  doubted_ = rtt - value() > queueing ? rtt : kNone;
  doubted_lately_ = lately;
}

// Packets of the drain were sent while the flight was at most half of the path's content. If the RTT is as long as
// before, this host's packets are not the cause.
BaseRoundTrip::Verdict BaseRoundTrip::judge(const Drained& drained, Instant now) {
  const bool emptied = is_emptied_by(drained.rtt);
  const Duration before = std::exchange(doubted_, kNone);
  const bool grew = doubted_lately_ - before > before / kConfig.grown_part;
  const bool collapsed = drained.lately + doubted_lately_ / kConfig.collapsed_part < doubted_lately_;
  if (before == kNone || grew || collapsed || emptied || is_early_ || !drained.may_be_longer) {
    const bool again =
        drains_are_rare() && is_far_beyond(drained.rtt, drained.queueing) && !std::exchange(once_more_, true);
    return again ? Verdict::kOnceMore : Verdict::kKept;
  }
  rounds_beyond_ = 0;
  rest_ = kConfig.doubt_rest_min;
  before_ = kNone;
  now_ = drained.rtt;
  period_start_ = now;
  return Verdict::kLonger;
}

}  // namespace brdma::congestion
