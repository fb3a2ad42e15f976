// qp/receive/responder_impl.h - private to the responder's files: its state, and the functions of each flow.
//
//   handle_request -> admission (receive_request.cc)
//        psn == base    -> execute (execute.cc) -> advanced -> drain (early packets that are in order now)
//        psn ahead      -> place_early / hold_early (place_early.cc), gap records (qp/gaps/request_gaps.h)
//        psn behind     -> duplicate (receive_request.cc), answered again (replayed_responses.h)
//   poll_...       -> response_sender.h (responses, atomics, NAKs), FFM (qp/gaps/feedback_sender.h), acknowledge.cc
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "bitmap/receive_window.h"
#include "qp/gaps/feedback_sender.h"
#include "qp/gaps/gap_feedback.h"
#include "qp/gaps/gap_tolerance.h"
#include "qp/gaps/out_of_order.h"
#include "qp/gaps/request_gaps.h"
#include "qp/gaps/sequence_nak.h"
#include "qp/paths/response_paths.h"
#include "qp/paths/spray_responses.h"
#include "qp/queues/receive_queue.h"
#include "qp/receive/acknowledgement_schedule.h"
#include "qp/receive/base_packet.h"
#include "qp/receive/fetch_local.h"
#include "qp/receive/operation_receiver.h"
#include "qp/receive/request_checks.h"
#include "qp/receive/responder.h"
#include "qp/receive/verdict.h"
#include "qp/respond/repeated_responses.h"
#include "qp/respond/replayed_responses.h"
#include "qp/respond/responder_resources.h"
#include "qp/respond/response_sender.h"
#include "wire/control.h"

