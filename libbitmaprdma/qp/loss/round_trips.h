// qp/loss/round_trips.h - private: what an acknowledgement's RTT sample changes: the estimate that timers use, the
// congestion window, the sending rate. Only a packet sent once gives a sample (Karn), or an echo, which names the
// transmission.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "base/units.h"
#include "congestion/delay_window.h"
#include "qp/loss/scoreboard.h"
#include "qp/send/admission.h"
#include "qp/send/congestion_state.h"
#include "qp/send/sending_rate.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "recovery/rtt_estimator.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class RoundTrips {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    const Scoreboard& scoreboard;
    recovery::RttEstimator& rtt;
    congestion::DelayWindow& congestion;   // of requests
    congestion::DelayWindow& return_path;  // of responses
    Admission& admission;
    std::unique_ptr<CongestionState>& signals;
  };
  explicit RoundTrips(const Parts& parts) : parts_(parts) {}

  // An echo's sample, of the path that the packet took, with the bytes that its acknowledgement acknowledges.
  void on_echo(const congestion::RoundTrip& trip, std::uint64_t acknowledged, Instant now) const {
    parts_.congestion.on_acknowledgement(acknowledged, trip, parts_.admission.congestion_limited(), now);
    const SendingRate rate = sending_rate();
    rate.on_round_trip(trip.on_the_way(), parts_.congestion.base_rtt(), now);
    if (rate.may_spread()) [[unlikely]]
      rate.spread(limits().window_bytes(), now);
    parts_.admission.on_round_trip();
  }

  // Before the first sample: an acknowledgement or FFM states for the first time that packet `highest` has arrived, and
  // echoes nothing, as for packets that left in the standard format before bitmap mode was agreed. If it left once, the
  // round trip takes no longer. Without that, feedback would seem newer than a retransmission that is in flight.
  void on_first_report(Psn highest, Instant now) const {
    if (parts_.rtt.has_sample()) return;
    const auto sequence = parts_.scoreboard.sequence_of(highest);
    if (!sequence || parts_.scoreboard.is_acked(*sequence) || parts_.scoreboard.entry(*sequence).transmissions > 1)
      return;
    const Duration trip = now - parts_.scoreboard.sent_at(*sequence, now);
    if (recovery::is_possible_round_trip(trip)) parts_.rtt.sample(trip, now);
  }

  // --- a standard acknowledgement, which echoes nothing ---
  // It acknowledges a packet that was sent once.
  void on_standard(Duration trip, Instant now) const {
    recovery::RttEstimator& rtt = parts_.rtt;
    if (recovery::is_possible_round_trip(trip)) rtt.sample(trip, now);
    sending_rate().on_round_trip(std::max(trip - parts_.env.waited, rtt.minimum()), rtt.minimum(), now);
  }
  // And it is processed. The window bounds go-back-N alone: another standard peer's is small enough to need no other.
  void on_standard_acknowledged(Duration trip, std::uint64_t acknowledged, Instant now) const {
    if (!parts_.id.goes_back()) return;
    parts_.congestion.on_acknowledgement(acknowledged, {trip, parts_.env.waited}, parts_.admission.congestion_limited(),
                                         now);
    parts_.admission.on_round_trip();
  }

 private:
  [[nodiscard]] SendLimits limits() const {
    return {parts_.env, parts_.id, parts_.scoreboard, parts_.congestion, parts_.admission};
  }
  [[nodiscard]] SendingRate sending_rate() const {
    return SendingRate{{parts_.env, parts_.id, parts_.rtt, parts_.congestion, parts_.return_path, parts_.signals}};
  }

  Parts parts_;
};

}  // namespace brdma::qp
