// recovery/overtaking.h - was a retransmission lost as well? Packets of one path arrive in the order in which they
// left, but for what the network reorders. So once something has arrived that left after a retransmission, by more than
// packets of late have overtaken each other, the retransmission is lost: the sender need not wait for the receiver to
// ask again, and the order decides, not the clock: no delay of network or hosts looks like a loss.
//
// All times are those at which packets left. How far packets overtake each other is learnt from those that were sent
// once and came after later ones: at once upwards, halving every 134 ms. Pure, integers only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace brdma::recovery {

class Overtaking {
 public:
  // The packet that left at `echo` has arrived.
  void heard(Instant echo) {
    elapse(echo);
    newest_ = std::max(newest_, echo);
  }
  // Time passes also while nothing comes late.
  void elapse(Instant now) {
    const auto epoch = static_cast<std::uint32_t>(now.ns() >> kHalfLifeLog2);
    if (static_cast<std::int32_t>(epoch - epoch_) <= 0) return;
    late_ns_ >>= std::min(epoch - epoch_, 31u);
    epoch_ = epoch;
  }
  // A packet sent once, at `sent`, has arrived; it was missing when the last heard() was.
  void came_late(Instant sent, Duration ceiling) {
    const Duration late = newest_ - sent;
    const Duration wanted = std::clamp(late + late / 4, Duration{}, ceiling);
    late_ns_ = std::max(late_ns_, static_cast<std::uint32_t>(wanted.ns()));
  }
  // A packet that left at `sent` and is missing: has it been overtaken by more than packets are?
  [[nodiscard]] bool passed(Instant sent) const { return newest_ > sent + kGrain + tolerance(); }
  [[nodiscard]] bool at_rest() const { return late_ns_ == 0; }  // nothing is learnt that would be lost with it
  [[nodiscard]] Duration tolerance() const { return Duration::from_ns(late_ns_); }

  // The send window keeps times in units of 64 ns, rounded down; what left in one batch left at once.
  static constexpr Duration kGrain = Duration::from_ns(64);

 private:
  static constexpr unsigned kHalfLifeLog2 = 27;  // of a nanosecond: 134 ms

  Instant newest_;
  std::uint32_t late_ns_ = 0;
  std::uint32_t epoch_ = 0;  // up to which it was halved, in half-lives
};

}  // namespace brdma::recovery