namespace brdma::qp {

inline constexpr Duration kAckDelayOutOfOrder = 5_us;

struct Responder::Impl {
  Impl(const Environment& environment, Identity& owner);
  ~Impl() {
    end_out_of_order();
    receives.clear();  // returns receives to a shared queue
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // The message in progress of in-order execution. Either packet format continues it.
  struct Message {
    enum class Kind : std::uint8_t { kNone, kSend, kWrite };
    Kind kind = Kind::kNone;
    std::uint32_t packets = 0;
    std::uint64_t bytes = 0;  // payload so far
    wire::Reth reth;          // of a WRITE: of the whole message
  };
  // single_write.cc
  [[nodiscard]] std::byte* place_of(const wire::SingleWrite& write) const;
  void take_single(const wire::SingleWrite& write, std::byte* to, Outcome& outcome, Instant now);
  // middle_write.cc
  [[nodiscard]] bool is_middle_of_write(const wire::Packet& packet) const;
  bool take_middle_write(const wire::Packet& packet, Instant now);
  // For a packet in bitmap mode.
  void note_echo(std::uint8_t path, std::uint64_t timestamp, Instant now) {
    echo.note(path, timestamp, env.waited, now);
  }
  // receive_request.cc
  Outcome handle_request(const wire::Packet& packet, Instant now);
  void handle_ahead(const wire::Packet& packet, Instant newest_before, Instant now);
  [[nodiscard]] bool state_is_full() const;
  [[nodiscard]] bool has_record(const wire::Packet& packet) const;
  void note_duplicate(const wire::Packet& packet, Instant now);
  void handle_duplicate(const wire::Packet& packet, Instant now);
  void drain(Outcome& outcome, Instant now);
  void fill_gap(const wire::Packet& packet, Outcome& outcome, Instant now);
  void retry_base(Outcome& outcome, Instant now);
  void wait_for_receive(const wire::Packet& packet, Instant now);
  [[nodiscard]] bool keep_unready(const wire::Packet& packet, Instant now);
  [[nodiscard]] Duration rnr_hold() const;
  void refuse_waiting();
  void advanced(const wire::Packet& packet);
  void not_ready(const wire::Packet& packet);
  void repeat_not_ready(const wire::Packet& behind);
  void fail(Verdict verdict, Psn psn, Outcome& outcome);
  void drop(DropReason reason, const wire::Packet& packet, Instant now);

  // execute.cc
  Verdict execute(const wire::Packet& packet, bool placed, Outcome& outcome, Instant now);
  Verdict execute_send(const wire::Packet& packet, bool placed, Outcome& outcome, Instant now);
  Verdict execute_write(const wire::Packet& packet, bool placed, Outcome& outcome, Instant now);
  Verdict execute_single_write(const wire::Packet& packet);  // one packet, its data in it, without immediate
  Verdict begin_write(const wire::Packet& packet, std::byte*& to);
  Verdict execute_read(const wire::Packet& packet);
  Verdict execute_atomic(const wire::Packet& packet);
  bool place_write(const wire::Packet& packet, std::byte* to);  // `to`: its place, if known
  Verdict execute_confirmed(const wire::Packet& packet);        // ATOMIC WRITE, FLUSH
  [[nodiscard]] bool store_word(const wire::Packet& packet, std::byte* word);
  void complete_receive(const wire::Packet& packet, CompletionStatus status, std::uint32_t bytes, Outcome& outcome,
                        Instant now);
  // Views of what a request must satisfy first (request_checks.h).
  [[nodiscard]] RequestChecks request_checks() const { return RequestChecks{{env.memory, identity, mtu}}; }
  [[nodiscard]] EarlyChecks early_checks() {
    return EarlyChecks{{env.memory, identity, window, out_of_order, receives, mtu, rsn}};
  }

  // Data by reference (fetch_local.h).
  [[nodiscard]] LocalFetch local_fetch() const { return LocalFetch{{env, identity, out_of_order, mtu}}; }

  // place_early.cc: nullopt when the packet is now kept (and may be marked as received), else the reason.
  std::optional<DropReason> keep_early(const wire::Packet& packet, Instant now);
  std::optional<DropReason> place_or_hold(const wire::Packet& packet);
  std::optional<DropReason> place_send_early(const wire::Packet& packet);
  std::optional<DropReason> place_write_early(const wire::Packet& packet);

  // Large transfers, as they arrive (operation_receiver.h).
  [[nodiscard]] OperationReceiver operation_receiver() {
    return OperationReceiver{{env, identity, window, out_of_order, receives, ack, operations, mtu, rsn}};
  }

  // Gaps among requests (qp/gaps/request_gaps.h). Precondition: out_of_order.
  [[nodiscard]] RequestGaps request_gaps() {
    return RequestGaps{{env, identity, window, *out_of_order, tolerance, feedback, base_packet, ack, sequence_nak(),
                        mtu, speaks_bitmap()}};
  }
  [[nodiscard]] SequenceNak sequence_nak() {
    return SequenceNak{{base_packet, resources, base(), msn, speaks_bitmap()}};
  }
  // Precondition: feedback.due().
  [[nodiscard]] FeedbackSender feedback_sender() {
    return FeedbackSender{{env, identity, window, *out_of_order, feedback, base_packet, ack_loss, mtu}};
  }

  // path_echo.cc: if the peer sends on several paths
  void note_path(const wire::Packet& packet, Instant now);
  void keep_echo(const wire::Packet& copy);

  // With several paths to the peer (spray_responses.h).
  [[nodiscard]] SprayedResponses sprayed_responses() { return SprayedResponses{{env, identity, response_paths}}; }

  // Drops reported by a switch (repeated_responses.h).
  [[nodiscard]] RepeatedResponses repeated_responses() {
    return RepeatedResponses{{.env = env,
                              .identity = identity,
                              .window = window,
                              .resources = resources,
                              .log = response_log,
                              .ack = ack,
                              .round_trip = feedback.round_trip(),
                              .mtu = mtu,
                              .msn = msn,
                              .bitmap = speaks_bitmap(),
                              .serving = started && !halted,
                              .established = established}};
  }

  // acknowledge.cc
  void note_for_acknowledgement(bool asked, Instant now) { ack.on_packet(asked, speaks_bitmap(), now); }
  // Only the most common acknowledgement fits into a data packet: all before the base has arrived, nothing beyond it.
  [[nodiscard]] bool may_piggyback() const { return identity.peer_reads_piggybacks && window.empty(); }
  [[nodiscard]] wire::Piggyback piggyback_now(Instant now) const;
  void note_acknowledged(Instant now);
  void send_final_acks();
  bool poll_acknowledgement(TransmitBatch& batch, Instant now);
  bool piggyback_acknowledgement(TransmitBatch& batch, Instant now);
  void acknowledged(std::uint8_t syndrome, Instant now);
  bool send_acknowledgement(TransmitBatch& batch, const wire::Aeth& aeth, Psn psn, bool bitmap, Instant now);
  bool send_standard_ack(TransmitBatch& batch, const wire::Aeth& aeth, Psn psn);
  bool send_bitmap_ack(TransmitBatch& batch, const wire::Aeth& aeth, Instant now);
  bool send_with_bits(TransmitBatch& batch, const wire::Aeth& aeth, Instant now);
  [[nodiscard]] wire::BitmapAck bitmap_ack(const wire::Aeth& aeth, Instant now) const;
  [[nodiscard]] wire::Bth ack_header() const;
  [[nodiscard]] Instant acknowledgement_deadline() const { return ack.deadline(ack_delay()); }
  // While packets are missing, acknowledgements leave sooner.
  [[nodiscard, gnu::always_inline]] Duration ack_delay() const {
    return window.empty() ? recovery().ack_delay : std::min(recovery().ack_delay, kAckDelayOutOfOrder);
  }
  [[nodiscard]] std::uint16_t judged() const;
  // pending.h
  [[nodiscard]] bool only_acknowledges() const;
  [[nodiscard]] bool has_nothing_pending() const;
  [[nodiscard]] bool is_idle() const;
  [[nodiscard]] bool acknowledgement_due(Instant now) const;
  [[nodiscard]] bool acknowledgement_deferrable(Instant now, int delays) const;

  // sack_ranges.cc
  [[nodiscard]] std::uint32_t list_ranges(Psn from, std::byte* out);
  void note_ranges_reported(std::uint32_t count);

  // Duplicates that are answered again (replayed_responses.h).
  [[nodiscard]] ReplayedResponses replayed_responses() {
    return ReplayedResponses{{.env = env,
                              .identity = identity,
                              .resources = resources,
                              .ack = ack,
                              .repeated = repeated_responses(),
                              .sprayed = sprayed_responses(),
                              .base = base(),
                              .mtu = mtu,
                              .msn = msn,
                              .bitmap = speaks_bitmap()}};
  }

  // Responses that leave (response_sender.h).
  [[nodiscard]] ResponseSender response_sender() {
    return ResponseSender{{.env = env,
                           .identity = identity,
                           .resources = resources,
                           .paths = response_paths.get(),
                           .log = response_log.get(),
                           .halted = halted,
                           .owed = owed,
                           .base = base(),
                           .mtu = mtu}};
  }

  // responder.cc
  void start(Psn first);
  void reset_connection();
  [[nodiscard]] std::size_t records_bytes() const;  // of early packets (payload apart), of gaps
  void begin_out_of_order();
  void end_out_of_order();
  Status post_receive(const ReceiveRequest& request);
  void receive_posted() { base_packet.on_receive_posted(); }
  void flush(Instant now);
  Outcome handle_timeout(Instant now);
  [[nodiscard]] std::optional<Instant> next_timeout() const;

  // The peer reads bitmap-mode packets: it has announced it, or sent one.
  [[nodiscard]] bool speaks_bitmap() const { return identity.bitmap_agreed || bitmap_seen; }
  [[nodiscard]] Psn base() const { return window.base(); }

  const Environment& env;
  Identity& identity;
  // The engine's, or this queue pair's own: read it again each time.
  [[nodiscard]] const RecoveryConfig& recovery() const { return *identity.recovery; }
  ReceiveQueue receives;
  bitmap::ReceiveWindow window;
  OutOfOrderState* out_of_order = nullptr;  // while the window holds packets
  GapTolerance tolerance;
  std::unique_ptr<ResponsePaths> response_paths;  // only if responses may take several
  std::unique_ptr<ResponseLog> response_log;      // with the first response in bitmap mode
  ReceivedOperations operations;                  // of large transfers
  ResponderResources resources;
  Message message;
  std::uint32_t mtu = 256;
  std::uint32_t msn = 0;  // messages completed; 24 bits
  std::uint32_t rsn = 0;  // receives completed; 24 bits
  bool started = false;
  bool halted = false;  // a fatal NAK was made: no packet is accepted any more
  bool bitmap_seen = false;
  bool established = false;  // IBV_EVENT_COMM_EST was raised, or is not to be
  BasePacket base_packet;
  AcknowledgementLoss ack_loss;
  AcknowledgementSchedule ack;
  TimestampEcho echo;  // of the newest packet of bitmap mode
  GapFeedback feedback;
  Instant last_call;
  std::optional<Outcome> owed;  // found while sending; returned by the next handle_timeout()
};

}  // namespace brdma::qp
