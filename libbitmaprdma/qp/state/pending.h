// qp/state/pending.h - private: cheap inline tests of what a queue pair's halves have pending.
#pragma once

#include "qp/receive/responder_impl.h"
#include "qp/send/requester_impl.h"

namespace brdma::qp {

inline bool Requester::Impl::is_idle() const {
  return queue.empty() && scoreboard.empty() && !rnr.waiting() && !losses.recovery &&
         !has_signals(path.signals, id.recovery->wan) && !losses.judge && !path.several;
}

inline bool Responder::Impl::only_acknowledges() const { return resources.empty() && !feedback.due() && !owed; }
inline bool Responder::Impl::has_nothing_pending() const { return !ack.pending() && only_acknowledges(); }
inline bool Responder::Impl::is_idle() const {
  return has_nothing_pending() && out_of_order == nullptr && !base_packet.retry_due() && operations.escape().empty();
}

inline bool Responder::Impl::acknowledgement_due(Instant now) const {
  return ack.pending() && ack.due(ack_delay(), recovery().ack_packets, now);
}

// The peer waits for it, and so it is due; but all its packets are here, and the application may be about to reply.
// Within a message it cannot reply yet.
inline bool Responder::Impl::acknowledgement_deferrable(Instant now, int delays) const {
  return ack.pending() && message.kind == Message::Kind::kNone &&
         ack.deferrable(ack_delay() * delays, recovery().ack_packets, now);
}

// An acknowledgement is in the batch.
inline void Responder::Impl::acknowledged(std::uint8_t syndrome, Instant now) {
  ack.on_sent(base());
  env.count(Counter::kAcksSent);
  if (env.sink != nullptr) [[unlikely]]
    env.trace(now, identity.qpn, trace::AckSent{base(), window.highest(), syndrome});
}

// The piggybacked ACK at this time. Precondition: may_piggyback().
[[gnu::always_inline]] inline wire::Piggyback Responder::Impl::piggyback_now(Instant now) const {
  const PeerCredit credit = env.credit_share();
  return {.path = echo.path(),
          .msn = msn,
          .syndrome = wire::kSyndromeAck,
          .base = base(),
          .credit_packets = credit.packets,
          .credit_bytes = credit.bytes,
          .echo_valid = echo.valid(),
          .ts_echo = echo.timestamp(),
          .tr = echo.received(),
          .made = echo.made(now),
          .waited = echo.waited()};
}

inline void Responder::Impl::note_acknowledged(Instant now) {
  echo.on_sent();
  ack.on_sent_with_data();
  env.count(Counter::kAcksPiggybacked);
  acknowledged(wire::kSyndromeAck, now);
}

}  // namespace brdma::qp
