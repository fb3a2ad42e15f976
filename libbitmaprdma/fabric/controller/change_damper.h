// fabric/controller/change_damper.h - how soon a prefix's routes may change again when nothing is broken: not within
// `dwell` of the last change, and twice as long after each change that followed soon upon another, `dwell_max` at most.
// After as long again without a change the wait is halved. Repairs are not held back, but count.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/units.h"

namespace brdma::fabric::controller {

struct DampingLimits {
  Duration dwell = 1_s, dwell_max = 60_s;
};

class ChangeDamper {
 public:
  [[nodiscard]] Instant free_at(const DampingLimits& limits) const { return last_ ? *last_ + wait(limits) : Instant{}; }
  void changed(const DampingLimits& limits, Instant now) {
    if (last_) {
      const Duration quiet = now - *last_;
      if (quiet < wait(limits) * 2) {
        level_ = std::min(level_ + 1, kLevelMax);
      } else {
        // Each halving takes as long as the wait that it ends.
        for (Duration left = quiet - wait(limits); level_ > 0 && left >= wait(limits);) {
          left = left - wait(limits);
          --level_;
        }
      }
    }
    last_ = now;
  }
  [[nodiscard]] Duration wait(const DampingLimits& limits) const {
    Duration wait = limits.dwell;
    for (std::uint32_t i = 0; i < level_ && wait < limits.dwell_max; ++i) wait = wait * 2;
    return std::min(wait, limits.dwell_max);
  }

 private:
  static constexpr std::uint32_t kLevelMax = 16;
  std::optional<Instant> last_;
  std::uint32_t level_ = 0;
};

}  // namespace brdma::fabric::controller
