// qp/send/requester_impl.h - private: the requester's parts, shared by its files. Start at requester.h.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "base/compact_optional.h"
#include "base/transmit_interest.h"
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
#include "qp/read/response_admission.h"
#include "qp/read/response_gaps.h"
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
  Impl(Environment& environment, Identity& identity);
  ~Impl() {
    losses.recovery.end(env.pools.loss_recovery);
    if (env.round_trip.requester == this) env.round_trip.requester = nullptr;
  }

  // --- state that belongs together ---
  struct Losses {
    PooledLossRecovery recovery;  // while a packet is missing or was late
    recovery::FeedbackOrder feedback_order;
    std::unique_ptr<SenderJudge> judge;  // only in modes in which the sender judges
  };
  struct Path {  // what is known of it
    recovery::RttEstimator rtt;
    congestion::DelayWindow congestion;        // bytes of requests in flight
    std::unique_ptr<CongestionState> signals;  // a rate, ECN marks (pacing.h)
    std::unique_ptr<SendPaths> several;        // only with several
  };

  Environment& env;
  Identity& id;
  SendQueue queue;
  SendFault fault;
  MessageTable messages;
  Scoreboard scoreboard;
  Segments segments;  // of large commands, in progress
  Losses losses;
  Path path;
  Admission admission;                 // of requests
  ResponseAdmission responses;         // to READs, atomics and the like
  ResponseReceiver response_receiver;  // of them
  NextMessage next;
  RetransmissionTimers timers;
  ReceiverNotReady rnr;

  [[nodiscard]] WorkCompleter completer() { return {env, id, queue, fault}; }
  // --- state/pending.h ---
  // None: no posted request has yet to begin, no begun one to leave, and none is to be retransmitted. One of several
  // paths may have to be probed.
  [[nodiscard]] TransmitInterest pending_interest() const {
    if (queue.next() == queue.tail() && scoreboard.pending() == 0 && messages.all_left(scoreboard.next()) &&
        !path.several) {
      return TransmitInterest::kNone;
    }
    return scoreboard.pending() > 0 || losses.recovery ? TransmitInterest::kRetransmission : TransmitInterest::kNewData;
  }
  [[nodiscard]] bool is_idle() const;
  // --- requester.cc ---
  void begin_from(Psn first);
  void forget_flight();

  // --- views of the parts (loss/, read/, timers/, inquiry/) ---
  [[nodiscard]] SentPackets sent_packets() {
    return SentPackets{{env, id, scoreboard, messages, segments, path.congestion, responses, losses.recovery,
                        path.several.get(), losses.judge.get()}};
  }
  [[nodiscard]] ResponseGaps response_gaps() {
    return ResponseGaps{{env, id, scoreboard, messages, path.rtt, responses, response_receiver, losses.recovery}};
  }
  [[nodiscard]] TimerLengths timer_lengths() const {
    return TimerLengths{{id, scoreboard, path.rtt, path.congestion, responses, timers, losses.judge.get()}};
  }
  [[nodiscard]] Deadlines deadlines() const {
    return Deadlines{{id, scoreboard, messages, path.rtt, timers, rnr, admission, path.congestion, responses,
                      losses.recovery, path.signals, losses.judge.get()}};
  }
  [[nodiscard]] Progress progress() { return {env, id, scoreboard, timers}; }
  [[nodiscard]] TimerActions timer_actions() {
    return TimerActions{{env, id, scoreboard, timers, rnr, path.congestion, responses, response_receiver,
                         path.several.get(), sent_packets(), response_gaps(), link_inquiries(), timer_lengths()}};
  }
  [[nodiscard]] LocalReferences references() { return LocalReferences{{env, id, queue, next.cut}}; }
  [[nodiscard]] SendingRate sending_rate() {
    return SendingRate{{env, id, path.rtt, path.congestion, responses.congestion(), path.signals}};
  }
  [[nodiscard, gnu::always_inline]] MessageStart message_start() {
    return MessageStart{{env, id, queue, fault, messages, scoreboard, segments, path.rtt, path.congestion, admission,
                         responses, rnr, path.signals, next}};
  }
  // Precondition: a packet is pending.
  [[nodiscard]] Retransmissions retransmissions() {
    return Retransmissions{{env, id, queue, fault, scoreboard, path.rtt, path.congestion, responses.congestion(),
                            losses.recovery, admission, timers, rnr, response_pace(path.signals), path.several.get(),
                            sent_packets()}};
  }
  [[nodiscard]] SprayedRequests sprayed_requests() {
    return SprayedRequests{{env, id, queue, fault, messages, scoreboard, timers, path.several}};
  }
  [[nodiscard, gnu::always_inline]] CumulativeAcks cumulative_acks() {
    return CumulativeAcks{{env, id, scoreboard, segments, responses, response_receiver, losses.recovery, admission,
                           timers, rnr, path.several, losses.judge}};
  }
  [[nodiscard]] RoundTrips round_trips() {
    return RoundTrips{
        {env, id, scoreboard, path.rtt, path.congestion, responses.congestion(), admission, path.signals}};
  }
  [[nodiscard]] LinkInquiries link_inquiries() { return {env, id, path.signals}; }

  // --- transmit/transmit_new.cc ---
  [[nodiscard]] bool ready_to_send_new(Instant now);
  bool poll_new(TransmitBatch& batch, Instant now);
  // Of several writers of new packets that which has its turn, then the next one. True: some, or it, were added.
  bool transmit_small(PayloadCursor& cursor, TransmitBatch& batch, Instant now);
  bool transmit_middle(const Message& message, PayloadCursor& cursor, TransmitBatch& batch, Instant now);
  bool transmit_next(Message& message, PayloadCursor& cursor, TransmitBatch& batch, Instant now);
  // SingleRequest::transmit().
  bool transmit_single(TransmitBatch& batch, std::size_t room, Instant now);
  // --- requester.cc ---
  [[nodiscard]] bool has_output(Instant now);  // whatever its rate allows
  bool poll_requests(TransmitBatch& batch, Instant now);

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
    return {.wants_local = std::exchange(next.wants_local, false)};
  }
};

inline Requester::Impl* Requester::Parts::up_to_date() const {
  if (impl_ != nullptr) [[likely]]
    impl_->apply_pending();
  return impl_.get();
}

}  // namespace brdma::qp
