// tests/support/responder_parts.h - the parts of a responder, without it: for unit tests of the views of them
// (libbitmaprdma/qp/{receive,execute,acknowledge,gaps,respond,paths}). Real parts, wired as in a Responder.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "qp/queues/completion_queue.h"
#include "qp/receive/responder_impl.h"

namespace brdma::test {

// A connection in bitmap mode, an MTU of 1024; all requests before the base have been executed, 7 messages. One region,
// with all rights; the peer may READ.
struct ResponderParts {
  static constexpr std::uint32_t kMtu = 1024, kMsn = 7;
  static constexpr std::uint64_t kStart = 0x10'0000;  // of the region, in requests
  static constexpr std::uint32_t kRights =
      kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic | kAccessFlushGlobal;

  explicit ResponderParts(Psn base = Psn{1010}) : window{base, qp::window_shape(recovery), environment.pools.segments} {
    identity.recovery = &recovery;
    identity.qpn = 17;
    identity.pd = memory.alloc_pd();
    identity.receive_cq = &cq;
    identity.attributes.path_mtu = PathMtu::k1024;
    identity.attributes.access = kAccessRemoteRead;
    identity.attributes.max_dest_rd_atomic = 4;
    identity.attributes.destination_qpn = 18;
    identity.bitmap_agreed = true;
    connection = {.mtu = kMtu, .started = true, .established = true};
    resources.reset(4);
    ack.on_sent(base);
    for (std::uint32_t i = 0; i < kMsn; ++i) messages.count();
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    region = memory.add(identity.pd, address, bytes.size(), kStart, kRights).value();
  }
  ~ResponderParts() { room().end(); }
  ResponderParts(const ResponderParts&) = delete;
  ResponderParts& operator=(const ResponderParts&) = delete;

  // Room for responses to duplicates is used up.
  void fill() {
    while (resources.room_for_replay()) resources.push(qp::Response{});
  }
  // All room for responses is.
  void fill_all() {
    while (resources.room_for_request()) resources.push(qp::Response{});
  }
  // A receive of so many bytes, in the region from `offset` on.
  void post(std::uint64_t wr_id, std::uint32_t length, std::uint64_t offset = 0) {
    const Sge sge{kStart + offset, length, region->key};
    (void)receives.post({wr_id, {&sge, 1}});
  }
  // Of the completion queue, oldest first.
  std::vector<Completion> completions() {
    std::vector<Completion> all;
    for (Completion one; cq.poll({&one, 1}) == 1;) all.push_back(one);
    return all;
  }
  void pass(Duration time) { now = now + time; }
  [[nodiscard]] std::uint64_t count(Counter counter) const { return statistics.get(counter); }

  // --- views ---
  [[nodiscard]] qp::RequestExecution execution() {
    return qp::RequestExecution{
        {environment, identity, window, out_of_order.get(), receives, operations, resources, log, messages, mtu}};
  }
  [[nodiscard]] qp::UsedReceives used_receives() {
    return qp::UsedReceives{{environment, identity, receives, messages}};
  }
  [[nodiscard]] qp::FastWrites fast_writes() {
    return qp::FastWrites{{environment, identity, window, out_of_order, tolerance, operations, messages, connection,
                           base_packet, acknowledgements}};
  }
  [[nodiscard]] qp::EarlyRoom room() { return qp::EarlyRoom{{environment, identity, window, out_of_order, mtu}}; }
  [[nodiscard]] qp::EarlyPlacement placement() {
    return qp::EarlyPlacement{
        {environment, identity, window, out_of_order.get(), receives, ack, operations, mtu, messages.rsn()}};
  }
  [[nodiscard]] qp::UnreadyRequests unready() {
    return qp::UnreadyRequests{
        {environment, identity, window, out_of_order, base_packet, resources, mtu, messages.msn(), bitmap}};
  }
  [[nodiscard]] qp::DuplicateRequests duplicates() {
    return qp::DuplicateRequests{{environment, identity, window, tolerance, feedback, acknowledgements, ack_loss}};
  }
  [[nodiscard]] qp::SequenceNak nak() {
    return qp::SequenceNak{{base_packet, resources, window.base(), messages.msn(), bitmap}};
  }
  // Precondition: out_of_order.
  [[nodiscard]] qp::RequestGaps gaps() {
    return qp::RequestGaps{
        {environment, identity, window, *out_of_order, tolerance, feedback, base_packet, ack, nak(), mtu, bitmap}};
  }
  [[nodiscard]] qp::FeedbackSender feedback_sender() {
    return qp::FeedbackSender{{environment, identity, window, *out_of_order, feedback, base_packet, ack_loss, mtu}};
  }
  [[nodiscard]] qp::AcknowledgementTimes times() {
    return qp::AcknowledgementTimes{{ack, recovery, !window.empty(), messages.in_progress()}};
  }
  [[nodiscard]] qp::AcknowledgementWriter writer() {
    return qp::AcknowledgementWriter{
        {environment, identity, window, out_of_order.get(), operations, acknowledgements, mtu, messages.msn()}};
  }
  [[nodiscard]] qp::PacketEcho packet_echo() { return qp::PacketEcho{{environment, identity, acknowledgements}}; }
  [[nodiscard]] qp::RepeatedResponses repeated() {
    return qp::RepeatedResponses{{.env = environment,
                                  .identity = identity,
                                  .window = window,
                                  .resources = resources,
                                  .log = log,
                                  .ack = ack,
                                  .round_trip = round_trip,
                                  .mtu = mtu,
                                  .msn = messages.msn(),
                                  .bitmap = bitmap,
                                  .serving = !halted,
                                  .established = established}};
  }
  [[nodiscard]] qp::SprayedResponses sprayed() { return qp::SprayedResponses{{environment, identity, paths}}; }
  [[nodiscard]] qp::ReplayedResponses replayed() {
    return qp::ReplayedResponses{{.env = environment,
                                  .identity = identity,
                                  .resources = resources,
                                  .ack = ack,
                                  .repeated = repeated(),
                                  .sprayed = sprayed(),
                                  .base = window.base(),
                                  .mtu = mtu,
                                  .msn = messages.msn(),
                                  .bitmap = bitmap}};
  }
  [[nodiscard]] qp::ResponseSender sender() {
    return qp::ResponseSender{{.env = environment,
                               .identity = identity,
                               .resources = resources,
                               .paths = paths.get(),
                               .log = log.get(),
                               .refusal = responses.refusal,
                               .halted = halted,
                               .read_refused = responses.read_refused,
                               .base = window.base(),
                               .mtu = mtu}};
  }

