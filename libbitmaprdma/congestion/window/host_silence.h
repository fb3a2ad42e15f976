// congestion/window/host_silence.h - private to the delay window: times in which a process at either end had no core.
// Seen as a silence, without an acknowledgement although the window was full; or as a packet's wait in the hosts.
#pragma once

#include <algorithm>
#include <optional>

#include "base/units.h"
#include "congestion/window/delivered_rate.h"

namespace brdma::congestion {

class HostSilence {
 public:
  // Since the acknowledgement before this one; counted if the window was full.
  [[nodiscard]] Duration on_acknowledgement(bool full, Instant now);
  // That was one.
  void note(Duration silence, Instant now);
  void halve() { longest_ = longest_ / 2; }
  // A packet waited in the hosts for longer than the target of queueing: one of them was absent. Packets that collected
  // meanwhile leave in a burst. If a queue drops some of those, it need not be one that many flows share.
  void on_absence(Instant now) { absent_at_ = now; }
  [[nodiscard]] bool was_absent(Duration base_rtt, Instant now) const;

  [[nodiscard]] Duration longest() const { return longest_; }  // recent; halved every 134 ms
  [[nodiscard]] Instant acknowledged_at() const { return acknowledged_; }
  // The bridge, in a silence that lasts (delay_window.h).
  [[nodiscard]] std::uint64_t bridge_bytes(const DeliveredRate& rate, Duration rtt, Instant now) const;
  [[nodiscard]] std::optional<Instant> next_bridge(const DeliveredRate& rate, Duration rtt,
                                                   std::uint64_t bridged) const;

 private:
  Instant acknowledged_;
  Duration longest_{};
  Instant longest_at_;
  std::optional<Instant> absent_at_;
};

}  // namespace brdma::congestion
