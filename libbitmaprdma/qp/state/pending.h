// qp/state/pending.h - private: cheap inline tests of what a queue pair's halves have pending.
#pragma once

#include "qp/receive/responder_impl.h"
#include "qp/send/requester_impl.h"

namespace brdma::qp {

inline bool Requester::Impl::is_idle() const {
  return queue.empty() && scoreboard.empty() && !rnr.waiting() && !loss_recovery && !has_signals() && !sender_judge &&
         !paths;
}

// All posted requests wait for their turn, and the next is not of a large command; else a full check decides.
inline bool Requester::Impl::begins_small() const {
  if (!messages.empty() || scoreboard.pending() != 0 || queue.next() == queue.tail()) return false;
  const std::uint32_t threshold = env.config.transfer.threshold_bytes;
  return threshold == 0 || queue[queue.next()].length < threshold;
}

inline bool Responder::Impl::only_acknowledges() const { return resources.empty() && !feedback_due && !owed; }
inline bool Responder::Impl::has_nothing_pending() const { return !ack.pending && only_acknowledges(); }
inline bool Responder::Impl::is_idle() const {
  return has_nothing_pending() && out_of_order == nullptr && !retry_blocked && escape->empty();
}

inline bool Responder::Impl::acknowledgement_due(Instant now) const {
  return ack.pending && (ack.forced || ack.requested || many_unacknowledged() || now >= ack.since + ack_delay());
}

// The peer waits for it, and so it is due; but all its packets are here, and the application may be about to reply.
// Within a message it cannot reply yet.
inline bool Responder::Impl::acknowledgement_deferrable(Instant now, int delays) const {
  return ack.pending && !ack.forced && (ack.requested || !many_unacknowledged()) &&
         message.kind == Message::Kind::kNone && now < ack.since + ack_delay() * delays;
}

// An acknowledgement is in the batch.
inline void Responder::Impl::acknowledged(std::uint8_t syndrome, Instant now) {
  ack.pending = ack.requested = ack.forced = false;
  ack.reported = base();
  ack.packets = 0;
  env.count(Counter::kAcksSent);
  if (env.sink != nullptr) [[unlikely]]
    env.trace(now, identity.qpn, trace::AckSent{base(), window.highest(), syndrome});
}

// On the clock of Tr. An echo that has waited longer than the sender can represent (half the range of 32 bits) counts
// as one that has waited that long.
[[gnu::always_inline]] inline std::uint32_t Responder::Impl::made_at(Instant now) const {
  constexpr Duration kHeldMax = 2_s;  // below 2^31 ns
  const Duration held = std::clamp(now - ack.echo_arrival, Duration{}, kHeldMax);
  return static_cast<std::uint32_t>((ack.echo_arrival + held).ns());
}

// The piggybacked ACK at this time. Precondition: may_piggyback().
[[gnu::always_inline]] inline wire::Piggyback Responder::Impl::piggyback_now(Instant now) const {
  const PeerCredit credit = env.credit_share();
  return {.path = ack.echo_path,
          .msn = msn,
          .syndrome = wire::kSyndromeAck,
          .base = base(),
          .credit_packets = credit.packets,
          .credit_bytes = credit.bytes,
          .echo_valid = ack.echo_valid,
          .ts_echo = ack.echo,
          .tr = static_cast<std::uint64_t>(ack.echo_arrival.ns()),
          .made = made_at(now),
          .waited = ack.echo_waited};
}

inline void Responder::Impl::note_acknowledged(Instant now) {
  ack.echo_valid = false;
  if (ack.repeats > 0) --ack.repeats;
  env.count(Counter::kAcksPiggybacked);
  acknowledged(wire::kSyndromeAck, now);
}

}  // namespace brdma::qp
