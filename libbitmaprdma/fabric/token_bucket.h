// fabric/token_bucket.h - bounds how often something is done: at most `burst` times at once, and `per_second` times a
// second in the long run. Full at the start, also where the owner's clock begins at 0. Kept as one time: that of the
// next one, were there no bursts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/check.h"
#include "base/units.h"

namespace brdma::fabric {

class TokenBucket {
 public:
  // 1 to 1e9 a second; a burst of at least 1.
  TokenBucket(std::uint32_t per_second, std::uint32_t burst) : burst_(burst) {
    BRDMA_CHECK(per_second > 0 && per_second <= 1'000'000'000 && burst > 0);
    each_ = Duration::from_ns(1'000'000'000 / std::int64_t{per_second});
  }
  [[nodiscard]] bool has_token(Instant now) const { return next(now) <= now; }
  // Precondition: has_token().
  void take(Instant now) { next_without_burst_ = next(now) + each_; }

 private:
  [[nodiscard]] Instant next(Instant now) const {
    return std::max(next_without_burst_, now - each_ * (std::int64_t{burst_} - 1));
  }
  Duration each_;
  std::uint32_t burst_;
  Instant next_without_burst_ = Instant::from_ns(std::numeric_limits<std::int64_t>::min());  // long ago: it is full
};

}  // namespace brdma::fabric
