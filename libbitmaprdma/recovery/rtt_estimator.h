// recovery/rtt_estimator.h - smoothed round-trip time, its variation and the timeouts derived from them (RFC 6298's
// form, in integers: SRTT gains 1/8, RTTVAR 1/4). Pure: keeps a few values and nothing else.
//
// Samples come many a round trip, so RTTVAR forgets within one or two. A host that loses its core for milliseconds does
// so again later than that. So the longest recent RTT is kept apart, halving every kPeakHalfLife, and timeouts are
// longer than it.
//
// 20 bytes, as there are two in each queue pair and one in each of its paths: times are kept in 32 bits, nanoseconds up
// to 4.29 s (longer ones count as that), and the age of the peak in milliseconds, by differences alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace brdma::recovery {

// Others are ignored: a clock was set, or an echo was damaged.
[[nodiscard]] inline bool is_possible_round_trip(Duration measured) {
  constexpr Duration kMax = 30_s;
  return measured > Duration{} && measured < kMax;
}

class RttEstimator {
 public:
  // Of a packet sent once, or whose reply identifies the transmission. Negative: taken as 0.
  void sample(Duration measured, Instant now);
  [[nodiscard]] bool has_sample() const { return min_ != kNone; }
  [[nodiscard]] Duration smoothed() const { return Duration::from_ns(srtt_); }
  [[nodiscard]] Duration variation() const { return Duration::from_ns(rttvar_); }
  [[nodiscard]] Duration minimum() const { return has_sample() ? Duration::from_ns(min_) : Duration{}; }  // of all
  [[nodiscard]] Duration peak() const { return Duration::from_ns(peak_); }  // longest recent sample
  // max(floor, SRTT + 4 RTTVAR, 3/2 peak) << backoff, at most `ceiling`. Without a sample: floor << backoff.
  [[nodiscard]] Duration retransmit_timeout(Duration floor, Duration ceiling, unsigned backoff) const;
  // max(floor, 2 SRTT, 5/4 peak).
  [[nodiscard]] Duration probe_timeout(Duration floor) const;

  static constexpr Duration kPeakHalfLife = Duration::from_ns(1 << 27);  // 134 ms

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr int kAgeShift = 20;  // 2^20 ns, a millisecond
  void note_peak(std::uint32_t rtt, Instant now);

  std::uint32_t srtt_ = 0, rttvar_ = 0, min_ = kNone;  // ns
  std::uint32_t peak_ = 0;
  std::uint32_t peak_at_ = 0;  // of the sample, or of the last halving, in 2^20 ns
};

inline Duration RttEstimator::retransmit_timeout(Duration floor, Duration ceiling, unsigned backoff) const {
  Duration timeout = has_sample() ? std::max({floor, smoothed() + variation() * 4, peak() * 3 / 2}) : floor;
  for (unsigned i = 0; i < backoff && timeout < ceiling; ++i) timeout = timeout * 2;  // stops: cannot overflow
  return std::min(timeout, ceiling);
}

inline Duration RttEstimator::probe_timeout(Duration floor) const {
  return std::max({floor, smoothed() * 2, peak() * 5 / 4});
}

}  // namespace brdma::recovery
