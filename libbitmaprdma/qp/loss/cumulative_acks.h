// qp/loss/cumulative_acks.h - private: the most common acknowledgement. Everything in flight has been executed, nothing
// was missing, and no record was kept or reported before. Many queue pairs used in turn get only this kind, and so do
// two ping-pong programs. It is processed inline (ack_fast_path.cc); the general path is handle_ack.cc.
#pragma once

#include <cstdint>
#include <memory>

#include "base/units.h"
#include "qp/loss/loss_recovery.h"
#include "qp/loss/sender_judge.h"
#include "qp/loss/sent_packets.h"
#include "qp/paths/paths_send.h"
#include "qp/read/response_admission.h"
#include "qp/read/response_gaps.h"
#include "qp/send/admission.h"
#include "qp/send/segments.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "qp/timers/progress.h"
#include "qp/timers/receiver_not_ready.h"
#include "qp/timers/retransmission_timers.h"

namespace brdma::qp {

struct CumulativeAck {  // all before the base has arrived, nothing beyond it, no NAK
  Psn base;
  std::uint32_t credit_packets = 0, credit_bytes = 0;
  std::uint64_t ts_echo = 0;
  Duration held, waited;
  bool echo_valid = false;
  std::uint8_t syndrome = 0;

  template <class Ack>  // wire::BitmapAck, wire::Piggyback
  [[nodiscard]] static CumulativeAck of(const Ack& ack) {
    return {.base = ack.base,
            .credit_packets = ack.credit_packets,
            .credit_bytes = ack.credit_bytes,
            .ts_echo = ack.ts_echo,
            .held = ack.held(),
            .waited = ack.waited,
            .echo_valid = ack.echo_valid,
            .syndrome = ack.syndrome};
  }
};

// A view of the requester's parts, made where it is needed. Inlined there.
class CumulativeAcks {
 public:
  struct Parts {
    Environment& env;
    Identity& id;
    Scoreboard& scoreboard;
    const Segments& segments;
    const ResponseAdmission& responses;
    const ResponseReceiver& receiver;
    const PooledLossRecovery& loss;
    Admission& admission;
    RetransmissionTimers& timers;
    ReceiverNotReady& rnr;
    const std::unique_ptr<SendPaths>& paths;    // null: there is one
    const std::unique_ptr<SenderJudge>& judge;  // null: the sender does not judge losses
  };
  [[gnu::always_inline]] explicit CumulativeAcks(const Parts& parts) : parts_(parts) {}

  // Nothing is missing, and there are no per-packet records.
  [[nodiscard, gnu::always_inline]] bool in_bulk() const {
    return parts_.scoreboard.is_in_order() && parts_.responses.messages() == 0 && parts_.segments.size() == 0 &&
           !parts_.paths && parts_.judge == nullptr;
  }
  // Is it all that the acknowledgement says, that everything in flight is executed?
  [[nodiscard, gnu::always_inline]] bool acknowledges_all(const CumulativeAck& ack) const {
    return ack.base == parts_.scoreboard.next_psn() && !parts_.scoreboard.empty() && in_bulk() && !parts_.loss &&
           !parts_.rnr.is_recovering() && !parts_.rnr.waiting() && parts_.receiver.paths() == nullptr;
  }
  // Precondition: acknowledges_all(). Returns the bytes that it acknowledges. Its messages are done.
  [[gnu::always_inline]] std::uint64_t take(const CumulativeAck& ack, Instant now) const;

 private:
  [[gnu::always_inline]] void pass_all(Instant now) const;

  Parts parts_;
};

inline void CumulativeAcks::pass_all(Instant now) const {
  Environment& env = parts_.env;
  Scoreboard& board = parts_.scoreboard;
  if (env.telemetry.sink != nullptr) [[unlikely]] {
    for (Sequence at = board.base(); at < board.next(); ++at)
      trace_entry(env, parts_.id, board, at, board.state(at), bitmap::EntryState::kAcked, now);
  }
  board.pass_all(now);
  parts_.rnr.on_executed_in_steady_state();
  Progress{env, parts_.id, board, parts_.timers}.on_acknowledged(now);
}

inline std::uint64_t CumulativeAcks::take(const CumulativeAck& ack, Instant now) const {
  Environment& env = parts_.env;
  env.count(Counter::kAcksReceived);
  if (env.telemetry.sink != nullptr) [[unlikely]]
    env.trace(now, parts_.id.qpn, trace::AckReceived{ack.base, ack.base - 1, ack.syndrome});
  parts_.timers.on_acknowledgement(now);
  parts_.id.peer_credit = PeerCredit{ack.credit_packets, ack.credit_bytes};
  parts_.admission.on_credit();
  const std::uint64_t bytes = parts_.scoreboard.flight().bytes;
  pass_all(now);
  return bytes;
}

}  // namespace brdma::qp
