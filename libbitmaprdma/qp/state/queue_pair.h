// qp/state/queue_pair.h - one queue pair: identity and state machine; of RC requester, responder and the negotiation of
// bitmap mode (CAPS), of UC and UD their two halves (qp/unreliable/unreliable.h). Routes packets to its parts and
// carries out their Outcomes; decides nothing about recovery.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "base/compact_optional.h"
#include "base/datagram.h"
#include "base/fetch_ahead.h"
#include "base/transmit_interest.h"
#include "bitmaprdma/types.h"
#include "qp/queues/completion_queue.h"
#include "qp/queues/transmit_batch.h"
#include "qp/receive/responder.h"
#include "qp/send/requester.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "qp/unreliable/unreliable.h"
#include "registry/command_queues.h"
#include "wire/control.h"
#include "wire/packet.h"

namespace brdma {

// When CAPS is sent again, and how often (negotiate.cc).
struct Negotiation {
  bool ask_due = false;
  bool response_due = false;
  bool challenge = false;  // the answer asks in turn: its sender is to prove that it receives our packets
  bool stated = false;     // `echo` was in a CAPS that was sent
  std::uint8_t asked = 0;
  std::uint8_t answered = 0;     // modulo 256
  std::uint8_t asked_of_us = 0;  // after it was agreed; likewise
  CompactOptional<Instant> ask_again;
  std::uint64_t echo = 0;  // the token stated last, by whomever
  Instant challenged_at;   // first time `echo` was stated to the peer; after the agreement, the last time

