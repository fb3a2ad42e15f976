// io/poll/distrust.h - for how long a program is not believed that it takes its packets itself: it came too late. Twice
// as long each time, since a machine that was short of cores for a while makes a program that comes look like one that
// does not. Not thread-safe: the shard's lock is held.
#pragma once

#include <algorithm>
#include <optional>

#include "base/units.h"

namespace brdma::io {

class Distrust {
 public:
  static constexpr Duration kMin = 100_ms, kMax = 60_s;

  void begin(Instant now) {
    until_ = now + next_;
    next_ = std::min(next_ * 2, kMax);
  }
  [[nodiscard]] bool holds() const { return until_.has_value(); }
  // True: it is over.
  bool ends(Instant now) {
    if (now < *until_) return false;
    until_.reset();
    return true;
  }

 private:
  std::optional<Instant> until_;
  Duration next_ = kMin;
};

}  // namespace brdma::io
