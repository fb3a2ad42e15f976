#include "control/alarms.h"

#include "trace/retransmissions.h"

namespace brdma::control {
namespace {

constexpr std::uint64_t kPacketsMin = 100;  // fewer make no ratio

std::uint64_t percent(std::uint64_t part, std::uint64_t whole) { return whole == 0 ? 0 : part * 100 / whole; }

}  // namespace

std::uint32_t AlarmThresholds::of(Alarm alarm) const {
  switch (alarm) {
#define BRDMA_X(name, text, setting) \
  case Alarm::name:                  \
    return setting;
    BRDMA_ALARMS(BRDMA_X)
#undef BRDMA_X
  }
  return 0;
}

std::uint64_t AlarmBook::measure(Alarm alarm, const AlarmFacts& facts, Instant now) {
  switch (alarm) {
    case Alarm::kRetransmissions: {
      const std::uint64_t sent =
          facts.statistics.get(Counter::kSentDataPackets) - before_.get(Counter::kSentDataPackets);
      return sent < kPacketsMin ? 0 : percent(retransmitted(facts.statistics) - retransmitted(before_), sent);
    }
    case Alarm::kQueuePairs:
      return percent(facts.queue_pairs, facts.queue_pairs_max);
    case Alarm::kState:
      return percent(facts.state_bytes, facts.state_bytes_max);
    case Alarm::kStall: {
      const bool stalled = facts.statistics.get(Counter::kStallsBegun) > facts.statistics.get(Counter::kStallsEnded);
      if (!stalled) {
        stalled_since_.reset();
        return 0;
      }
      if (!stalled_since_) stalled_since_ = now;
      return static_cast<std::uint64_t>((now - *stalled_since_).ns()) / 1'000'000'000;
    }
  }
  return 0;
}

std::vector<AlarmChange> AlarmBook::evaluate(const AlarmFacts& facts, const AlarmThresholds& thresholds, Instant now) {
  std::vector<AlarmChange> changes;
  for (std::size_t i = 0; i < kAlarmCount; ++i) {
    const auto alarm = static_cast<Alarm>(i);
    const std::uint64_t value = values_[i] = measure(alarm, facts, now);
    const std::uint64_t threshold = thresholds.of(alarm);
    const bool rises = threshold != 0 && (alarm == Alarm::kStall ? value >= threshold : value > threshold);
    const bool falls = threshold == 0 || (alarm == Alarm::kStall ? value == 0 : value <= threshold * 3 / 4);
    if (raised_[i] ? !falls : !rises) continue;
    raised_[i] = !raised_[i];
    changes.push_back({alarm, raised_[i], value, threshold});
  }
  before_ = facts.statistics;
  return changes;
}

}  // namespace brdma::control
