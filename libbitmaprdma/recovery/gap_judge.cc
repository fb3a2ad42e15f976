#include "recovery/gap_judge.h"

namespace brdma::recovery {

std::string_view name(LossCause cause) {
  switch (cause) {
    case LossCause::kDepth:
      return "depth";
    case LossCause::kAge:
      return "age";
    case LossCause::kStall:
      return "stall";
    case LossCause::kSamePath:
      return "same_path";
    case LossCause::kImmediate:
      return "immediate";
    case LossCause::kRequested:
      return "requested";
  }
  return "unknown";
}

GapVerdict judge(const GapFacts& gap, const GapLimits& limits, Instant now) {
  if (gap.depth > limits.depth_max) return Lost{LossCause::kDepth};
  if (gap.same_path_passed) return Lost{LossCause::kSamePath};
  const Instant too_old = gap.first_seen + limits.age_max + kTick;  // "more than" the limit: one tick later
  const Instant too_stuck = gap.base_stuck_since + limits.stall_max + kTick;
  if (now >= too_old) return Lost{LossCause::kAge};
  if (now >= too_stuck || (limits.stall_packets != 0 && gap.later_packets > limits.stall_packets))
    return Lost{LossCause::kStall};
  return WaitUntil{std::min(too_old, too_stuck)};
}

}  // namespace brdma::recovery
