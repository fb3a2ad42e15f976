// qp/timers/deadlines.h - private: when is each of a requester's timers due? From when they started
// (retransmission_timers.h, receiver_not_ready.h, and the parts that keep a time of their own) and how long they are
// (timer_lengths.h). Answers only: timer_actions.h acts.
//
// The retry limit waits while the peer's host reports its process as stopped (inquiry/stopped_peer.cc), and while we
// were stopped.
#pragma once

#include <memory>
#include <optional>

#include "base/units.h"
#include "congestion/delay_window.h"
#include "qp/loss/loss_recovery.h"
#include "qp/loss/scoreboard.h"
#include "qp/loss/sender_judge.h"
#include "qp/queues/message_table.h"
#include "qp/read/response_admission.h"
#include "qp/send/admission.h"
#include "qp/send/congestion_state.h"
#include "qp/state/identity.h"
#include "qp/timers/receiver_not_ready.h"
#include "qp/timers/retransmission_timers.h"
#include "qp/timers/timer_lengths.h"
#include "recovery/stopped_peer.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class Deadlines {
 public:
  struct Parts {
    const Identity& id;
    const Scoreboard& scoreboard;
    const MessageTable& messages;
    const recovery::RttEstimator& rtt;
    const RetransmissionTimers& timers;
    const ReceiverNotReady& rnr;
    const Admission& admission;
    const congestion::DelayWindow& congestion;
    const ResponseAdmission& responses;
    const PooledLossRecovery& loss;
    const std::unique_ptr<CongestionState>& signals;
    SenderJudge* judge;  // nullptr: the sender does not judge losses
  };
  explicit Deadlines(const Parts& parts) : parts_(parts) {}

  // The first of all.
  [[nodiscard]] std::optional<Instant> first() const;

  // --- silence ---
  [[nodiscard]] std::optional<Instant> retransmission() const;  // RTO
  [[nodiscard]] std::optional<Instant> probe() const;           // TLP
  [[nodiscard]] std::optional<Instant> retry_limit() const;
  // The retry limit ends a silence only if it lasted through a retransmission: this process may have been stopped.
  [[nodiscard]] bool may_exceed_retry_limit() const {
    return parts_.timers.backoff() > 0 || parts_.id.attributes.retry_count == 0;
  }

  // --- a peer whose process may be stopped ---
  [[nodiscard]] bool peer_is_stopped() const;
  [[nodiscard]] recovery::StoppedPeerLimits stopped_limits() const;
  [[nodiscard]] std::optional<Instant> stopped_query() const;  // read next to retry_limit(), in the same places

  // --- others ---
  // The window stands still: packets beyond arrive, the one at its base does not. (The FFM should report the hole, but
  // FFMs may be lost too.) If nothing arrives any more it is a silence, not a stall, and resending everything each time
  // would exceed the RTO's backoff.
  [[nodiscard]] std::optional<Instant> stall() const;
  [[nodiscard]] std::optional<Instant> bridge() const;   // of a full congestion window (qp/send/admission.h)
  [[nodiscard]] std::optional<Instant> inquiry() const;  // about the path: no more replies are awaited

  // --- the usual case ---
  // Packets are in flight, and only RTO and probe can be due: all other deadlines are unset.
  [[nodiscard]] bool is_plain() const;
  // The first of the two. Precondition: is_plain().
  [[nodiscard]] Instant plain() const;

 private:
  [[nodiscard, gnu::always_inline]] TimerLengths lengths() const {
    return TimerLengths{
        {parts_.id, parts_.scoreboard, parts_.rtt, parts_.congestion, parts_.responses, parts_.timers, parts_.judge}};
  }

  Parts parts_;
};

[[gnu::always_inline]] inline bool Deadlines::is_plain() const {
  const Scoreboard& board = parts_.scoreboard;
  return !board.empty() && board.pending() == 0 && parts_.id.can_send() && parts_.id.bitmap_agreed &&
         !parts_.rnr.waiting() && parts_.judge == nullptr && !has_signals(parts_.signals, parts_.id.recovery->wan) &&
         !parts_.loss && parts_.admission.is_quiet() && !board.has_holes() && !may_exceed_retry_limit();
}

}  // namespace brdma::qp
