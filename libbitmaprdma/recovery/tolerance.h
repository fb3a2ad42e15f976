// recovery/tolerance.h - the limits for judging gaps, learnt from the path's reordering (goes beyond BR-16, whose
// limits are fixed). On a path that reorders further than the limits the receiver requests packets that are still in
// flight; on one that never reorders waiting costs time. So:
//
//   up, at once   a packet was only late, whether its gap still waited or was judged lost (a misjudgement): limits rise
//                 to 5/4 of its lateness, in packets and in time
//   down, slowly  at the end of each period: an eighth of the way to the need of the last two periods
//   bounds        never below the reference, never above the ceilings; the time ceiling is at least one recovery time
//
// Pure, integers only: arrivals and times are arguments. One per path, or per queue pair where paths are not
// distinguished.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "recovery/gap_judge.h"

namespace brdma::recovery {

struct ToleranceConfig {
  GapLimits reference{};  // where it begins, and returns to
  bool adaptive = true;   // false: the reference limits always
  std::uint32_t depth_ceiling = 1024;
  Duration time_ceiling = 1_ms;  // of age and of stall, unless a recovery takes longer; 0: the reference
  Duration period = 64_ms;
};

// Lateness of a packet.
struct Lateness {
  std::uint32_t depth = 0;  // the highest PSN minus its own
  Duration age;             // since its gap was first seen
  Duration stall;           // since the stall of the base began, where its gap was at the base
};

class Tolerance {
 public:
  explicit Tolerance(const ToleranceConfig& config);

  [[nodiscard]] const GapLimits& limits() const { return limits_; }
  // Limits at `now`, if no packet comes late until then.
  [[nodiscard]] GapLimits limits_at(Instant now) const {
    Tolerance then{*this};
    then.elapse(now);
    return then.limits_;
  }
  // Nothing is learnt: a new object would be the same.
  [[nodiscard]] bool at_rest() const { return limits_ == config_.reference && before_ == Need{} && now_ == Need{}; }
  // Other reference limits and bounds from now on. The learnt part beyond the old reference stays, within the new
  // bounds.
  void configure(const ToleranceConfig& config);
  // A packet came that had not been lost. `repair`: time from requesting a packet until it comes, if known: waiting
  // that long is no slower. Not for retransmissions. True: limits() has risen.
  bool came_late(const Lateness& lateness, Instant now, Duration repair = {});
  // Lets periods end. Cheap; to be called periodically, with a time that never goes back.
  void elapse(Instant now);

 private:
  struct Need {  // lateness of a period; 0: no packet came late
    std::uint32_t depth = 0;
    Duration age, stall;
    friend bool operator==(const Need&, const Need&) = default;
  };
  [[nodiscard]] static Need larger(const Need& one, const Need& other);
  [[nodiscard]] bool raise(const Need& need);
  void lower(const Need& need);

  ToleranceConfig config_;
  GapLimits limits_;
  Need before_, now_;  // of the last whole period, of this one
  bool period_begun_ = false;
  Instant period_end_;
};

}  // namespace brdma::recovery
