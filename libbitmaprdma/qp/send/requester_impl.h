// qp/send/requester_impl.h - private: the requester's parts, shared by its files. Start at requester.h.
#pragma once

#include <memory>
#include <optional>

#include "base/compact_optional.h"
#include "bitmap/send_window.h"
#include "congestion/delay_window.h"
#include "qp/loss/cumulative_acks.h"
#include "qp/loss/loss_recovery.h"
#include "qp/loss/retransmissions.h"
#include "qp/loss/round_trips.h"
#include "qp/loss/scoreboard.h"
#include "qp/loss/sent_packets.h"
#include "qp/paths/spray_requests.h"
#include "qp/queues/message_table.h"
#include "qp/queues/payload_cursor.h"
#include "qp/queues/send_queue.h"
#include "qp/queues/work_completer.h"
#include "qp/read/request_copies.h"
#include "qp/read/response_admission.h"
#include "qp/read/response_gaps.h"
#include "qp/read/response_pacing.h"
#include "qp/send/ack_requests.h"
#include "qp/send/admission.h"
#include "qp/send/congestion_state.h"
#include "qp/send/local_references.h"
#include "qp/send/message_start.h"
#include "qp/send/packet_builder.h"
#include "qp/send/requester.h"
#include "qp/send/segments.h"
#include "qp/send/sending_rate.h"
#include "qp/timers/deadlines.h"
#include "qp/timers/progress.h"
#include "qp/timers/receiver_not_ready.h"
#include "qp/timers/retransmission_timers.h"
#include "qp/timers/timer_actions.h"
#include "qp/timers/timer_lengths.h"
#include "recovery/gap_judge.h"
#include "recovery/learnt_tolerance.h"
#include "recovery/retransmit_request.h"
#include "recovery/rtt_estimator.h"
#include "wire/local_reference.h"

