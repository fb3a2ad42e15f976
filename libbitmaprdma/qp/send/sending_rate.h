// qp/send/sending_rate.h - private: how fast requests leave, beside the congestion window. With a rate control
// (congestion/rate_control.h): at its rate. With a window: at once, or over a round trip.
//
// Spread: on a long path the queue before the slowest link holds a small part of the data in flight. A window's worth
// of retransmissions at once, or the first window after a silence, would be dropped there. A window longer than the
// path, sent at once, fills and empties that queue within a round trip. The shortest RTT sample then shows no queue at
// all, so the window would grow.
//
// While the window doubles, its rate is twice the window a round trip. Then it is a sixteenth more than the recent
// delivered rate, to find free capacity. An excess shows two round trips later; by then an eighth of the path's content
// waits in its queue. While no queue shows, a millisecond's worth is added, up to a quarter in all. Late
// acknowledgements end a round that late on a busy host, and a path of 10 ms is then measured a tenth too low; with a
// sixteenth alone the rate would fall from round to round on a nearly empty path.
//
// One of many flows behind a short queue (congestion/window/crowding.h): on any path packet by packet, at the window in
// the latest round trip. Its window may be a part of a packet.
//
// A burst of a sixteenth of the window compensates for a late timer: on a busy host it is late by milliseconds.
#pragma once

#include <cstdint>
#include <memory>

#include "base/units.h"
#include "congestion/delay_window.h"
#include "qp/send/congestion_state.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "recovery/rtt_estimator.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class SendingRate {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    const recovery::RttEstimator& rtt;
    congestion::DelayWindow& congestion;  // of requests
    congestion::DelayWindow& responses;   // of the return path
    std::unique_ptr<CongestionState>& signals;
  };
  explicit SendingRate(const Parts& parts) : parts_(parts) {}

  // The settings may name another control, or the same with other numbers: either restarts. The window goes on
  // measuring the path whatever bounds the sending.
  void configure() const;
  // An RTT sample. `base`: the path's RTT without queues.
  [[gnu::always_inline]] void on_round_trip(Duration round_trip, Duration base, Instant now) const {
    if (parts_.signals && parts_.signals->rate) [[unlikely]]
      parts_.signals->rate->on_round_trip(round_trip, base, now);
  }
  // The window leaves over a round trip, or is to.
  [[nodiscard, gnu::always_inline]] bool may_spread() const {
    return parts_.signals || wants_spreading() || wants_bounded_bursts() || parts_.congestion.is_paced();
  }
  // The window has taken a sample, and has `window` bytes: does it leave over a round trip, and how fast? Nothing to do
  // unless may_spread().
  void spread(std::uint64_t window, Instant now) const;

 private:
  // On paths from this length on a window is always spread: data that an application posts when a gap has closed, and
  // everything behind it completed at once, would leave as one burst, which no queue in front of it holds.
  static constexpr Duration kSpreadFrom = 8_ms;
  // On shorter paths, from this length on, only bursts are bounded: a host that gets its processor back after a while
  // has a whole window to send at once, which overflows a queue that is shorter than the window. A quarter of the
  // window leaves at once, the rest at twice the rate of the window.
  static constexpr Duration kBoundBurstsFrom = 1_ms;

  [[nodiscard]] bool is_spread() const { return parts_.signals && parts_.signals->spread; }
  // Requested, or the path is long.
  [[nodiscard, gnu::always_inline]] bool wants_spreading() const {
    const RecoveryConfig& config = *parts_.id.recovery;
    if (config.congestion.control != CongestionControl::kWindow)
      return config.congestion.control == CongestionControl::kPaced;
    const bool spreads = is_spread() && parts_.signals->whole;
    return waits_for_delays(config.mode) || parts_.congestion.base_rtt() >= (spreads ? kSpreadFrom / 2 : kSpreadFrom);
  }
  [[nodiscard, gnu::always_inline]] bool wants_bounded_bursts() const {
    return parts_.id.recovery->congestion.control == CongestionControl::kWindow &&
           parts_.congestion.base_rtt() >= (is_spread() ? kBoundBurstsFrom / 2 : kBoundBurstsFrom);
  }
  [[nodiscard]] bool wants_rate() const {
    return wants_spreading() || wants_bounded_bursts() || parts_.congestion.is_paced();
  }
  void choose_spreading() const;
  void space_packets(std::uint64_t window, Instant now) const;

  Parts parts_;
};

}  // namespace brdma::qp
