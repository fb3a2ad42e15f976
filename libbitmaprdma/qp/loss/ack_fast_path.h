// qp/loss/ack_fast_path.h - private: a cumulative ACK of everything in flight (cumulative_acks.h), inlined into those
// that get one.
#pragma once

#include "qp/loss/cumulative_acks.h"
#include "qp/send/requester_impl.h"

namespace brdma::qp {

// The application's reply waits for this packet and leaves before the RTT sample is applied. Until then the sample
// would change nothing for a single request (single_request.h), as no window is shorter than such a request. It would
// change something on a long path, where the window may have to be spread; under another control; and where a timeout
// left packets undecided.
[[gnu::always_inline]] inline void defer_round_trip(Requester::Impl& me, const CumulativeAck& ack,
                                                    std::uint64_t acknowledged, Instant now) {
  constexpr Duration kShortPath = 200_us;
  const Instant sent = wire::instant_of(ack.ts_echo, now);
  const Duration measured = now - sent - ack.held;
  if (!recovery::is_possible_round_trip(measured)) return;
  me.env.round_trip = {&me, measured, ack.waited + me.env.waited, acknowledged, sent, now};
  if (measured > kShortPath || has_signals(me.path.signals, me.id.recovery->wan) || me.timers.has_undecided())
    me.apply_pending_round_trip();
}

// Precondition: acknowledges_all().
inline void Requester::Impl::on_cumulative_ack(const CumulativeAck& ack, Instant now) {
  if (env.round_trip.requester != nullptr) static_cast<Impl*>(env.round_trip.requester)->apply_pending_round_trip();
  const std::uint64_t bytes = cumulative_acks().take(ack, now);
  if (ack.echo_valid) defer_round_trip(*this, ack, bytes, now);
  env.note_length(now, id.qpn, trace::WindowSide::kSend, scoreboard);
  complete_passed(now);
}

}  // namespace brdma::qp
