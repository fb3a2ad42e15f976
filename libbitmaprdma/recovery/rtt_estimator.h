// recovery/rtt_estimator.h - smoothed round-trip time, its variation and the timeouts made from them (RFC 6298's form,
// in integers: SRTT gains 1/8, RTTVAR 1/4). Pure: keeps the three values and nothing else.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace brdma::recovery {

class RttEstimator {
 public:
  // Of a packet sent once, or whose answer says which transmission it answers. Negative: taken as 0.
  void sample(Duration rtt);
  [[nodiscard]] bool has_sample() const { return samples_ > 0; }
  [[nodiscard]] Duration smoothed() const { return srtt_; }
  [[nodiscard]] Duration variation() const { return rttvar_; }
  [[nodiscard]] Duration minimum() const { return min_; }  // of all samples
  // max(floor, SRTT + 4 RTTVAR) << backoff, at most `ceiling`. Without a sample: floor << backoff.
  [[nodiscard]] Duration retransmit_timeout(Duration floor, Duration ceiling, unsigned backoff) const;
  // max(floor, 2 SRTT).
  [[nodiscard]] Duration probe_timeout(Duration floor) const;

 private:
  static constexpr std::uint32_t kSamplesCounted = 1;  // more need not be told apart
  Duration srtt_, rttvar_, min_;
  std::uint32_t samples_ = 0;
};

}  // namespace brdma::recovery
