// qp/state/queue_pair.h - one queue pair: identity and state machine; of RC requester, responder and the negotiation of
// bitmap mode (CAPS), of UC and UD their two halves (qp/unreliable/unreliable.h). Routes packets to its parts and
// carries out their Outcomes; decides nothing about recovery.
//
// Its flows are views of it, each with rules of its own: StateMachine (state_machine.h), Reception (reception.h),
// Transmission (qp/turn/transmission.h), Interest (pending.h); an operator's is Management (management.h).
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "base/datagram.h"
#include "base/transmit_interest.h"
#include "bitmaprdma/types.h"
#include "qp/negotiate/negotiation.h"
#include "qp/negotiate/negotiator.h"
#include "qp/queues/completion_queue.h"
#include "qp/queues/transmit_batch.h"
#include "qp/receive/responder.h"
#include "qp/send/requester.h"
#include "qp/state/async_events.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "qp/state/packet_counts.h"
#include "qp/state/standard_port.h"
#include "qp/turn/output_order.h"
#include "qp/turn/scheduling_entry.h"
#include "qp/unreliable/unreliable.h"
#include "registry/command_queues.h"
#include "wire/control.h"
#include "wire/packet.h"

namespace brdma {

class QueuePair : public qp::SchedulingEntry, private qp::PacketCounts {
 public:
  QueuePair(qp::Environment& environment, const qp::Identity& identity);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  [[nodiscard]] const qp::Identity& identity() const { return identity_; }
  // Of RC only ...
  [[nodiscard]] const qp::Requester& requester() const { return requester_; }
  [[nodiscard]] const qp::Responder& responder() const { return responder_; }
  // ... which has none of these.
  [[nodiscard]] const qp::Unreliable* unreliable() const { return unreliable_.get(); }
  using qp::PacketCounts::statistics;

  // --- the program ---
  Status modify(const QpAttributes& attributes, std::uint32_t mask, Instant now);  // IBTA table 92
  [[nodiscard]] bool draining() const;  // in SQD, and begun work requests are not complete
  // Up to the first that fails: EINVAL (also: state), ENOMEM (queue full). `posted`: how many succeeded.
  Status post_send(std::span<const SendRequest> requests, Instant now, std::size_t& posted);
  [[nodiscard]] Status check_send(std::span<const SendRequest> requests) const;  // the result of post_send of them
  Status post_receive(const ReceiveRequest& request, Instant now);  // likewise; EINVAL with a shared receive queue
  void receive_posted() { responder_.receive_posted(); }            // to the shared receive queue
  void forget_source(const SharedReceiveQueue* srq) { responder_.forget_source(srq); }  // it is being destroyed
  [[nodiscard]] qp::AsyncEvents& events() { return events_; }

  // --- packets of the peer ---
  // Peer and ICRC checked by the engine. `datagram`: of the packet.
  void handle_packet(const wire::Packet& packet, const Datagram& datagram, Instant now);
  // A fatal NAK of ours has ended the queue pair, and the packet is a request: the peer may not have received the NAK.
  [[nodiscard]] bool has_refused(const wire::Packet& packet) const {
    return identity_.state == QpState::kErr && !unreliable_ && !packet.control && wire::is_request(packet.op) &&
           responder_.has_refused();
  }
  // Fast paths without a wire::Packet, for the most common packets, from its peer, and of the same flow as the packet
  // before: an acknowledgement of requests and nothing else (wire::is_cumulative_ack), and a WRITE of one packet
  // (wire::is_single_write). False, and nothing has happened: handle_packet() takes the packet, also for a wrong ICRC.
  [[nodiscard]] bool on_cumulative_ack(ConstBytes packet, Instant now);         // ack_fast_path.cc
  [[nodiscard]] bool take_single_write(const Datagram& datagram, Instant now);  // single_write.cc
  void handle_edn(const wire::Edn& edn, Instant now);  // reported by ICMP; addresses and numbers checked by the engine

