// recovery/gap_judge.h - is a gap reordering or loss? (spec 1: telling reordering from loss)  Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>

#include "base/units.h"

namespace brdma::recovery {

enum class LossCause : std::uint8_t { kDepth = 1, kAge = 2, kStall = 3, kSamePath = 4, kImmediate = 5 };

struct GapLimits {
  std::uint32_t depth_max = 8;
  Duration age_max = 50_us;
  Duration stall_max = 80_us;
};

struct GapFacts {
  std::uint32_t depth = 0;  // highest PSN received minus the gap's start PSN
  bool same_path_passed =
      false;  // only where several paths are in use: a later packet of the gap's own path has arrived
  Instant first_seen;
  Instant base_stuck_since;
};

struct Lost {
  LossCause cause;
};
struct WaitUntil {
  Instant retry_at;  // > now: the first instant at which time alone changes the answer; else a timer would spin
};
using GapVerdict = std::variant<Lost, WaitUntil>;

[[nodiscard]] inline GapVerdict judge(const GapFacts& gap, const GapLimits& limits, Instant now) {
  if (gap.depth > limits.depth_max) return Lost{LossCause::kDepth};
  if (gap.same_path_passed) return Lost{LossCause::kSamePath};
  const Instant too_old = gap.first_seen + limits.age_max + kTick;  // "more than" the limit: one tick later
  const Instant too_stuck = gap.base_stuck_since + limits.stall_max + kTick;
  if (now >= too_old) return Lost{LossCause::kAge};
  if (now >= too_stuck) return Lost{LossCause::kStall};
  return WaitUntil{std::min(too_old, too_stuck)};
}

}  // namespace brdma::recovery
