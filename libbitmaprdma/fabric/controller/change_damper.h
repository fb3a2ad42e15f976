// fabric/controller/change_damper.h - damping of route changes while nothing is broken. A prefix's routes change no
// sooner than `dwell` after the last change; each change soon after another doubles the wait, up to `dwell_max`. After
// as long again without a change the wait is halved. Repairs are not delayed, but count.
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
