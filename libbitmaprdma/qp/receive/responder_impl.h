// qp/receive/responder_impl.h - private to the responder's files: its parts, and the way of a request through them.
//
//   handle_request -> admission (receive_request.cc)
//        psn == base    -> execute (qp/execute/request_execution.h) -> advanced -> drain (early packets in order now)
//        psn ahead      -> early_placement.h, gap records (qp/gaps/request_gaps.h)
//        psn behind     -> duplicate_requests.h, answered again (qp/respond/replayed_responses.h)
//   poll_...       -> qp/respond/response_sender.h (responses, atomics, NAKs), FFM (qp/gaps/feedback_sender.h),
//                     qp/acknowledge/acknowledgement_writer.h
//
// Rules that need several parts are views of them: made where they are used, stored nowhere.
#pragma once

#include <cstdint>
#include <optional>

#include "base/transmit_interest.h"
#include "bitmap/receive_window.h"
#include "qp/acknowledge/acknowledgement_schedule.h"
#include "qp/acknowledge/acknowledgement_times.h"
#include "qp/acknowledge/acknowledgement_writer.h"
#include "qp/acknowledge/packet_echo.h"
#include "qp/execute/fetch_local.h"
#include "qp/execute/received_messages.h"
#include "qp/execute/request_checks.h"
#include "qp/execute/request_execution.h"
#include "qp/execute/used_receives.h"
#include "qp/execute/verdict.h"
#include "qp/execute/xrc_target.h"
#include "qp/gaps/feedback_sender.h"
#include "qp/gaps/gap_feedback.h"
#include "qp/gaps/gap_tolerance.h"
#include "qp/gaps/out_of_order.h"
#include "qp/gaps/request_gaps.h"
#include "qp/gaps/sequence_nak.h"
#include "qp/paths/spray_responses.h"
#include "qp/queues/receive_queue.h"
#include "qp/receive/base_packet.h"
#include "qp/receive/connection.h"
#include "qp/receive/duplicate_requests.h"
#include "qp/receive/early_placement.h"
#include "qp/receive/early_room.h"
#include "qp/receive/fast_writes.h"
#include "qp/receive/operation_receiver.h"
#include "qp/receive/responder.h"
#include "qp/receive/unready_requests.h"
#include "qp/respond/repeated_responses.h"
#include "qp/respond/replayed_responses.h"
#include "qp/respond/response_sender.h"
#include "qp/respond/responses.h"

