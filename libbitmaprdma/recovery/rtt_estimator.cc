#include "recovery/rtt_estimator.h"

#include <algorithm>

namespace brdma::recovery {

void RttEstimator::sample(Duration rtt, Instant now) {
  rtt = std::max(rtt, Duration{});
  note_peak(rtt, now);
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

// Halves only as samples come: a deadline that depends on it must not move by itself.
void RttEstimator::note_peak(Duration rtt, Instant now) {
  const std::int64_t halvings = std::clamp<std::int64_t>((now - peak_at_).ns() / kPeakHalfLife.ns(), 0, 62);
  peak_ = Duration::from_ns(peak_.ns() >> halvings);
  peak_at_ = peak_at_ + kPeakHalfLife * halvings;
  if (rtt < peak_) return;
  peak_ = rtt;
  peak_at_ = now;
}

Duration RttEstimator::retransmit_timeout(Duration floor, Duration ceiling, unsigned backoff) const {
  Duration timeout = has_sample() ? std::max({floor, srtt_ + rttvar_ * 4, peak_ * 3 / 2}) : floor;
  for (unsigned i = 0; i < backoff && timeout < ceiling; ++i) timeout = timeout * 2;  // stops: cannot overflow
  return std::min(timeout, ceiling);
}

Duration RttEstimator::probe_timeout(Duration floor) const { return std::max({floor, srtt_ * 2, peak_ * 5 / 4}); }

}  // namespace brdma::recovery
