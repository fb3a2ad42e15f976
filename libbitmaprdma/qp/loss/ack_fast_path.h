// qp/loss/ack_fast_path.h - private: the most common acknowledgement. Everything in flight has been executed, nothing
// was missing, and no record was kept or reported before. Many queue pairs used in turn get only this kind, and so do
// two ping-pong programs. It is processed inline; the general path is handle_ack.cc.
#pragma once

#include "qp/send/requester_impl.h"

namespace brdma::qp {

// Nothing is missing, and there are no per-packet records.
inline bool Requester::Impl::acknowledges_in_bulk() const {
  return scoreboard.is_in_order() && responses.messages() == 0 && segments.size() == 0 && !paths &&
         sender_judge == nullptr;
}

inline bool Requester::Impl::acknowledges_all(const CumulativeAck& ack) const {
  return ack.base == scoreboard.next_psn() && !scoreboard.empty() && acknowledges_in_bulk() && !loss_recovery &&
         !rnr.is_recovering() && !rnr.waiting() && response_receiver.paths() == nullptr;
}

inline void Requester::Impl::acknowledge_all(Instant now) {
  if (env.sink != nullptr) [[unlikely]] {
    for (Sequence at = scoreboard.base(); at < scoreboard.next(); ++at)
      trace_entry(env, id, scoreboard, at, scoreboard.state(at), bitmap::EntryState::kAcked, now);
  }
  scoreboard.pass_all(now);
  rnr.on_executed_in_steady_state();
  progress().on_acknowledged(now);
}

// The application's reply waits for this packet and leaves before the RTT sample is applied. Until then the sample
// would change nothing for a single request (transmit_single.cc), as no window is shorter than such a request. It would
// change something on a long path, where the window may have to be spread; under another control; and where a timeout
// left packets undecided.
inline void Requester::Impl::on_ack_round_trip(const CumulativeAck& ack, std::uint64_t acknowledged, Instant now) {
  constexpr Duration kShortPath = 200_us;
  const Instant sent = wire::instant_of(ack.ts_echo, now);
  const Duration measured = now - sent - ack.held;
  if (!recovery::is_possible_round_trip(measured)) return;
  env.round_trip = {this, measured, ack.waited + env.waited, acknowledged, sent, now};
  if (measured > kShortPath || has_signals() || timers.has_undecided()) apply_pending_round_trip();
}

// Precondition: acknowledges_all().
inline void Requester::Impl::on_cumulative_ack(const CumulativeAck& ack, Instant now) {
  if (env.round_trip.requester != nullptr) static_cast<Impl*>(env.round_trip.requester)->apply_pending_round_trip();
  env.count(Counter::kAcksReceived);
  if (env.sink != nullptr) [[unlikely]]
    env.trace(now, id.qpn, trace::AckReceived{ack.base, ack.base - 1, ack.syndrome});
  timers.on_acknowledgement(now);
  id.peer_credit = PeerCredit{ack.credit_packets, ack.credit_bytes};
  admission.on_credit();
  const std::uint64_t bytes = scoreboard.flight().bytes;
  acknowledge_all(now);
  if (ack.echo_valid) on_ack_round_trip(ack, bytes, now);
  env.note_length(now, id.qpn, trace::WindowSide::kSend, scoreboard);
  complete_passed(now);
}

}  // namespace brdma::qp
