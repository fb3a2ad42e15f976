// io/shard/arrival_clock.h - how long a datagram has waited in its socket. The kernel stamps arrivals (SO_TIMESTAMPNS)
// by CLOCK_REALTIME, which can be set; everything else here uses CLOCK_MONOTONIC. Their difference is read again every
// 10 ms, so after a step of the clock results are wrong for as long. One thread at a time.
#pragma once

#include <ctime>
#include <optional>

#include "base/units.h"
#include "io/shard/clock.h"

namespace brdma::io {

class ArrivalClock {
 public:
  // `stamp`: arrival, in ns of CLOCK_REALTIME. Returns 0 if unknown: no stamp (0), or not in the last second.
  [[nodiscard]] Duration waited(std::int64_t stamp, Instant now) {
    if (stamp == 0) return Duration{};
    if (!between_ || now - looked_at_ > kLookAgain) look(now);
    if (!between_) return Duration{};
    const Duration waited = now - Instant::from_ns(stamp - *between_);
    return waited > Duration{} && waited < kWaitedMax ? waited : Duration{};
  }

 private:
  static constexpr Duration kLookAgain = 10_ms, kWaitedMax = 1_s;
  // We may lose our core between the two reads of the clocks.
  static constexpr Duration kApart = 2_us;
  static constexpr int kTries = 4;

  void look(Instant now) {
    looked_at_ = now;
    for (int i = 0; i < kTries; ++i) {
      const Instant before = monotonic_now();
      timespec real{};
      clock_gettime(CLOCK_REALTIME, &real);
      if (monotonic_now() - before > kApart) continue;
      between_ = std::int64_t{real.tv_sec} * 1'000'000'000 + real.tv_nsec - before.ns();
      return;
    }
  }

  std::optional<std::int64_t> between_;  // realtime less monotonic, ns
  Instant looked_at_;
};

}  // namespace brdma::io
