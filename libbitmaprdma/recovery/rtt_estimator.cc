#include "recovery/rtt_estimator.h"

#include <algorithm>

namespace brdma::recovery {

void RttEstimator::sample(Duration measured, Instant now) {
  const auto rtt = static_cast<std::uint32_t>(std::clamp<std::int64_t>(measured.ns(), 0, kNone - 1));
  note_peak(rtt, now);
  if (!has_sample()) {
    srtt_ = rtt;
    rttvar_ = rtt / 2;
    min_ = rtt;
    return;
  }
  const std::uint32_t off = rtt > srtt_ ? rtt - srtt_ : srtt_ - rtt;
  rttvar_ = static_cast<std::uint32_t>((std::uint64_t{rttvar_} * 3 + off) / 4);
  srtt_ = static_cast<std::uint32_t>((std::uint64_t{srtt_} * 7 + rtt) / 8);
  min_ = std::min(min_, rtt);
}

// Halves only as samples come: a deadline that depends on it must not move by itself.
void RttEstimator::note_peak(std::uint32_t rtt, Instant now) {
  constexpr std::uint32_t kHalfLife = kPeakHalfLife.ns() >> kAgeShift;
  const auto age_now = static_cast<std::uint32_t>(now.ns() >> kAgeShift);
  const std::uint32_t halvings = (age_now - peak_at_) / kHalfLife;
  peak_ = halvings >= 32 ? 0 : peak_ >> halvings;
  peak_at_ += kHalfLife * halvings;
  if (rtt < peak_) return;
  peak_ = rtt;
  peak_at_ = age_now;
}

}  // namespace brdma::recovery