  // --- timers ---
  void handle_timeout(Instant now);
  [[nodiscard]] std::optional<Instant> next_timeout() const;

  // --- turns ---
  // A turn: adds packets to the batch. Returns what is left to send now; none, too, if nothing was added to an empty
  // batch: it waits for the next event then. (qp/turn/poll_transmit.cc)
  TransmitInterest poll_transmit(qp::TransmitBatch& batch, Instant now);
  // May its packets follow those of other queue pairs in a batch? None there is longer than the first. So a queue pair
  // with output left over begins the next batch, so that it never waits forever behind others' shorter packets.
  [[nodiscard]] bool joins(const qp::TransmitBatch& batch) const;
  void handed_over(Instant now);  // UC, UD: the last batch has been sent
  // The batch made at `made`, perhaps with packets of this queue pair, will not leave (withdraw.cc).
  void withdraw(Instant made, Instant now);
  // What it has to send at `now`: the greatest interest of its parts (interest.cc).
  [[nodiscard]] TransmitInterest interest(Instant now) const;
  // Neither output nor a deadline, at any time, until the next event; a cheap test (idle.cc). False if that would take
  // a full check.
  [[nodiscard]] bool is_idle() const;
  // Where it waits for its next turn; kNone: it is idle. Apart from the interest: the order of turns depends on the
  // size of commands, not on their urgency, and what waits for time or an event has a turn and a timer without any
  // interest.
  [[nodiscard]] registry::ReadyQueue wanted_queue() const;
  // The next packet of our requester belongs to a large command: others go first.
  [[nodiscard]] bool next_is_large() const {
    return environment_.config.transfer.threshold_bytes != 0 && !unreliable_ && requester_.next_is_large();
  }
  void count_in_flight() { set_in_flight(*identity_.send_cq, unreliable_ ? 0 : requester_.packets_in_flight()); }

  class Management;  // management.h
  class Prefetch;    // prefetch.h
  [[nodiscard]] Management manage();

  wire::IcrcFlow received_flow;  // of the last packets

 private:
  class StateMachine;
  class Reception;
  class Transmission;
  class Interest;

  void carry_out(const qp::Outcome& outcome, Instant now) {
    if (outcome.asks_something() || drain_wanted_) [[unlikely]]
      do_carry_out(outcome, now);
  }
  void do_carry_out(const qp::Outcome& outcome, Instant now);
  template <class RequesterImpl>
  [[gnu::always_inline]] void carry_out_of(RequesterImpl& requester, Instant now) {
    if (requester.has_outcome() || drain_wanted_) [[unlikely]]
      do_carry_out(requester.outcome(now), now);
  }

  [[nodiscard]] qp::Negotiator negotiator() {
    return qp::Negotiator{{environment_, identity_, negotiation_, local_, requester_, responder_}};
  }

  // --- ack_fast_path.cc ---
  [[nodiscard]] bool takes_cumulative_acks() const {
    return identity_.type == QpType::kRc && identity_.can_send() && identity_.bitmap_agreed &&
           qp::negotiates(identity_);
  }
  void trace_ack(ConstBytes packet, Instant now) const;
  void process_general(ConstBytes packet, Instant now);
  void process_piggybacked(ConstBytes packet, Instant now);
  void take_piggyback(const wire::Bxth& bxth, const wire::Piggyback& piggyback, Instant now);

  wire::IcrcFlow sent_flow_;  // of the last packets, with one path
  qp::Identity identity_;
  std::unique_ptr<qp::LocalPath> local_;
  qp::Requester requester_;
  qp::Responder responder_;
  std::unique_ptr<qp::Unreliable> unreliable_;
  qp::Negotiation negotiation_;
  qp::AsyncEvents events_;
  qp::StandardPort standard_port_;
  qp::OutputOrder order_;
  bool drain_wanted_ = false;  // SQD: an event is due once the send queue is drained
};

}  // namespace brdma