  // Nothing is left to ask.
  void asked_all() {
    ask_due = false;
    ask_again.reset();
  }
  // After the agreement: a peer that still asks has not received the answer. One CAPS may have crossed it. `proven`: it
  // has read our CAPS.
  [[nodiscard]] bool answer_is_lost(bool proven) { return !proven || ++asked_of_us > 1; }
  [[nodiscard]] bool due() const { return ask_due || response_due; }
  void note_token(std::uint64_t token) {
    stated = stated && token == echo;
    echo = token;
  }
};

class QueuePair {
 public:
  QueuePair(const qp::Environment& environment, const qp::Identity& identity);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  [[nodiscard]] const qp::Identity& identity() const { return identity_; }
  // Number of the queue pair posted to after it; 0: none (device/objects.cc).
  [[nodiscard]] std::uint32_t posted_next() const { return posted_next_; }
  void set_posted_next(std::uint32_t qpn) { posted_next_ = qpn; }
  // Prefetch its state, while other work goes on: with many queue pairs each is cold when its turn comes. Each call
  // reads data fetched by the one before.
  void fetch_self() const { brdma::fetch_ahead<sizeof(QueuePair)>(this); }
  void fetch_halves(std::uint32_t user_bytes) const {
    if (user_bytes > 0) {
      brdma::fetch_ahead<1>(identity_.user);
      brdma::fetch_ahead<1>(static_cast<const std::byte*>(identity_.user) + user_bytes - 1);
    }
    requester_.fetch_ahead();
    responder_.fetch_ahead();
  }
  void fetch_slots() const { requester_.fetch_slots(); }  // of the next request
  // Of RC only ...
  [[nodiscard]] const qp::Requester& requester() const { return requester_; }
  void follow_irn(const qp::IrnTimeouts& timeouts) { requester_.follow_irn(timeouts); }
  [[nodiscard]] const qp::Responder& responder() const { return responder_; }
  // ... which has none of these.
  [[nodiscard]] const qp::Unreliable* unreliable() const { return unreliable_.get(); }
  [[nodiscard]] const QpStatistics& statistics() const { return statistics_; }
  [[nodiscard]] qp::MemoryUse memory() const;  // qp/state/memory_use.cc
  // Finds out whether the peer is a process of this host with readable memory; called with the first message of
  // transfer.local_threshold_bytes.
  void want_local();
  Status modify(const QpAttributes& attributes, std::uint32_t mask, Instant now);  // qp/state/modify.cc: IBTA table 92
  // Up to the first that fails: EINVAL (also: state), ENOMEM (queue full). `posted`: how many succeeded.
  Status post_send(std::span<const SendRequest> requests, Instant now, std::size_t& posted);
  [[nodiscard]] Status check_send(std::span<const SendRequest> requests) const;  // the result of post_send of them
  Status post_receive(const ReceiveRequest& request, Instant now);  // likewise; EINVAL with a shared receive queue
  void set_managed(congestion::ManagedDestination* destination) { requester_.set_managed(destination); }
  // Share of a turn among queue pairs (device/transmit.cc).
  [[nodiscard]] std::uint32_t turn_percent() const {
    const congestion::ManagedDestination* const managed = requester_.managed();
    return managed == nullptr ? 100 : managed->weight_percent;
  }
  // Counts its packets in flight where its requests complete; at its end, none.
  void count_in_flight() { count_in_flight(unreliable_ ? 0 : requester_.packets_in_flight()); }
  void count_in_flight(std::uint32_t packets) {
    identity_.send_cq->in_flight += packets - counted_in_flight;
    counted_in_flight = packets;
  }
  void receive_posted() { responder_.receive_posted(); }  // to the shared receive queue
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
  void handle_timeout(Instant now);
  [[nodiscard]] std::optional<Instant> next_timeout() const;
  // A turn: adds packets to the batch. Returns what is left to send now; none, too, if nothing was added to an empty
  // batch: it waits for the next event then. (poll_transmit.cc)
  TransmitInterest poll_transmit(qp::TransmitBatch& batch, Instant now);
  // May its packets follow those of other queue pairs in a batch? None there is longer than the first. So a queue pair
  // with output left over begins the next batch, so that it never waits forever behind others' shorter packets.
  [[nodiscard]] bool joins(const qp::TransmitBatch& batch) const {
    return !unreliable_ && identity_.sending_paths == 1 && !begins_batch && !control_first_ && !requests_first_ &&
           batch.takes_more(destination());
  }
  void handed_over(Instant now);  // UC, UD: the last batch has been sent
  // The batch made at `made`, perhaps with packets of this queue pair, will not leave (withdraw.cc).
  void withdraw(Instant made, Instant now);
  void send_final_acks();  // Engine::send_final_acks
  // Other recovery settings from now on; `recovery` outlives the queue pair, or the next call of this.
  void set_recovery(const RecoveryConfig* recovery, Instant now);
  // An operator's request (Engine::retransmit): unacknowledged packets, gaps of requests and of READ responses.
  qp::RetransmitRequested retransmit(std::optional<Psn> first, std::uint32_t count, Instant now);
  qp::RetransmitRequested retransmit_gaps(std::optional<Psn> psn, Instant now);
  [[nodiscard]] bool draining() const;  // in SQD, and begun work requests are not complete
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
  // enum ibv_event_type values raised since the last call, one at a time, -1 = none.
  [[nodiscard]] int take_async_event();
  [[nodiscard]] bool has_async_event() const { return async_events_ != 0; }

  // The engine's bookkeeping: intrusive links, so that no container is searched per packet.
  QueuePair* ready_next = nullptr;
  QueuePair* ready_previous = nullptr;
  registry::ReadyQueue ready_queue = registry::ReadyQueue::kNone;
  bool timer_is_stale : 1 = false;      // listed among those whose deadline is to be read again
  bool is_touched : 1 = false;          // listed in touched()
  bool known_idle : 1 = false;          // result of the last is_idle(); no event since
  bool begins_batch : 1 = false;        // its next packets do not follow others' (device/transmit.cc)
  std::int16_t turn_left = 0;           // words of 4 bytes left of its turn; below 0: of the next (device/transmit.cc)
  std::uint32_t counted_in_flight = 0;  // in its completion queue's count
  std::uint32_t timer_slot = static_cast<std::uint32_t>(-1);
  wire::IcrcFlow received_flow;  // of the last packets

