// recovery/overtaking.h - was a retransmission lost as well? Packets of one path arrive in the order of transmission,
// except for reordering by the network. If a packet has arrived that left after a retransmission, by more than packets
// recently overtook each other, the retransmission is lost. The sender need not wait for the receiver to request it
// again. The order decides, not the clock: no delay of network or hosts looks like a loss.
//
// All times are send times. The distance of overtaking is learnt from packets that were sent once and came after later
// ones: at once upwards, halving every 134 ms. Pure, integers only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace brdma::recovery {

class Overtaking {
 public:
  // The packet that left at `echo` has arrived.
  void on_echo(Instant echo) {
    elapse(echo);
    newest_ = std::max(newest_, echo);
  }
  // Time also passes while no packet comes late.
  void elapse(Instant now) {
    const auto epoch = static_cast<std::uint32_t>(now.ns() >> kHalfLifeLog2);
    if (static_cast<std::int32_t>(epoch - epoch_) <= 0) return;
    late_ns_ >>= std::min(epoch - epoch_, 31u);
    epoch_ = epoch;
  }
  // A packet sent once, at `sent`, has arrived; it was missing at the last echo.
  void came_late(Instant sent, Duration ceiling) {
    const Duration late = newest_ - sent;
    const Duration wanted = std::clamp(late + late / 4, Duration{}, ceiling);
    late_ns_ = std::max(late_ns_, static_cast<std::uint32_t>(wanted.ns()));
  }
  // A missing packet that left at `sent`: has it been overtaken by more than the tolerance?
  [[nodiscard]] bool passed(Instant sent) const { return newest_ > sent + kGrain + tolerance(); }
  [[nodiscard]] bool at_rest() const { return late_ns_ == 0; }  // nothing learnt would be lost with it
  [[nodiscard]] Duration tolerance() const { return Duration::from_ns(late_ns_); }

  // The send window keeps times in units of 64 ns, rounded down; the packets of one batch left at the same time.
  static constexpr Duration kGrain = Duration::from_ns(64);

 private:
  static constexpr unsigned kHalfLifeLog2 = 27;  // of a nanosecond: 134 ms

  Instant newest_;
  std::uint32_t late_ns_ = 0;
  std::uint32_t epoch_ = 0;  // up to which it was halved, in half-lives
};

}  // namespace brdma::recovery
