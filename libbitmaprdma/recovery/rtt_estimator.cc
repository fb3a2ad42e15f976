#include "recovery/rtt_estimator.h"

#include <algorithm>

namespace brdma::recovery {

void RttEstimator::sample(Duration rtt) {
  rtt = std::max(rtt, Duration{});
  if (samples_ == 0) {
    srtt_ = rtt;
    rttvar_ = rtt / 2;
    min_ = rtt;
  } else {
    const Duration off = rtt > srtt_ ? rtt - srtt_ : srtt_ - rtt;
    rttvar_ = (rttvar_ * 3 + off) / 4;
    srtt_ = (srtt_ * 7 + rtt) / 8;
    min_ = std::min(min_, rtt);
  }
  if (samples_ < kSamplesCounted) ++samples_;
}

Duration RttEstimator::retransmit_timeout(Duration floor, Duration ceiling, unsigned backoff) const {
  Duration timeout = has_sample() ? std::max(floor, srtt_ + rttvar_ * 4) : floor;
  for (unsigned i = 0; i < backoff && timeout < ceiling; ++i) timeout = timeout * 2;  // stops: cannot overflow
  return std::min(timeout, ceiling);
}

Duration RttEstimator::probe_timeout(Duration floor) const { return std::max(floor, srtt_ * 2); }

}  // namespace brdma::recovery
