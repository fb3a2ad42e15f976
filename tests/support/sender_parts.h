// tests/support/sender_parts.h - the parts of a requester, without it: for unit tests of the views of them
// (libbitmaprdma/qp/{loss,timers,paths,read,send,transmit,inquiry}). Real parts, wired as in a Requester.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "qp/inquiry/link_inquiries.h"
#include "qp/loss/reported_arrivals.h"
#include "qp/loss/reported_losses.h"
#include "qp/loss/retransmissions.h"
#include "qp/loss/sent_packets.h"
#include "qp/paths/path_evidence.h"
#include "qp/paths/spray_requests.h"
#include "qp/queues/completion_queue.h"
#include "qp/queues/payload_cursor.h"
#include "qp/queues/send_queue.h"
#include "qp/queues/transmit_batch.h"
#include "qp/queues/work_completer.h"
#include "qp/read/request_copies.h"
#include "qp/read/response_gaps.h"
#include "qp/read/response_pacing.h"
#include "qp/send/admission.h"
#include "qp/send/local_references.h"
#include "qp/send/message_start.h"
#include "qp/send/sending_rate.h"
#include "qp/timers/deadlines.h"
#include "qp/timers/progress.h"
#include "qp/timers/timer_actions.h"
#include "wire/packet.h"

namespace brdma::test {

// Bitmap mode, an MTU of 1024, first PSN 1000, first sequence 0, 16 s after the clock's start.
struct SenderParts {
  static constexpr std::uint32_t kMtu = 1024;

