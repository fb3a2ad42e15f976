// recovery/tolerance.h - the limits that gaps are judged by, learnt from what a path does (goes beyond spec 1, whose
// limits are fixed). A path that reorders further than the limits makes its receiver ask for packets that are on their
// way; one that never does loses time in waiting. So:
//
//   up, at once   a packet that was only late, whether its gap still waited or was taken for lost (a misjudgement):
//                 limits rise to 5/4 of how late it was, in packets and in time
//   down, slowly  at the end of each period: an eighth of the way to what the last two periods asked for
//   bounds        never below the reference, never above the ceilings; that of times is at least what a repair takes
//
// Pure, integers only: told what came and when. One per path, or per queue pair where paths are not told apart.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "recovery/gap_judge.h"

namespace brdma::recovery {

struct ToleranceConfig {
  GapLimits reference{};  // where it begins, and what it comes back to
  bool adaptive = true;   // false: the reference limits always
  std::uint32_t depth_ceiling = 1024;
  Duration time_ceiling = 1_ms;  // of age and of stall, unless a repair takes longer; 0: the reference
  Duration period = 64_ms;
};

// How late a packet was.
struct Lateness {
  std::uint32_t depth = 0;  // the highest PSN minus its own
  Duration age;             // since its gap was first seen
  Duration stall;           // since the stall of the base began, where its gap was at the base
};

class Tolerance {
 public:
  explicit Tolerance(const ToleranceConfig& config);

  [[nodiscard]] const GapLimits& limits() const { return limits_; }
  // As they will be at `now`, if nothing comes late until then.
  [[nodiscard]] GapLimits limits_at(Instant now) const {
    Tolerance then{*this};
    then.elapse(now);
    return then.limits_;
  }
  // Nothing is learnt: one that is made anew would be the same.
  [[nodiscard]] bool at_rest() const { return limits_ == config_.reference && before_ == Need{} && now_ == Need{}; }
  // Other reference limits and bounds from now on. What was learnt beyond the old reference stays, within the new
  // bounds.
  void configure(const ToleranceConfig& config);
  // A packet came that had not been lost. `repair`: how long it takes from asking for a packet until it comes, where
  // that is known: as long as that, waiting is no slower. Not for retransmissions. True: limits() has risen.
  bool came_late(const Lateness& lateness, Instant now, Duration repair = {});
  // Lets periods end. Cheap; to be called now and then, with a time that never goes back.
  void elapse(Instant now);

 private:
  struct Need {  // what the lateness of a period asks for; 0: nothing came late
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
