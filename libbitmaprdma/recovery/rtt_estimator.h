// recovery/rtt_estimator.h - smoothed round-trip time, its variation and the timeouts made from them (RFC 6298's form,
// in integers: SRTT gains 1/8, RTTVAR 1/4). Pure: keeps a few values and nothing else.
//
// Samples come many a round trip, so RTTVAR forgets within one or two. A host that loses its core for milliseconds now
// and then does so for longer than that: the longest RTT of late is kept apart, halving every kPeakHalfLife, and
// timeouts are longer than it.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace brdma::recovery {

class RttEstimator {
 public:
  // Of a packet sent once, or whose answer says which transmission it answers. Negative: taken as 0.
  void sample(Duration rtt, Instant now);
  [[nodiscard]] bool has_sample() const { return samples_ > 0; }
  [[nodiscard]] Duration smoothed() const { return srtt_; }
  [[nodiscard]] Duration variation() const { return rttvar_; }
  [[nodiscard]] Duration minimum() const { return min_; }  // of all samples
  [[nodiscard]] Duration peak() const { return peak_; }    // the longest of late
  // max(floor, SRTT + 4 RTTVAR, 3/2 peak) << backoff, at most `ceiling`. Without a sample: floor << backoff.
  [[nodiscard]] Duration retransmit_timeout(Duration floor, Duration ceiling, unsigned backoff) const;
  // max(floor, 2 SRTT, 5/4 peak).
  [[nodiscard]] Duration probe_timeout(Duration floor) const;

  static constexpr Duration kPeakHalfLife = Duration::from_ns(1 << 27);  // 134 ms

 private:
  void note_peak(Duration rtt, Instant now);

  static constexpr std::uint32_t kSamplesCounted = 1;  // more need not be told apart
  Duration srtt_, rttvar_, min_;
  Duration peak_;
  Instant peak_at_;  // of the sample, or of the last halving
  std::uint32_t samples_ = 0;
};

}  // namespace brdma::recovery
