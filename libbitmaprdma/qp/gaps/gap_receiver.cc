#include "qp/gaps/gap_receiver.h"

namespace brdma::qp {
namespace {

using bitmap::GapRecord;
using bitmap::GapState;
using recovery::LossCause;
using Copy = LateArrival::Copy;

Counter promotion_counter(LossCause cause) {
  switch (cause) {
    case LossCause::kAge:
      return Counter::kGapsPromotedAge;
    case LossCause::kStall:
      return Counter::kGapsPromotedStall;
    case LossCause::kSamePath:
      return Counter::kGapsPromotedPath;
    case LossCause::kRequested:
      return Counter::kGapsPromotedRequest;
    case LossCause::kDepth:
    case LossCause::kImmediate:
      break;
  }
  return Counter::kGapsPromotedDepth;
}

}  // namespace

recovery::ToleranceConfig tolerance_config(const RecoveryConfig& config) {
  return {.reference = {.depth_max = config.depth_max,
                        .age_max = config.age_max,
                        .stall_max = config.stall_max,
                        .stall_packets = config.stall_packets},
          .adaptive = config.adaptive,
          .depth_ceiling = config.depth_ceiling,
          .time_ceiling = config.time_ceiling};
}

recovery::GapLimits gap_limits(const ReceivePaths* paths, const recovery::LearntTolerance& tolerance,
                               const RecoveryConfig& config) {
  return paths != nullptr ? paths->limits() : tolerance.limits(tolerance_config(config));
}

recovery::GapLimits gap_limits_at(const ReceivePaths* paths, const recovery::LearntTolerance& tolerance,
                                  const RecoveryConfig& config, Instant now) {
  return paths != nullptr ? paths->limits_at(now) : tolerance.limits_at(tolerance_config(config), now);
}

void GapReceiver::open(Psn before, Psn psn, std::uint8_t path, Instant seen, Instant base_moved, Instant now) const {
  parts_.gaps.open(before, psn, path, seen, base_moved);
  const auto length = static_cast<std::uint32_t>(distance(psn, before) - 1);
  parts_.env.count(Counter::kGapsSeen);
  parts_.env.trace(now, parts_.identity.qpn, trace::GapSeen{before + 1, length});
  parts_.tolerance.elapse(seen);
  if (parts_.paths != nullptr) parts_.paths->elapse(seen);
}

std::optional<GapReceiver::Filled> GapReceiver::fill(const LateArrival& arrival, Instant now) const {
  const std::size_t records = parts_.gaps.size();
  const auto filled = parts_.gaps.fill(arrival.psn);
  if (!filled.found) return std::nullopt;
  Environment& env = parts_.env;
  if (parts_.gaps.size() > records) env.count(Counter::kGapsSeen);  // one has become two
  const bool again = arrival.copy == Copy::kRetransmitted, waiting = filled.state == GapState::kWaiting;
  if (filled.closed && (again || waiting)) env.count(again ? Counter::kGapsRecovered : Counter::kGapsClosed);
  if (arrival.learns && arrival.copy == Copy::kOriginal) learn(arrival, filled);
  if (!again && waiting && filled.closed && beyond_one_path(arrival, filled.first_seen))
    env.count(Counter::kCrossPathWaits);
  const bool misjudged = !again && !waiting && arrival.learns;
  if (misjudged) {
    env.count(Counter::kMisjudgementCorrections);
    env.note(now, parts_.identity.qpn, trace::EventType::kMisjudgement, arrival.psn.value());
  }
  return Filled{filled.closed, misjudged, filled};
}

// Late, not lost: the limits grow to what would have waited for it.
void GapReceiver::learn(const LateArrival& arrival, const bitmap::GapTable::Filled& filled) const {
  recovery::Lateness lateness{.depth = arrival.depth, .age = arrival.seen - filled.first_seen, .stall = {}};
  if (is_at_base(filled.start)) lateness.stall = arrival.seen - stall_begin(filled.base_stuck_since, filled.first_seen);
  const bool raised =
      parts_.paths != nullptr
          ? parts_.paths->came_late(arrival.path, arrival.psn, lateness.age, arrival.seen, arrival.recovery_time)
          : parts_.tolerance.came_late(tolerance_config(*parts_.identity.recovery), lateness, arrival.seen,
                                       arrival.recovery_time);
  if (raised) parts_.env.count(Counter::kToleranceRaised);
}

// Would the gap, which closes now, have counted as lost on a single path?
bool GapReceiver::beyond_one_path(const LateArrival& arrival, Instant first_seen) const {
  const RecoveryConfig& config = *parts_.identity.recovery;
  return parts_.paths != nullptr && (arrival.depth > config.depth_max || arrival.seen - first_seen > config.age_max);
}

bool GapReceiver::note_path_evidence(const wire::Bxth& bxth, Psn psn, Instant seen) const {
  bitmap::GapTable& gaps = parts_.gaps;
  const std::size_t records = gaps.size();
  bool look = parts_.paths->attribute(bxth, psn, gaps);
  if (gaps.size() > records) parts_.env.count(Counter::kGapsSeen, gaps.size() - records);  // one has become several
  // The oldest that waits without a known path: where not all have passed it, they have passed none behind it.
  for (std::size_t i = gaps.first_waiting(); !look && i < gaps.size(); ++i) {
    if (gaps[i].state != GapState::kWaiting || gaps[i].path_known) continue;
    look = parts_.paths->laggard_passed(bxth.path, gaps[i], seen);
    break;
  }
  for (std::size_t i = gaps.first_waiting(); look && i < gaps.size(); ++i) {
    if (gaps[i].state == GapState::kWaiting) gaps[i].path_passed = parts_.paths->passed(gaps[i], seen);
  }
  return look;
}

recovery::GapVerdict GapReceiver::judge(const GapRecord& gap, std::uint32_t depth, const recovery::GapLimits& limits,
                                        Instant seen) const {
  // The base stands because of the first gap, not of those behind it.
  const auto since = stalls_since(gap);
  return recovery::judge({.depth = depth,
                          .same_path_passed = gap.path_passed,
                          .first_seen = gap.first_seen,
                          .base_stuck_since = since.value_or(seen),
                          .later_packets = since ? gap.later_packets : 0},
                         limits, seen);
}

void GapReceiver::promote(GapRecord& gap, LossCause cause, Instant now) const {
  gap.state = GapState::kPromoted;
  gap.cause = static_cast<std::uint8_t>(cause);
  parts_.env.count(promotion_counter(cause));
  parts_.env.note(now, parts_.identity.qpn, trace::EventType::kGapPromoted, gap.start.value(), gap.length,
                  static_cast<std::uint64_t>(cause));
  parts_.env.trace(now, parts_.identity.qpn, trace::GapPromoted{gap.start, gap.length, gap.cause});
}

std::optional<Instant> GapReceiver::stalls_since(const GapRecord& gap) const {
  if (!is_at_base(gap.start)) return std::nullopt;
  return stall_begin(gap.base_stuck_since, gap.first_seen);
}

}  // namespace brdma::qp
