// qp/loss/sent_packets.h - private: what becomes of each packet in flight. It is acknowledged, suspected to be lost, to
// be retransmitted, retransmitted, or in flight again after all. Each change is carried to all that count it: the
// scoreboard (scoreboard.h), the congestion windows, the paths, the segments, the sender's judgement, the trace. Who
// asks for a change decides why: acknowledgements, feedback, switches' reports, timers, an operator.
#pragma once

#include <cstdint>

#include "bitmap/send_window.h"
#include "congestion/delay_window.h"
#include "qp/loss/loss_recovery.h"
#include "qp/loss/scoreboard.h"
#include "qp/loss/sender_judge.h"
#include "qp/loss/sender_judgement.h"
#include "qp/paths/paths_send.h"
#include "qp/queues/message_table.h"
#include "qp/read/response_admission.h"
#include "qp/send/segments.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "trace/counters.h"

namespace brdma::qp {

// For whoever watches the trace.
inline void trace_entry(Environment& env, const Identity& id, const SentWindow& sent, Sequence sequence,
                        bitmap::EntryState from, bitmap::EntryState to, Instant now) {
  if (env.telemetry.sink == nullptr) [[likely]]
    return;
  env.trace(now, id.qpn,
            trace::EntryMoved{sent.psn_of(sequence), static_cast<trace::Entry>(from), static_cast<trace::Entry>(to)});
}

// A view of the requester's parts, made where it is needed.
class SentPackets {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    Scoreboard& scoreboard;
    MessageTable& messages;
    Segments& segments;
    congestion::DelayWindow& congestion;  // of requests
    ResponseAdmission& responses;
    PooledLossRecovery& loss;
    SendPaths* paths;    // nullptr: there is one
    SenderJudge* judge;  // nullptr: the sender does not judge losses
  };
  explicit SentPackets(const Parts& parts) : parts_(parts) {}

  // Precondition: the sender judges losses.
  [[nodiscard]] SenderJudgement judgement() const {
    return SenderJudgement{{parts_.id, parts_.scoreboard, parts_.messages, parts_.segments, *parts_.judge}};
  }
  [[nodiscard]] Message& message_of(Sequence sequence) const { return parts_.messages[parts_.messages.find(sequence)]; }
  // The state of a queue pair with losses, which begins here if there is none.
  [[nodiscard]] LossRecovery& repairing() const {
    return parts_.loss.begun(parts_.env.pools.loss_recovery, parts_.id.recovery->window_packets);
  }

  // --- arrived ---
  // A data packet, or a response. True: newly acknowledged.
  bool acknowledge(Sequence sequence, const Message& message, Instant now) const;
  // The peer has executed all requests before `boundary`, the next that is not acknowledged or later.
  void acknowledge_before(Sequence boundary, Instant now) const;
  // All data packets in [from, to), none of them acknowledged: all in flight, or the older part of it. Precondition:
  // the scoreboard is in order, and there is no segment, no second path and no judgement.
  void acknowledge_run(Sequence from, Sequence to, Instant now) const;
  // The request of a message with responses has arrived.
  void request_arrived(Message& message) const;
  // The same, as the peer has reported it, or has executed it.
  void request_reported(Message& message, Instant now) const;
  // An acknowledged packet was not kept after all: it counts as in flight.
  void reopen(Sequence sequence, const Message& message, Instant now) const;

  // --- lost ---
  void suspect(Sequence sequence, Instant now) const;
  // It is to be retransmitted. False (nothing done): it is acknowledged or pending already.
  bool retransmit(Sequence sequence, const Message& message, Counter cause, Instant now) const;
  // All unacknowledged packets in [from, to), a request with responses as a whole. Returns how many.
  std::uint32_t retransmit_range(Sequence from, Sequence to, Counter cause, Instant now) const;
  // The packets in flight that left from `made` on have not left after all: their batch was withdrawn.
  void withdraw(Instant made, Instant now) const;
  // retransmit(), one by one, for whoever chooses the packets.
  [[nodiscard]] auto retransmitting(Counter cause, Instant now) const {
    return [packets = *this, cause, now](Sequence at) {
      return packets.retransmit(at, packets.message_of(at), cause, now);
    };
  }
  // A pending packet, or a response that is requested again, has left.
  void left_again(Sequence sequence, std::uint32_t payload, std::uint8_t path, Instant now) const;
  // A packet, or a request, has left: for the first time, or again.
  void note_left(Sequence sequence, Instant now) const { judge_sent(parts_.judge, parts_.id, sequence, now); }

  // --- for a probe ---
  // The newest and the oldest unacknowledged packet. Precondition: there is one.
  [[nodiscard]] Sequence newest_open() const;
  [[nodiscard]] Sequence oldest_open() const;
  // All have arrived, but their execution is not acknowledged: the last acknowledgement was lost. A duplicate brings
  // another, so this packet leaves once more. It stays acknowledged.
  void repeat(Sequence sequence, Counter cause) const;

 private:
  void acknowledge_unreported(const Message& message, Sequence from, Sequence to, Instant now) const;
  [[nodiscard]] std::uint64_t payload_of(Sequence from, Sequence to) const;
  void note_overtaken(Sequence late, Instant now) const;
  void note_lost_on_path(Sequence sequence, const Message& message) const;
  void trace(Sequence sequence, bitmap::EntryState from, bitmap::EntryState to, Instant now) const {
    trace_entry(parts_.env, parts_.id, parts_.scoreboard, sequence, from, to, now);
  }

  Parts parts_;
};

}  // namespace brdma::qp