  SenderParts() {
    identity.recovery = &recovery;
    identity.state = QpState::kRts;
    identity.qpn = 17;
    identity.attributes.path_mtu = PathMtu::k1024;
    identity.attributes.timeout = 14;
    identity.attributes.retry_count = 7;
    identity.attributes.max_rd_atomic = 16;
    identity.bitmap_agreed = true;
    identity.peer_credit = {10'000, 1u << 30};
    identity.peer_window = 10'000;
    scoreboard.begin_from(Psn{1000});
  }
  ~SenderParts() { loss.end(environment.pools.loss_recovery); }
  SenderParts(const SenderParts&) = delete;
  SenderParts& operator=(const SenderParts&) = delete;

  // --- what a requester does to its parts ---
  // A WRITE of full packets leaves. Returns its first sequence.
  qp::Sequence write(std::uint32_t packets, std::uint8_t path = 0) {
    const qp::Sequence first = begin(packets, packets * kMtu, qp::MessageKind::kWrite);
    if (packets_in_flight() == 0) timers.on_flight_begun(now);
    for (std::uint32_t i = 0; i < packets; ++i) {
      scoreboard.sent(kMtu, path, now);
      if (paths) paths->sent(path, now);
      sent().note_left(first + i, now);
    }
    timers.on_new_data();
    timers.on_activity(now);
    return first;
  }
  // A READ request with so many responses leaves.
  qp::Sequence read(std::uint32_t responses_of_it, std::uint8_t path = 0) {
    const qp::Sequence first = begin(responses_of_it, responses_of_it * kMtu, qp::MessageKind::kRead);
    if (packets_in_flight() == 0) timers.on_flight_begun(now);
    messages.back().in_flight_counted = true;
    timers.on_new_data();
    responses.on_requested(responses_of_it, responses_of_it * kMtu);
    scoreboard.sent_request(responses_of_it, path, now);
    if (paths) paths->request_sent(path, now);
    timers.on_activity(now);
    return first;
  }
  // It is pending: it leaves.
  void leaves_again(qp::Sequence sequence, std::uint8_t path = 0) {
    const qp::SentPackets packets = sent();  // g++ 14 takes a reference out of a temporary view for dangling
    const qp::Message& message = packets.message_of(sequence);
    packets.left_again(sequence, message.answered() ? 0 : message.payload_at(sequence, kMtu), path, now);
  }
  void acknowledge(qp::Sequence sequence) { sent().acknowledge(sequence, sent().message_of(sequence), now); }
  // The peer reports `sequence`, which lies beyond the base.
  void report(qp::Sequence sequence) {
    scoreboard.note_reported(sequence);
    acknowledge(sequence);
    scoreboard.note_arrived(sequence + 1);
  }
  void pass(Duration time) { now = now + time; }

  [[nodiscard]] std::uint64_t count(Counter counter) const { return statistics.get(counter); }
  [[nodiscard]] bool pending(qp::Sequence sequence) const {
    return scoreboard.state(sequence) == bitmap::EntryState::kRetransmitPending;
  }
  [[nodiscard]] std::vector<qp::Sequence> all_pending() const {
    std::vector<qp::Sequence> all;
    for (qp::Sequence at = scoreboard.base(); at < scoreboard.next(); ++at)
      if (pending(at)) all.push_back(at);
    return all;
  }
  [[nodiscard]] std::uint32_t packets_in_flight() const { return scoreboard.flight().packets; }

  // --- views ---
  [[nodiscard]] qp::SentPackets sent() {
    return qp::SentPackets{
        {environment, identity, scoreboard, messages, segments, congestion, responses, loss, paths.get(), judge.get()}};
  }
  [[nodiscard]] qp::ReportedArrivals arrivals() {
    return qp::ReportedArrivals{{environment, identity, scoreboard, segments, congestion, loss, paths.get(),
                                 judge != nullptr, sent(), progress(), inquiries(), lengths()}};
  }
  [[nodiscard]] qp::ReportedLosses losses() {
    return qp::ReportedLosses{
        {environment, identity, scoreboard, rtt, congestion, timers, rnr, order, signals.get(), paths.get(), sent()}};
  }
  [[nodiscard]] qp::ResponseGaps gaps() {
    return qp::ResponseGaps{{environment, identity, scoreboard, messages, rtt, responses, receiver, loss}};
  }
  [[nodiscard]] qp::TimerLengths lengths() const {
    return qp::TimerLengths{{identity, scoreboard, rtt, congestion, responses, timers, judge.get()}};
  }
  [[nodiscard]] qp::Deadlines deadlines() const {
    return qp::Deadlines{{identity, scoreboard, messages, rtt, timers, rnr, admission, congestion, responses, loss,
                          signals, judge.get()}};
  }
  [[nodiscard]] qp::Progress progress() { return {environment, identity, scoreboard, timers}; }
  [[nodiscard]] qp::TimerActions actions() {
    return qp::TimerActions{{environment, identity, scoreboard, timers, rnr, congestion, responses, receiver,
                             paths.get(), sent(), gaps(), inquiries(), lengths()}};
  }
  [[nodiscard]] qp::LinkInquiries inquiries() { return {environment, identity, signals}; }
  [[nodiscard]] qp::LocalReferences references() {
    return qp::LocalReferences{{environment, identity, queue, next.cut}};
  }
  [[nodiscard]] qp::SendingRate rate() {
    return qp::SendingRate{{environment, identity, rtt, congestion, responses.congestion(), signals}};
  }
  // Precondition: signals->responses.
  [[nodiscard]] qp::ResponsePacing pacing() {
    return qp::ResponsePacing{{environment, identity, rtt, responses.congestion(), *signals->responses}};
  }
  // Precondition: paths.
  [[nodiscard]] qp::PathEvidence evidence() {
    return qp::PathEvidence{
        {environment, identity, scoreboard, congestion, responses.congestion(), *paths, sent(), lengths()}};
  }

  EngineConfig config;
  memory::MemoryTable memory{SecretRandom{1, "keys"}};
  Statistics statistics;
  qp::Environment environment{.config = config, .memory = memory, .telemetry = {.statistics = statistics}};
  RecoveryConfig recovery;
  qp::Identity identity;
  qp::SendQueue queue{QpCapabilities{}};
  qp::SendFault fault;
  qp::MessageTable messages;
  qp::Scoreboard scoreboard{qp::window_shape(recovery), environment.pools.segments};
  qp::Segments segments;
  qp::PooledLossRecovery loss;
  recovery::RttEstimator rtt;
  congestion::DelayWindow congestion;
  qp::Admission admission;
  qp::ResponseAdmission responses;
  qp::ResponseReceiver receiver;
  qp::NextMessage next;
  qp::RetransmissionTimers timers;
  qp::ReceiverNotReady rnr;
  recovery::FeedbackOrder order;
  std::unique_ptr<qp::SenderJudge> judge;
  std::unique_ptr<qp::CongestionState> signals;
  std::unique_ptr<qp::SendPaths> paths;
  Instant now = Instant{} + 16_s;

 private:
  qp::Sequence begin(std::uint32_t packets, std::uint32_t bytes, qp::MessageKind kind) {
    messages.push_back({.first = scoreboard.next(), .packets = packets, .length = bytes, .kind = kind});
    return messages.back().first;
  }
};

// The same with work requests whose data lies in memory, and batches that show what is written. One region, of which
// everything is sent from its start, and into which responses go.
struct SendingParts : SenderParts {
  static constexpr std::uint64_t kRemote = 0x10'0000;
  static constexpr std::uint32_t kRemoteKey = 0x77;

  SendingParts() {
    config.segments_max = 16;
    config.source_ports = {0xC000, 0xC001};
    identity.pd = memory.alloc_pd();
    identity.send_cq = &cq;
    identity.attributes.destination_qpn = 18;
    identity.peer_token = 0x1122'3344'5566'7788;
    queue = qp::SendQueue{{.send_wr_max = 64, .send_sge_max = 2}};
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    region = memory.add(identity.pd, address, bytes.size(), address, kAccessLocalWrite).value();
    key = region->key;
  }

