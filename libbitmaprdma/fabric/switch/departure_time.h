// fabric/switch/departure_time.h - the exact time at which bytes have left a transmitter. Fractions of a nanosecond are
// carried over from packet to packet, so that a rate is kept exactly for any length of run. Pure.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace brdma::fabric {

class DepartureTime {
 public:
  [[nodiscard]] Instant at() const { return at_; }

  // From now on: when `bytes` more (below 2^20) have left, starting no earlier than `from`. Precondition: rate.bps() >
  // 0.
  void extend(std::uint32_t bytes, Bandwidth rate, Instant from) {
    start_at(from);
    const std::uint64_t numerator = std::uint64_t{bytes} * 8 * 1'000'000'000 + fraction_;
    at_ = at_ + Duration::from_ns(static_cast<std::int64_t>(numerator / rate.bps()));
    fraction_ = numerator % rate.bps();
  }
  // No earlier than `from`: the transmitter was idle until then.
  void start_at(Instant from) {
    if (at_ > from) return;
    at_ = from;
    fraction_ = 0;
  }
  // At another rate the fraction has no meaning.
  void forget_fraction() { fraction_ = 0; }
  // After this one, in whole nanoseconds.
  [[nodiscard]] DepartureTime later_by(Duration duration) const {
    DepartureTime later;
    later.at_ = at_ + duration;
    return later;
  }

 private:
  Instant at_;
  std::uint64_t fraction_ = 0;  // of a nanosecond after at_, in units of 1/bps of the rate
};

}  // namespace brdma::fabric