 private:
  // --- modify.cc ---
  void set_state(QpState state, Instant now);
  void apply(const QpAttributes& attributes, std::uint32_t mask);
  void enter(QpState state, std::uint32_t mask, Instant now);
  void enter_error(Instant now);
  void enter_send_error(Instant now);
  void enter_reset();
  void start_receiving();
  void start_sending();
  void raise(int async_event);
  void note_drained();

  // --- queue_pair.cc ---
  // First in every function that may count.
  void count_here() const { environment_.counting = &statistics_; }
  void count_judged(std::uint64_t dropped_before) {  // a packet; so many had been dropped before it
    if (environment_.dropped == dropped_before) [[likely]]
      return count_accepted();
    statistics_.add(QpCounter::kDropped);
  }
  void count_accepted() const { environment_.count(Counter::kAcceptedPackets); }
  [[nodiscard]] bool takes_cumulative_acks() const {
    return identity_.type == QpType::kRc && identity_.can_send() && identity_.bitmap_agreed &&
           negotiates(identity_.recovery->mode);
  }
  [[nodiscard]] bool takes_single_writes() const {
    return identity_.type == QpType::kRc && identity_.can_receive() && identity_.bitmap_agreed &&
           identity_.receiving_paths == 1;
  }
  // For an opcode with a token: it has ours, which is made before anything is received, and names the peer.
  [[nodiscard]] bool is_peers(ConstBytes packet) const {
    return wire::token_of(packet) == identity_.own_token &&
           wire::source_qpn_of(packet) == identity_.attributes.destination_qpn;
  }
  // Not recognisable as the peer's: dropped.
  [[nodiscard]] bool refuses(const wire::Packet& packet, ConstBytes bytes, Instant now) {
    if (packet.bitmap) [[likely]] {
      if (packet.bxth.token == identity_.own_token && packet.bxth.source_qpn == identity_.attributes.destination_qpn)
          [[likely]]
        return false;
      environment_.drop(DropReason::kBadToken);
      return true;
    }
    return (packet.control || identity_.bitmap_agreed) && refuses_without_bxth(packet, bytes, now);
  }
  [[nodiscard]] bool refuses_without_bxth(const wire::Packet& packet, ConstBytes bytes, Instant now);
  void trace_ack(ConstBytes packet, Instant now) const;
  void process_general(ConstBytes packet, Instant now);
  void process_piggybacked(ConstBytes packet, Instant now);
  void take_piggyback(const wire::Bxth& bxth, const wire::Piggyback& piggyback, Instant now);
  qp::Outcome route(const wire::Packet& packet, Instant now);
  qp::Outcome route_control(const wire::Packet& packet, Instant now);
  qp::Outcome apply_drops(const wire::Edn& edn, Instant now);
  // In SQE and ERR they are flushed.
  [[nodiscard]] bool takes_sends() const { return identity_.state >= QpState::kRts; }
  // In ERR only the responder's remaining output leaves: the NAK that reports the error.
  [[nodiscard]] bool may_transmit() const { return identity_.can_receive() || identity_.state == QpState::kErr; }
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
  bool poll_control(qp::TransmitBatch& batch, Instant now);
  [[nodiscard]] std::optional<Instant> first_timeout() const;
  bool poll_data(qp::TransmitBatch& batch, Instant now);
  void begin_sprayed(qp::TransmitBatch& batch, Instant now);
  [[nodiscard]] qp::TransmitBatch::Destination destination() const {  // with one path
    const QpAttributes& to = identity_.attributes;
    return {.source = to.local_address,
            .destination = to.peer_address,
            .path = identity_.bitmap_agreed ? std::uint8_t{0} : negotiation_path(),
            .traffic_class = traffic_class(),
            .hop_limit = to.hop_limit,
            .slot = environment_.steered_to(to.destination_qpn, to.local_address == to.peer_address)};
  }
  [[nodiscard]] std::uint8_t take_turn(Instant now);
  bool poll_responses(qp::TransmitBatch& batch, bool naks, Instant now);
  void handle_reliable(const wire::Packet& packet, Instant now);
  void handle_standard(const wire::Packet& packet, Instant now);
  void fail_sends(Instant now);
  void fail_receives(Instant now);

