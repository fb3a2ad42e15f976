// Small requests leave in runs (qp/transmit/small_runs.h) and are acknowledged in runs: the wire and memory are the
// same as if each had been handled alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "support/seeds.h"
#include "support/two_engines.h"

namespace brdma::test {
namespace {

constexpr std::uint32_t kSize = 64, kFirstPsn = 1000;

PairOptions options(std::uint32_t receive_packets = 256) {
  PairOptions options;
  options.segments_max = 64;
  options.receive_packets = receive_packets;
  return options;
}

struct SmallRequests : testing::Test {
  TwoEngines pair{options()};

  void post(const std::vector<SendRequest>& requests) {
    std::size_t posted = 0;
    ASSERT_TRUE(pair.side[0].engine->post_send(pair.side[0].qp, requests, pair.now, posted).ok());
    ASSERT_EQ(posted, requests.size());
  }
  std::vector<SendRequest> writes(std::uint32_t count) {
    std::vector<SendRequest> requests;
    for (std::uint32_t i = 0; i < count; ++i) requests.push_back(pair.write(0, std::uint64_t{i} * 512, kSize, i));
    return requests;
  }
};

TEST_F(SmallRequests, APacketOfARunEqualsASingleOne) {
  pair.fill(0, 1);
  post(writes(64));
  ASSERT_TRUE(pair.run_until_idle());
  std::vector<const Sent*> sent;
  for (const Sent& each : pair.wire) {
    if (each.from == 0 && each.data()) sent.push_back(&each);
  }
  ASSERT_EQ(sent.size(), 64u);
  for (std::uint32_t i = 0; i < 64; ++i) {
    const wire::Packet packet = sent[i]->packet();
    EXPECT_EQ(sent[i]->batch, sent[0]->batch) << i;
    EXPECT_EQ(packet.op, wire::RcOp::kWriteOnly);
    EXPECT_EQ(packet.bth.psn.value(), kFirstPsn + i);
    EXPECT_EQ(packet.bth.ack_request, i % 16 == 15) << i;  // as its window requires
    EXPECT_EQ(packet.bxth.msn, i);
    EXPECT_EQ(packet.bxth.rsn, 0u);
    EXPECT_EQ(packet.bxth.packet_index, 0u);
    EXPECT_EQ(packet.reth.address, pair.side[1].at(std::uint64_t{i} * 512));
    EXPECT_EQ(packet.reth.length, kSize);
    EXPECT_TRUE(pair.same(std::uint64_t{i} * 512, kSize)) << i;
  }
  EXPECT_EQ(pair.poll(0).size(), 64u);
  EXPECT_EQ(pair.side[0].count(Counter::kSentDataPackets), 64u);
}

// A single one (qp/transmit/single_request.h) beside the first of two: the same bytes, except for its acknowledgement
// request and the ICRC.
TEST_F(SmallRequests, ASingleOneEqualsAPacketOfARun) {
  for (const bool sends : {false, true}) {
    std::vector<std::vector<std::byte>> first;
    for (const std::uint32_t count : {1u, 2u}) {
      TwoEngines both{options()};
      std::vector<SendRequest> requests;
      for (std::uint32_t i = 0; i < count; ++i) {
        ASSERT_TRUE(!sends || both.post_receive(1, 8192, kSize, i).ok());
        requests.push_back(both.write(0, 0, 61, i));
        if (sends) requests.back().opcode = WorkOpcode::kSend;
        if (sends) requests.back().flags |= kSendSolicited;
      }
      std::size_t posted = 0;
      ASSERT_TRUE(both.side[0].engine->post_send(both.side[0].qp, requests, both.now, posted).ok());
      both.round();
      for (const Sent& sent : both.wire)
        if (sent.from == 0 && sent.data() && first.size() < count) first.push_back(sent.bytes);
      ASSERT_TRUE(both.run_until_idle());
      EXPECT_EQ(both.poll(0).size(), count);
      EXPECT_EQ(both.side[0].count(Counter::kSentDataPackets), count);
    }
    ASSERT_EQ(first.size(), 2u);
    ASSERT_EQ(first[0].size(), first[1].size());
    EXPECT_EQ(first[0][8], std::byte{0x80});
    EXPECT_EQ(first[1][8], std::byte{0});
    first[0][8] = std::byte{0};
    for (auto& bytes : first) {
      bytes.resize(bytes.size() - wire::kIcrcSize);
      if (!sends) std::fill_n(bytes.begin() + 44, 8, std::byte{0});  // RETH's address: that of each pair's own memory
    }
    EXPECT_EQ(first[0], first[1]);
  }
}

TEST_F(SmallRequests, ABatchOfThemIsOneSlice) {
  post(writes(64));
  TransmitBuffer buffer;
  Transmit out;
  ASSERT_TRUE(pair.side[0].engine->poll_transmit(buffer, out, pair.now));
  EXPECT_EQ(out.segments, 64u);
  EXPECT_EQ(out.slices.size(), 1u);
}

// The fifth names memory that is not there: earlier ones complete, it fails, later ones are flushed.
struct WrongMemory : SmallRequests, testing::WithParamInterface<int> {};
TEST_P(WrongMemory, FailsInItsTurn) {
  auto requests = writes(8);
  const TwoEngines::Side& host = pair.side[0];
  const Sge wrong[] = {{host.at(0), kSize, host.key + 1},
                       {host.at(0) - 1, kSize, host.key},
                       {host.at(host.memory.size()) - kSize + 1, kSize, host.key},
                       {host.at(host.memory.size()), kSize, host.key}};
  requests[4].sges = {&wrong[GetParam()], 1};
  post(requests);
  ASSERT_TRUE(pair.run_until_idle());
  const auto done = pair.poll(0);
  ASSERT_EQ(done.size(), 8u);
  for (std::uint64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(done[i].wr_id, i);
    EXPECT_EQ(done[i].status, i < 4    ? CompletionStatus::kSuccess
                              : i == 4 ? CompletionStatus::kLocalProtectionError
                                       : CompletionStatus::kFlushed);
  }
}
INSTANTIATE_TEST_SUITE_P(KeyBeforeOverBehind, WrongMemory, testing::Range(0, 4));

// Memory of several regions in one request, and in turn from request to request.
TEST_F(SmallRequests, MayBeGatheredFromSeveralRegions) {
  pair.fill(0, 1);
  TwoEngines::Side& host = pair.side[0];
  MemoryRegion* const region = host.engine->register_memory(host.pd, host.at(4096), 4096, host.at(4096), 0).value();
  const Sge first{host.at(0), 40, host.key}, second{host.at(4096), 24, host.engine->info(region).lkey};
  const Sge both[] = {first, second};
  auto requests = writes(3);
  requests[0].sges = both;
  requests[1].sges = {&both[1], 1};
  requests[2].sges = {&both[0], 1};
  post(requests);
  ASSERT_TRUE(pair.run_until_idle());
  ASSERT_EQ(pair.poll(0).size(), 3u);
  const auto same = [&](std::uint64_t to, std::uint64_t from, std::size_t size) {
    return std::equal(pair.side[0].memory.begin() + static_cast<std::ptrdiff_t>(from),
                      pair.side[0].memory.begin() + static_cast<std::ptrdiff_t>(from + size),
                      pair.side[1].memory.begin() + static_cast<std::ptrdiff_t>(to));
  };
  EXPECT_TRUE(same(0, 0, 40) && same(40, 4096, 24));
  EXPECT_TRUE(same(512, 4096, 24));
  EXPECT_TRUE(same(1024, 0, 40));
}

// A run ends at the peer's credit, and continues when there is more.
TEST(SmallRequestsCredit, ARunEndsWithTheCredit) {
  TwoEngines pair{options(16)};
  std::uint32_t most = 0, flying = 0;
  pair.drop = [&](const Sent& sent) {
    if (sent.from == 0 && sent.data()) most = std::max(most, ++flying);
    if (sent.from == 1) flying = 0;  // one acknowledgement for all that have arrived
    return false;
  };
  std::vector<SendRequest> requests;
  for (std::uint32_t i = 0; i < 100; ++i) requests.push_back(pair.write(0, std::uint64_t{i} * 64, kSize, i));
  std::size_t posted = 0;
  ASSERT_TRUE(pair.side[0].engine->post_send(pair.side[0].qp, requests, pair.now, posted).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), 100u);
  EXPECT_LE(most, 16u);
}

// Lists of all kinds and sizes, in both directions, over a lossy network: every byte in its place, each completion once
// and in order.
TEST(SmallRequestsMixed, AmongOthersAndWithLosses) {
  for_each_seed(20, [](Random& random) {
    TwoEngines pair{options()};
    pair.fill(0, random.next());
    pair.drop = [&](const Sent&) { return random.below(20) == 0; };
    constexpr std::uint32_t kSlot = 4096, kSlots = 100;
    std::uint64_t number = 0, completed = 0;
    for (std::uint32_t list = 0; list < 10; ++list) {
      std::vector<SendRequest> requests;
      for (std::uint32_t i = 0; i < 10; ++i, ++number) {
        const auto size = static_cast<std::uint32_t>(random.below(4) == 0 ? random.below(kSlot) : random.below(300));
        SendRequest request = pair.write(0, number * kSlot, size, number);
        if (size <= 256 && random.below(2) == 0) request.flags |= kSendInline;
        if (random.below(8) == 0) request.flags |= kSendFence;
        if (random.below(4) == 0) {  // into the slot of the same number
          ASSERT_TRUE(pair.post_receive(1, number * kSlot, kSlot, number).ok());
          request.opcode = WorkOpcode::kSend;
        }
        requests.push_back(request);
      }
      std::size_t posted = 0;
      ASSERT_TRUE(pair.side[0].engine->post_send(pair.side[0].qp, requests, pair.now, posted).ok());
      pair.run_for(10_us);
      for (const Completion& done : pair.poll(0)) {
        EXPECT_EQ(done.wr_id, completed++);
        EXPECT_EQ(done.status, CompletionStatus::kSuccess);
        EXPECT_TRUE(pair.same(done.wr_id * kSlot, done.byte_length)) << done.wr_id;
      }
    }
    ASSERT_TRUE(pair.run_until_idle());
    for (const Completion& done : pair.poll(0)) {
      EXPECT_EQ(done.wr_id, completed++);
      EXPECT_TRUE(pair.same(done.wr_id * kSlot, done.byte_length)) << done.wr_id;
    }
    EXPECT_EQ(completed, kSlots);
  });
}

}  // namespace
}  // namespace brdma::test