  alignas(8) std::array<std::byte, 16 * kMtu> bytes{};  // of the region
  EngineConfig config;
  memory::MemoryTable memory{SecretRandom{1, "keys"}};
  Statistics statistics;
  qp::Environment environment{.config = config, .memory = memory, .telemetry = {.statistics = statistics}};
  RecoveryConfig recovery;
  CompletionQueue cq{16, nullptr};
  qp::Identity identity;
  MemoryRegion* region = nullptr;

  qp::ReceiveQueue receives{8, 1};
  bitmap::ReceiveWindow window;
  qp::PooledOutOfOrder out_of_order;
  qp::GapTolerance tolerance;
  qp::ReceivedOperations operations;
  qp::Responses responses;
  qp::ReceivedMessages messages;
  qp::Connection connection;
  qp::BasePacket base_packet;
  qp::AcknowledgementLoss ack_loss;
  qp::Acknowledgements acknowledgements;
  qp::GapFeedback feedback;

  // Parts of those.
  qp::ResponderResources& resources = responses.resources;
  std::unique_ptr<qp::ResponseLog>& log = responses.log;
  std::unique_ptr<qp::ResponsePaths>& paths = responses.paths;
  qp::AcknowledgementSchedule& ack = acknowledgements.schedule;
  qp::TimestampEcho& echo = acknowledgements.echo;
  std::uint32_t& mtu = connection.mtu;
  bool& halted = connection.halted;  // by an error
  bool& established = connection.established;
  bool& bitmap = identity.bitmap_agreed;

  Duration round_trip;  // of feedback, as for repeated responses
  Instant now = Instant{} + 1_s;
};

// While packets are missing: PSN 1000 at the base, 16 s after the clock's start.
struct ReceiverParts : ResponderParts {
  ReceiverParts() : ResponderParts{Psn{1000}} {
    identity.peer_token = 99;
    resources.reset(16);
    room().begin();
    now = Instant{} + 16_s;
  }

  [[nodiscard]] wire::Packet packet(std::uint32_t psn, std::uint8_t path = 0) const {
    wire::Packet packet;
    packet.op = wire::RcOp::kWriteMiddle;
    packet.bitmap = bitmap;
    packet.bth.psn = Psn{psn};
    packet.bxth.path = path;
    return packet;
  }
  [[nodiscard]] wire::Packet retransmission(std::uint32_t psn) const {
    wire::Packet again = packet(psn);
    again.bxth.retransmitted = true;
    return again;
  }

  // --- what a responder does to its parts ---
  // A packet beyond the base comes, and is kept.
  void arrives(const wire::Packet& packet, std::optional<Instant> base_due = {}) {
    const Psn before = window.highest(), psn = packet.bth.psn;
    const std::uint32_t count = qp::psns_of(packet, mtu);
    window.receive_run(psn, count);
    if (tolerance.paths() != nullptr) tolerance.paths()->received(packet.bxth.path, window.base(), psn, count);
    gaps().on_early(packet, before, base_due, now);
  }
  void arrive(std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t psn = first; psn <= last; ++psn) arrives(packet(psn));
  }
  // The packet at the base comes, and is executed with all that are in order now. True: its gap is closed.
  bool executes(const wire::Packet& packet) {
    const bool closed = gaps().fill_base(packet, now);
    do {
      base_packet.advance();
      if (tolerance.paths() != nullptr) tolerance.paths()->forget(window.base(), 1);
      window.advance_over(1);
    } while (window.has(window.base()));
    gaps().on_advance(now, environment.arrived_at(now));
    return closed;
  }
  bool executes(std::uint32_t psn) { return executes(packet(psn)); }
  // The peer sends on so many paths.
  void begin_paths(std::uint32_t count) {
    identity.receiving_paths = count;
    tolerance.on_path(0, environment, identity, now);
  }
  // An operator's request. Returns the first PSNs of the gaps.
  std::vector<std::uint32_t> request_by_hand(std::optional<Psn> psn = {}) {
    std::vector<std::uint32_t> named;
    gaps().request_by_hand(psn, now, [&](const bitmap::GapRecord& gap) { named.push_back(gap.start.value()); });
    return named;
  }
  // An FFM has named the gap just now, `times` times in all.
  void named(std::size_t gap, std::uint16_t times) {
    state->gaps[gap].feedbacks = times;
    state->gaps[gap].last_feedback = now;
  }
  // It is to be named again.
  [[nodiscard]] bool repeats(std::size_t gap) const {
    return feedback.is_repetition_due(state->gaps[gap], state->last_arrival, recovery, now);
  }
  [[nodiscard]] bool lost(std::size_t gap) const { return state->gaps[gap].state == bitmap::GapState::kPromoted; }

  qp::PooledOutOfOrder& state = out_of_order;
};

}  // namespace brdma::test