  bool poll_otherwise(qp::TransmitBatch& batch, Instant now);
  bool poll_both(qp::TransmitBatch& batch, Instant now);

  [[nodiscard]] bool looks_idle() const;  // is_idle(), in idle.cc

  // --- interest.cc ---
  [[nodiscard]] TransmitInterest merged_interest(Instant now) const;
  [[nodiscard]] TransmitInterest own_interest(Instant now) const;
  [[nodiscard]] bool acknowledgement_waits(Instant now) const;
  // qp/state/pending.h, of all but the requester.
  [[nodiscard]] TransmitInterest pending_beside_requests() const;

  // --- poll_transmit.cc ---
  [[nodiscard]] TransmitInterest left(bool sent, const qp::TransmitBatch& batch, Instant now) const;
  void begin_batch(qp::TransmitBatch& batch, Instant now);
  bool poll_single(qp::TransmitBatch& batch, bool acknowledges, Instant now);
  bool poll_requests(qp::TransmitBatch& batch, Instant now);
  bool poll_acknowledging(qp::TransmitBatch& batch, Instant now);

  // --- pace.cc ---
  void handle_cnp(Instant now);
  void note_marked(const wire::Packet& packet, Instant now);
  [[nodiscard]] std::uint8_t traffic_class() const {  // of output
    if (identity_.recovery->congestion.ecn == EcnField::kAuto && !takes_marks()) [[likely]]
      return identity_.attributes.traffic_class;
    return marked_traffic_class();
  }
  [[nodiscard]] bool takes_marks() const {
    const CongestionControl control = identity_.recovery->congestion.control;
    return control == CongestionControl::kDcqcn || control == CongestionControl::kBoth;
  }
  [[nodiscard]] std::uint8_t marked_traffic_class() const;

  // --- inquiry/stopped_peer.cc ---
  bool poll_stopped_query(qp::TransmitBatch& batch, Instant now);

  // --- negotiate.cc ---
  void begin_negotiation();
  [[nodiscard]] std::uint32_t own_paths() const;
  void note_bitmap_peer();
  void handle_caps(const wire::Caps& caps, Instant now);
  void agree(const wire::Caps& caps, Instant now);
  void ask_in_turn();
  void challenge(Instant now);
  [[nodiscard]] bool refuses_standard(Instant now);
  bool poll_caps(qp::TransmitBatch& batch, Instant now);
  void ask_again();

  // --- negotiate_local.cc ---
  void begin_local();
  void end_local();
  void find_out_local();
  void fill_local_caps(wire::Caps& caps) const;
  void on_local_caps(const wire::Caps& caps);

  const qp::Environment& environment_;
  mutable QpStatistics statistics_;
  qp::Identity identity_;
  std::unique_ptr<qp::LocalPath> local_;
  qp::Requester requester_;
  qp::Responder responder_;
  std::unique_ptr<qp::Unreliable> unreliable_;
  [[nodiscard]] std::uint8_t negotiation_path() const;
  Negotiation negotiation_;
  wire::IcrcFlow sent_flow_;
  std::uint32_t async_events_ = 0;   // bit n: enum ibv_event_type n was raised
  std::uint16_t standard_port_ = 0;  // UDP source port of the peer's last standard packet in turn
  std::uint8_t standard_run_ = 0;    // so many of those in a row came from it
  bool drain_wanted_ = false;        // SQD: an event is due once the send queue is drained
  bool requests_first_ = false;      // the last batch was full before our requests had their turn
  // On several paths a batch carries one of these, and pending kinds take turns.
  enum class Turn : std::uint8_t {
    kOrdered,  // output that must arrive in order: feedback, NAKs; with one path everything
    kRequests,
    kResponses,
  };
  Turn turn_ = Turn::kOrdered;
  bool control_first_ = false;  // likewise feedback and acknowledgements
  std::uint32_t posted_next_ = 0;
};

}  // namespace brdma
