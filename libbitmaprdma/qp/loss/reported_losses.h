// qp/loss/reported_losses.h - private: the sender's reaction to those who name lost packets: the receiver with fast
// feedback (FFM, design BR-23), a switch with an explicit drop notification (EDN, design DN-10; of responses and
// acknowledgements: respond/repeated_responses.h). Exactly the named packets become pending, unless a suppression rule
// applies (recovery/retransmit_request.h, recovery/drop_notice.h); suppressed packets are counted, by gap and by rule.
//
// Whichever of the two comes later finds the packets pending, or just resent.
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"
#include "congestion/delay_window.h"
#include "qp/loss/loss_recovery.h"
#include "qp/loss/sent_packets.h"
#include "qp/send/congestion_state.h"
#include "qp/timers/receiver_not_ready.h"
#include "qp/timers/retransmission_timers.h"
#include "recovery/retransmit_request.h"
#include "recovery/rtt_estimator.h"
#include "wire/control.h"
#include "wire/edn.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class ReportedLosses {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    const Scoreboard& scoreboard;
    const recovery::RttEstimator& rtt;
    congestion::DelayWindow& congestion;
    RetransmissionTimers& timers;
    ReceiverNotReady& rnr;
    recovery::FeedbackOrder& order;
    CongestionState* signals;  // nullptr: there is none
    SendPaths* paths;          // nullptr: there is one
    SentPackets packets;
  };
  explicit ReportedLosses(const Parts& parts) : parts_(parts) {}

  void on_feedback(const wire::Ffm& ffm, Instant now) const;

  // Returns how many packets are to be retransmitted. What is more than one queue pair's window (the time of the
  // notification, an inquiry about the path) is left to the caller.
  std::uint32_t on_drops(const wire::Edn& edn, Instant now) const;

 private:
  struct Feedback {
    bool overtaken = false;          // a newer FFM came first
    std::optional<Instant> highest;  // send time of its receiver's newest packet
  };
  bool repair(const wire::FfmGap& gap, const Feedback& feedback, Instant now) const;
  [[nodiscard]] std::optional<Instant> newest_known(Psn highest, Instant now) const;
  [[nodiscard]] bool recent_drops_reported(Instant now) const;
  // Is that packet, named by an FFM, to be retransmitted? Counts refusals.
  [[nodiscard]] bool accepts_feedback(Sequence sequence, const Feedback& feedback, Instant now) const;
  bool retransmit_dropped(Sequence sequence, const wire::Edn& edn, Instant now) const;
  void pause_for(const wire::Edn& edn, Instant now) const;
  void slow_down(std::uint64_t dropped, Duration drain, Instant now) const;  // bytes
  // As long as a packet's acknowledgement may be on its way, on any path.
  [[nodiscard]] Duration quiet() const;

  Parts parts_;
};

}  // namespace brdma::qp