namespace brdma::qp {

struct Responder::Impl {
  Impl(Environment& environment, Identity& owner);
  ~Impl() {
    early_room().end();
    receives.clear();  // returns receives to a shared queue
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // --- receive_request.cc ---
  Outcome handle_request(const wire::Packet& packet, Instant now);
  void handle_ahead(const wire::Packet& packet, Instant newest_before, Instant now);
  Verdict execute(const wire::Packet& packet, bool placed, Outcome& outcome, Instant now);
  void fill_gap(const wire::Packet& packet, Outcome& outcome, Instant now);
  void retry_base(Outcome& outcome, Instant now);
  void drain(Outcome& outcome, Instant now);
  void advanced(const wire::Packet& packet);
  void fail(Verdict verdict, Psn psn, Outcome& outcome);
  void drop(DropReason reason, const wire::Packet& packet, Instant now);

  // --- responder.cc ---
  void start(Psn first);
  void reset_connection();
  void flush(Instant now);
  Outcome handle_timeout(Instant now);
  [[nodiscard]] std::optional<Instant> next_timeout() const;

  // --- state/pending.h ---
  // A refused READ ends the queue pair, whatever else is pending.
  [[nodiscard]] TransmitInterest pending_interest() const {
    if (!responses.resources.empty() || feedback.due() || responses.read_refused) return TransmitInterest::kForced;
    return acknowledgements.schedule.pending() ? TransmitInterest::kDeferrable : TransmitInterest::kNone;
  }
  [[nodiscard]] bool is_idle() const;

  // --- views: requests ---
  [[nodiscard, gnu::always_inline]] FastWrites fast_writes() {
    return FastWrites{{env, identity, window, out_of_order, tolerance, operations, messages, connection, base_packet,
                       acknowledgements}};
  }
  [[nodiscard]] EarlyRoom early_room() { return EarlyRoom{{env, identity, window, out_of_order, connection.mtu}}; }
  // Precondition: out_of_order.
  [[nodiscard]] EarlyPlacement early_placement() { return EarlyPlacement{operation_receiver().parts()}; }
  [[nodiscard]] OperationReceiver operation_receiver() {
    return OperationReceiver{{env, identity, window, out_of_order.get(), receives, acknowledgements.schedule,
                              operations, connection.mtu, messages.rsn()}};
  }
  [[nodiscard]] UnreadyRequests unready_requests() {
    return UnreadyRequests{{env, identity, window, out_of_order, base_packet, responses.resources, connection.mtu,
                            messages.msn(), speaks_bitmap()}};
  }
  [[nodiscard]] DuplicateRequests duplicate_requests() {
    return DuplicateRequests{{env, identity, window, tolerance, feedback, acknowledgements, ack_loss}};
  }

  [[nodiscard]] XrcTarget xrc_target() { return XrcTarget{{env, identity, receives}}; }

  // --- views: gaps ---
  // Precondition: out_of_order.
  [[nodiscard]] RequestGaps request_gaps() {
    return RequestGaps{{env, identity, window, *out_of_order, tolerance, feedback, base_packet,
                        acknowledgements.schedule, sequence_nak(), connection.mtu, speaks_bitmap()}};
  }
  [[nodiscard]] SequenceNak sequence_nak() {
    return SequenceNak{{base_packet, responses.resources, base(), messages.msn(), speaks_bitmap()}};
  }
  // Precondition: feedback.due().
  [[nodiscard]] FeedbackSender feedback_sender() {
    return FeedbackSender{{env, identity, window, *out_of_order, feedback, base_packet, ack_loss, connection.mtu}};
  }

  // --- views: acknowledgements ---
  [[nodiscard, gnu::always_inline]] AcknowledgementTimes acknowledgement_times() const {
    return AcknowledgementTimes{{acknowledgements.schedule, recovery(), !window.empty(), messages.in_progress()}};
  }
  [[nodiscard, gnu::always_inline]] AcknowledgementWriter acknowledgement_writer() {
    return AcknowledgementWriter{
        {env, identity, window, out_of_order.get(), operations, acknowledgements, connection.mtu, messages.msn()}};
  }
  [[nodiscard, gnu::always_inline]] PacketEcho packet_echo() { return PacketEcho{{env, identity, acknowledgements}}; }

  // --- views: responses ---
  [[nodiscard]] SprayedResponses sprayed_responses() { return SprayedResponses{{env, identity, responses.paths}}; }
  [[nodiscard]] RepeatedResponses repeated_responses() {
    return RepeatedResponses{{.env = env,
                              .identity = identity,
                              .window = window,
                              .resources = responses.resources,
                              .log = responses.log,
                              .ack = acknowledgements.schedule,
                              .round_trip = feedback.round_trip(),
                              .mtu = connection.mtu,
                              .msn = messages.msn(),
                              .bitmap = speaks_bitmap(),
                              .serving = connection.serves(),
                              .established = connection.established}};
  }
  [[nodiscard]] ReplayedResponses replayed_responses() {
    return ReplayedResponses{{.env = env,
                              .identity = identity,
                              .resources = responses.resources,
                              .ack = acknowledgements.schedule,
                              .repeated = repeated_responses(),
                              .sprayed = sprayed_responses(),
                              .base = base(),
                              .mtu = connection.mtu,
                              .msn = messages.msn(),
                              .bitmap = speaks_bitmap()}};
  }
  [[nodiscard]] ResponseSender response_sender() {
    return ResponseSender{{.env = env,
                           .identity = identity,
                           .resources = responses.resources,
                           .paths = responses.paths.get(),
                           .log = responses.log.get(),
                           .refusal = responses.refusal,
                           .halted = connection.halted,
                           .read_refused = responses.read_refused,
                           .base = base(),
                           .mtu = connection.mtu}};
  }

  // The peer reads bitmap-mode packets: it has announced it, or sent one.
  [[nodiscard]] bool speaks_bitmap() const { return identity.bitmap_agreed || connection.bitmap_seen; }
  [[nodiscard]] Psn base() const { return window.base(); }
  // The engine's, or this queue pair's own: read it again each time.
  [[nodiscard]] const RecoveryConfig& recovery() const { return *identity.recovery; }

  Environment& env;
  Identity& identity;
  ReceiveQueue receives;
  bitmap::ReceiveWindow window;
  PooledOutOfOrder out_of_order;  // while the window holds packets
  GapTolerance tolerance;
  ReceivedOperations operations;  // of large transfers
  Responses responses;
  ReceivedMessages messages;
  Connection connection;
  BasePacket base_packet;
  AcknowledgementLoss ack_loss;
  Acknowledgements acknowledgements;
  GapFeedback feedback;
  Instant last_call;
};

}  // namespace brdma::qp
