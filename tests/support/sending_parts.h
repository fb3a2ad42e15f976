// tests/support/sending_parts.h - the parts of a requester (sender_parts.h) with work requests whose data lies in
// memory, and batches that show what is written: for unit tests of the views that write packets
// (libbitmaprdma/qp/{send,transmit,loss,read,paths}).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "qp/loss/retransmissions.h"
#include "qp/paths/spray_requests.h"
#include "qp/queues/completion_queue.h"
#include "qp/queues/payload_cursor.h"
#include "qp/queues/transmit_batch.h"
#include "qp/read/request_copies.h"
#include "qp/send/message_start.h"
#include "qp/transmit/data_packets.h"
#include "qp/transmit/middle_runs.h"
#include "qp/transmit/request_packets.h"
#include "qp/transmit/runs.h"
#include "qp/transmit/single_request.h"
#include "qp/transmit/small_runs.h"
#include "support/sender_parts.h"
#include "wire/packet.h"

namespace brdma::test {

// As SenderParts. One region, of which everything is sent from its start, and into which responses go.
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
    const std::uint64_t number = queue.tail();
    const Sge sge{.address = reinterpret_cast<std::uintptr_t>(bytes.data()), .length = length, .lkey = key};
    EXPECT_TRUE(queue.push({.wr_id = number,
                            .sges = {&sge, 1},
                            .opcode = opcode,
                            .flags = flags,
                            .remote_address = kRemote,
                            .rkey = kRemoteKey},
                           length));
    return number;
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
  [[nodiscard]] qp::Runs runs() {
    return qp::Runs{{environment, identity, fault, scoreboard, congestion, admission, timers, rnr, paths, judge}};
  }
  [[nodiscard]] qp::SmallRuns small() { return qp::SmallRuns{{runs(), queue, messages, segments, next}}; }
  [[nodiscard]] qp::MiddleRuns middle() { return qp::MiddleRuns{{runs(), queue}}; }
  [[nodiscard]] qp::SingleRequest single() {
    return qp::SingleRequest{{runs(), queue, messages, segments, loss, signals, next}};
  }
  [[nodiscard]] qp::DataPackets data() {
    return qp::DataPackets{{environment, identity, queue, fault, messages, scoreboard, segments, congestion, admission,
                            timers, rnr, paths.get(), judge.get()}};
  }
  [[nodiscard]] qp::RequestPackets requests() {
    return qp::RequestPackets{{environment, identity, queue, fault, messages, scoreboard, rtt, admission, responses,
                               timers, pace(), paths.get(), judge.get()}};
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
  qp::Sequence begun(std::uint64_t number, qp::Sequence first) {
    queue.begin_next();
    messages.back().wqe = number;
    messages.back().msn = next.msn;
    next.pass(false);
    return first;
  }
};

}  // namespace brdma::test
