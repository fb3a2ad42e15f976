// recovery/rtt_estimator.h - smoothed round-trip time, its variation and the timeouts made from them (RFC 6298's form,
// in integers).
#pragma once

#include <optional>

#include "base/units.h"

namespace brdma::recovery {

class RttEstimator {
 public:
  void sample(Duration rtt);
  [[nodiscard]] bool has_sample() const { return samples_ > 0; }
  [[nodiscard]] Duration smoothed() const { return srtt_; }
  [[nodiscard]] Duration variation() const { return rttvar_; }
  [[nodiscard]] Duration minimum() const { return min_; }
  // max(floor, SRTT + 4 RTTVAR) << backoff, at most `ceiling`.
  [[nodiscard]] Duration retransmit_timeout(Duration floor, Duration ceiling, unsigned backoff) const;
  // max(floor, 2 SRTT).
  [[nodiscard]] Duration probe_timeout(Duration floor) const;

 private:
  Duration srtt_, rttvar_, min_;
  std::uint32_t samples_ = 0;
};

}  // namespace brdma::recovery
