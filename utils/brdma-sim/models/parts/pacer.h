// models/parts/pacer.h - when the next packet may leave, at a rate that is no whole number of nanoseconds a packet.
// Times inside are picoseconds: 1048 B at 100 Gbit/s take 83,840 ps, so that rounding does not slow a flow down.
#pragma once

#include "base/units.h"

namespace brdma::models {

class Pacer {
 public:
  // Rounded up to nanoseconds.
  [[nodiscard]] Instant ready() const { return Instant::from_ns((next_ps_ + kPsPerNs - 1) / kPsPerNs); }
  // gap_ps: from the begin of this packet to the begin of the next.
  void sent(std::int64_t gap_ps, Instant now) {
    const std::int64_t now_ps = now.ns() * kPsPerNs;
    const bool on_time = now_ps >= next_ps_ && now_ps - next_ps_ < kPsPerNs;  // late only by the rounding
    next_ps_ = (on_time ? next_ps_ : now_ps) + gap_ps;
  }

 private:
  static constexpr std::int64_t kPsPerNs = 1000;
  std::int64_t next_ps_ = 0;
};

}  // namespace brdma::models