  // A work request for so many bytes is posted. Returns its number.
  std::uint64_t post(WorkOpcode opcode, std::uint32_t length, std::uint32_t flags = 0) {
    const Sge sge{.address = reinterpret_cast<std::uintptr_t>(bytes.data()), .length = length, .lkey = key};
    return post(opcode, {&sge, 1}, length, flags);
  }
  // The same in two pieces, whose bytes follow each other.
  std::uint64_t post_scattered(WorkOpcode opcode, std::uint32_t first, std::uint32_t second) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    const Sge sges[] = {{.address = address, .length = first, .lkey = key},
                        {.address = address + first, .length = second, .lkey = key}};
    return post(opcode, sges, first + second, 0);
  }
  // It is posted, and all of its packets (or its request) leave. Returns its first sequence.
  qp::Sequence send(std::uint32_t packets, std::uint32_t flags = 0) {
    return begun(post(WorkOpcode::kRdmaWrite, packets * kMtu, flags), write(packets));
  }
  qp::Sequence ask(std::uint32_t responses_of_it) {
    return begun(post(WorkOpcode::kRdmaRead, responses_of_it * kMtu), read(responses_of_it));
  }
  void lose(qp::Sequence sequence) {
    EXPECT_TRUE(sent().retransmit(sequence, messages.of(sequence), Counter::kRetransmittedFfm, now));
  }
  void remove_region() { EXPECT_TRUE(memory.remove(region).ok()); }

  // What `poll` puts into a batch, as packets whose payloads stay until the next one.
  template <class Poll>
  std::vector<wire::Packet> batch_of(Poll poll, std::uint8_t path = 0) {
    qp::TransmitBatch batch(*buffer, config);
    batch.begin({.source = IpAddress::v4(10, 0, 0, 1), .destination = IpAddress::v4(10, 0, 0, 2), .path = path});
    added = poll(batch);
    on_wire.clear();
    Transmit out;
    if (!batch.finish(out)) return {};
    for (const Slice& slice : out.slices) {
      const auto* const data = static_cast<const std::byte*>(slice.data);
      on_wire.insert(on_wire.end(), data, data + slice.size);
    }
    std::vector<wire::Packet> packets;
    for (std::size_t at = 0; at < on_wire.size(); at += out.segment_bytes) {
      const std::size_t size = std::min<std::size_t>(out.segment_bytes, on_wire.size() - at);
      const auto parsed = wire::parse_packet(ConstBytes{on_wire}.subspan(at, size));
      EXPECT_TRUE(parsed.ok());
      if (parsed.ok()) packets.push_back(parsed.value());
    }
    return packets;
  }
  // The same with a cursor, which the writers of new packets share.
  template <class Write>
  std::vector<wire::Packet> written(Write write, std::uint8_t path = 0) {
    return batch_of(
        [&](qp::TransmitBatch& batch) {
          qp::PayloadCursor cursor(memory, identity.pd, 0);
          return write(cursor, batch);
        },
        path);
  }
  // The packet's payload is the region's, from `offset` on.
  [[nodiscard]] bool carries(const wire::Packet& packet, std::size_t offset) const {
    return std::equal(packet.payload.begin(), packet.payload.end(),
                      bytes.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  [[nodiscard]] static std::vector<std::uint32_t> psns(const std::vector<wire::Packet>& packets) {
    std::vector<std::uint32_t> all;
    for (const wire::Packet& packet : packets) all.push_back(packet.bth.psn.value());
    return all;
  }

  // --- views ---
  [[nodiscard]] qp::ResponsePace* pace() const { return qp::response_pace(signals); }
  [[nodiscard]] qp::MessageStart start() {
    return qp::MessageStart{{environment, identity, queue, fault, messages, scoreboard, segments, rtt, congestion,
                             admission, responses, rnr, signals, next}};
  }
  [[nodiscard]] qp::Retransmissions retransmissions() {
    return qp::Retransmissions{{environment, identity, queue, fault, scoreboard, rtt, congestion,
                                responses.congestion(), loss, admission, timers, rnr, pace(), paths.get(), sent()}};
  }
  [[nodiscard]] qp::RequestCopies copies() {
    return qp::RequestCopies{{environment, identity, queue, messages, scoreboard, responses, paths.get()}};
  }
  [[nodiscard]] qp::SprayedRequests sprayed() {
    return qp::SprayedRequests{{environment, identity, queue, fault, messages, scoreboard, timers, paths}};
  }

  alignas(8) std::array<std::byte, 128 * kMtu> bytes{};  // of the region
  MemoryRegion* region = nullptr;
  std::uint32_t key = 0;
  CompletionQueue cq{64, nullptr};
  bool added = false;  // what the last poll returned
  std::vector<std::byte> on_wire;
  std::unique_ptr<TransmitBuffer> buffer = std::make_unique<TransmitBuffer>();

 private:
  std::uint64_t post(WorkOpcode opcode, std::span<const Sge> sges, std::uint32_t length, std::uint32_t flags) {
    const std::uint64_t number = queue.tail();
    EXPECT_TRUE(queue.push({.wr_id = number,
                            .sges = sges,
                            .opcode = opcode,
                            .flags = flags,
                            .remote_address = kRemote,
                            .rkey = kRemoteKey},
                           length));
    return number;
  }
  qp::Sequence begun(std::uint64_t number, qp::Sequence first) {
    queue.begin_next();
    messages.back().wqe = number;
    messages.back().msn = next.msn;
    next.pass(false);
    return first;
  }
};

}  // namespace brdma::test