namespace brdma::qp {

struct Requester::Impl {
  Impl(const Environment& environment, Identity& identity);
  ~Impl() {
    loss_recovery.end(env.loss_recovery);
    if (env.round_trip.requester == this) env.round_trip.requester = nullptr;
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const Environment& env;
  Identity& id;
  SendQueue queue;
  SendFault fault;
  MessageTable messages;
  Scoreboard scoreboard;
  Segments segments;                 // of large commands, in progress
  PooledLossRecovery loss_recovery;  // while a packet is missing or was late
  recovery::RttEstimator rtt;
  congestion::DelayWindow congestion;  // bytes of requests in flight
  Admission admission;                 // of requests
  ResponseAdmission responses;         // to READs, atomics and the like
  ResponseReceiver response_receiver;  // of them

  NextMessage next;
  RetransmissionTimers timers;

  ReceiverNotReady rnr;
  recovery::FeedbackOrder feedback_order;
  std::unique_ptr<SenderJudge> sender_judge;  // only in modes in which the sender judges
  std::unique_ptr<CongestionState> signals;   // a rate, ECN marks (pace.cc)

  std::unique_ptr<SendPaths> paths;  // only with several

  // --- limits ---
  [[nodiscard]] SendLimits limits() const { return {env, id, scoreboard, congestion, admission}; }
  [[nodiscard]] WorkCompleter completer() { return {env, id, queue, fault}; }
  // --- messages ---
  // No posted request has yet to begin, no begun one to leave, and none is to be retransmitted.
  [[nodiscard]] bool all_has_left() const {
    return queue.next() == queue.tail() && scoreboard.pending() == 0 && messages.all_left(scoreboard.next()) && !paths;
  }
  // --- pending.h ---
  [[nodiscard]] bool is_idle() const;
  // --- requester.cc ---
  void begin_from(Psn first);
  void forget_flight();

  // --- views of the parts (loss/, read/, timers/, inquiry/) ---
  [[nodiscard]] SentPackets sent_packets() {
    return SentPackets{{env, id, scoreboard, messages, segments, congestion, responses, loss_recovery, paths.get(),
                        sender_judge.get()}};
  }
  [[nodiscard]] ResponseGaps response_gaps() {
    return ResponseGaps{{env, id, scoreboard, messages, rtt, responses, response_receiver, loss_recovery}};
  }
  [[nodiscard]] TimerLengths timer_lengths() const {
    return TimerLengths{{id, scoreboard, rtt, congestion, responses, timers, sender_judge.get()}};
  }
  [[nodiscard]] Deadlines deadlines() const {
    return Deadlines{{id, scoreboard, messages, rtt, timers, rnr, admission, congestion, responses, loss_recovery,
                      signals, sender_judge.get()}};
  }
  [[nodiscard]] Progress progress() { return {env, id, scoreboard, timers}; }
  [[nodiscard]] TimerActions timer_actions() {
    return TimerActions{{env, id, scoreboard, timers, rnr, congestion, responses, response_receiver, paths.get(),
                         sent_packets(), response_gaps(), link_inquiries(), timer_lengths()}};
  }
  [[nodiscard]] LocalReferences references() { return LocalReferences{{env, id, queue, next.cut}}; }
  [[nodiscard]] SendingRate sending_rate() {
    return SendingRate{{env, id, rtt, congestion, responses.congestion(), signals}};
  }
  [[nodiscard]] ResponsePace* response_pace() const { return signals ? signals->responses.get() : nullptr; }
  // Precondition: response_pace().
  [[nodiscard]] ResponsePacing response_pacing() const {
    return ResponsePacing{{env, id, rtt, responses.congestion(), *response_pace()}};
  }
  // Which packet asks for an acknowledgement.
  [[nodiscard, gnu::always_inline]] AckRequests ack_requests() {
    return AckRequests{{id, queue, rnr, limits(), admission}};
  }
  [[nodiscard, gnu::always_inline]] MessageStart message_start() {
    return MessageStart{{env, id, queue, fault, messages, scoreboard, segments, rtt, congestion, admission, responses,
                         rnr, response_pace(), next}};
  }
  // Precondition: a packet is pending.
  [[nodiscard]] Retransmissions retransmissions() {
    return Retransmissions{{env, id, queue, fault, scoreboard, rtt, congestion, responses.congestion(), loss_recovery,
                            admission, timers, rnr, response_pace(), paths.get(), sent_packets()}};
  }
  [[nodiscard]] RequestCopies request_copies() {
    return RequestCopies{{env, id, queue, messages, scoreboard, responses, paths.get()}};
  }
  [[nodiscard]] SprayedRequests sprayed_requests() {
    return SprayedRequests{{env, id, queue, fault, messages, scoreboard, timers, paths}};
  }
  [[nodiscard, gnu::always_inline]] CumulativeAcks cumulative_acks() {
    return CumulativeAcks{{env, id, scoreboard, segments, responses, response_receiver, loss_recovery, admission,
                           timers, rnr, paths, sender_judge}};
  }
  [[nodiscard]] RoundTrips round_trips() {
    return RoundTrips{{env, id, scoreboard, rtt, congestion, responses.congestion(), admission, signals}};
  }
  [[nodiscard]] LinkInquiries link_inquiries() { return {env, id, signals}; }

  // --- post_send.cc ---
  [[nodiscard]] Status check(const SendRequest& request, std::uint32_t& length) const;

  // --- transmit_new.cc ---
  [[nodiscard]] bool ready_to_send_new(Instant now);
  bool poll_new(TransmitBatch& batch, Instant now);
  bool transmit_data(const Message& message, PayloadCursor& cursor, TransmitBatch& batch, Instant now);
  bool transmit_request(Message& message, PayloadCursor& cursor, TransmitBatch& batch, Instant now);

  // --- transmit_small.cc ---
  // Steady state: nothing is missing, no recovery in progress. Packets may leave in runs.
  [[nodiscard]] bool in_steady_state() const {
    return id.bitmap_agreed && !paths && !rnr.is_recovering() && !fault.is_set() && sender_judge == nullptr &&
           !scoreboard.has_holes();
  }
  [[nodiscard]] bool may_run() const;
  [[nodiscard]] bool is_small(const SendWqe& wqe) const {
    return (wqe.opcode == WorkOpcode::kRdmaWrite || wqe.opcode == WorkOpcode::kSend) && wqe.length <= kCopiedBytesMax &&
           wqe.length <= id.mtu() && (wqe.flags & kSendFence) == 0;
  }
  bool transmit_small(PayloadCursor& cursor, TransmitBatch& batch, Instant now);
  struct SmallRun {
    WorkOpcode opcode{};
    RunSize allowed, used;
    std::uint32_t ack_interval = 0, until_asked = 0;  // packets until one that asks for an acknowledgement
    std::size_t packet_bytes = 0, room = 0;           // of the last; so many more of that size fit into the batch
    Message message;                                  // the next one
    wire::RunHeaders headers;
    [[nodiscard]] bool writes() const { return opcode == WorkOpcode::kRdmaWrite; }
  };
  [[nodiscard]] bool is_last_posted(const Message& message) const { return message.wqe + 1 == queue.tail(); }
  [[nodiscard]] SmallRun begin_run(Instant now) const;
  bool add_to_run(SmallRun& run, PayloadCursor& cursor, TransmitBatch& batch, Instant now);
  void end_run(const SmallRun& run, std::uint8_t path, Instant now);
  void count_run(const RunSize& used, std::uint8_t path, Instant now);  // first transmissions

  // --- transmit_single.cc ---
  [[nodiscard]] bool is_single_request() const;
  [[nodiscard]] const std::byte* piece_of(std::uint64_t number) const;
  // `room`: bytes reserved behind BXTH; the caller writes them in the batch.
  bool transmit_single(TransmitBatch& batch, std::size_t room, Instant now);

  // --- transmit_middle.cc ---
  [[nodiscard]] bool may_send_middle(const Message& message) const;
  [[nodiscard]] std::uint64_t middle_allowed(const Message& message) const;
  bool transmit_middle(const Message& message, PayloadCursor& cursor, TransmitBatch& batch, Instant now);

  // --- pace.cc ---
  [[nodiscard]] bool has_signals() const { return signals && !signals->is_idle(id.recovery->wan); }  // to be honoured
  [[nodiscard]] bool has_output(Instant now);  // whatever its rate allows
  bool poll_requests(TransmitBatch& batch, Instant now);

  // --- requester.cc ---
  [[nodiscard]] PacketBuilder builder() const { return {id, queue, scoreboard}; }

  // --- withdraw.cc ---
  void withdraw(Instant made, Instant now);

  // --- handle_ack.cc ---
  void take_round_trip(const congestion::RoundTrip& trip, std::uint64_t acknowledged, Instant echo, Instant now);
  void acknowledge_requests_before(Sequence boundary, Instant now);
  // --- ack_fast_path.h ---
  void on_cumulative_ack(const CumulativeAck& ack, Instant now);
  void apply_pending() {  // the pending RTT sample, if there is one
    if (env.round_trip.requester == this) apply_pending_round_trip();
  }
  void apply_pending_round_trip();

  // --- complete.cc ---
  void advance(Instant now);
  void complete_passed(Instant now);
  [[nodiscard]] bool has_outcome() const { return next.wants_local || fault.has_outcome(); }
  Outcome outcome(Instant now) {
    if (fault.has_outcome()) [[unlikely]] {
      if (const Outcome found = completer().outcome(now); found.asks_something()) return found;
    }
    return {.wants_local = next.wants_local};
  }
};

inline Requester::Impl* Requester::Parts::up_to_date() const {
  if (impl_ != nullptr) [[likely]]
    impl_->apply_pending();
  return impl_.get();
}

}  // namespace brdma::qp
