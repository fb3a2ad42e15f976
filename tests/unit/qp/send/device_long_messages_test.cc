// MIDDLE packets of long messages leave in runs (qp/transmit/middle_runs.h), and so do MIDDLE packets of READ
// responses (qp/respond/serve_read_middle.cc), which have a fast path on arrival as well (qp/read/middle_responses.h).
// The wire and memory are the same as if each packet had been handled alone.
#include <gtest/gtest.h>

#include <vector>

#include "bitmap/gap_table.h"
#include "support/seeds.h"
#include "support/two_engines.h"

namespace brdma::test {
namespace {

constexpr std::uint32_t kMtu = 1024, kPackets = 100, kFirstPsn = 1000;

struct LongMessages : testing::TestWithParam<WorkOpcode> {
  TwoEngines pair{[] {
    PairOptions options;
    options.segments_max = 64;
    return options;
  }()};

  void post(SendRequest request) {
    request.opcode = GetParam();
    std::size_t posted = 0;
    ASSERT_TRUE(pair.post_receive(1, 0, kPackets * kMtu, 0).ok());
    ASSERT_TRUE(pair.side[0].engine->post_send(pair.side[0].qp, {&request, 1}, pair.now, posted).ok());
    ASSERT_TRUE(pair.run_until_idle());
  }
  [[nodiscard]] bool writes() const { return GetParam() == WorkOpcode::kRdmaWrite; }
};

TEST_P(LongMessages, AMiddlePacketOfARunEqualsASingleOne) {
  pair.fill(0, 1);
  post(pair.write(0, 0, kPackets * kMtu - 7, 5));
  std::vector<const Sent*> sent;
  for (const Sent& each : pair.wire) {
    if (each.from == 0 && each.data()) sent.push_back(&each);
  }
  ASSERT_EQ(sent.size(), kPackets);
  std::uint32_t since = 0;
  for (std::uint32_t i = 0; i < kPackets; ++i) {
    const wire::Packet packet = sent[i]->packet();
    const bool last = i + 1 == kPackets;
    EXPECT_EQ(packet.bth.psn.value(), kFirstPsn + i);
    EXPECT_EQ(packet.bxth.packet_index, i);
    EXPECT_EQ(packet.bxth.msn, 0u);
    EXPECT_FALSE(packet.bxth.retransmitted);
    const wire::RcOp inside = writes() ? wire::RcOp::kWriteMiddle : wire::RcOp::kSendMiddle;
    EXPECT_EQ(packet.op == inside, i > 0 && !last) << i;
    if (writes()) {
      EXPECT_EQ(packet.reth.address, pair.side[1].at(std::uint64_t{i} * kMtu)) << i;
      EXPECT_EQ(packet.reth.length, kPackets * kMtu - 7);
    }
    since = packet.bth.ack_request ? 0 : since + 1;
    EXPECT_LT(since, 64u) << "at the latest";
    EXPECT_TRUE(packet.bth.ack_request || !last);
  }
  EXPECT_EQ(sent[1]->batch, sent[0]->batch);
  const auto done = pair.poll(0);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kSuccess);
  EXPECT_TRUE(pair.same(0, kPackets * kMtu - 7));
  EXPECT_EQ(pair.side[0].count(Counter::kSentDataPackets), kPackets);
}

// Pieces that end anywhere in a packet.
TEST_P(LongMessages, MayBeGathered) {
  pair.fill(0, 1);
  const TwoEngines::Side& host = pair.side[0];
  const Sge pieces[] = {{host.at(0), 5000, host.key},
                        {host.at(5000), 1, host.key},
                        {host.at(5001), 0, host.key},
                        {host.at(5001), 60'000, host.key}};
  SendRequest request = pair.write(0, 0, 0, 5);
  request.sges = pieces;
  post(request);
  ASSERT_EQ(pair.poll(0).size(), 1u);
  EXPECT_TRUE(pair.same(0, 65'001));
}

TEST_P(LongMessages, FailsWhereItsMemoryIsNotThere) {
  const TwoEngines::Side& host = pair.side[0];
  const Sge pieces[] = {{host.at(0), 20 * kMtu, host.key}, {host.at(0), 20 * kMtu, host.key + 1}};
  SendRequest request = pair.write(0, 0, 0, 5);
  request.sges = pieces;
  post(request);
  const auto done = pair.poll(0);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kLocalProtectionError);
}

INSTANTIATE_TEST_SUITE_P(WriteAndSend, LongMessages, testing::Values(WorkOpcode::kRdmaWrite, WorkOpcode::kSend));

// --- READs ---

struct LongReads : testing::Test {
  static PairOptions options() {
    PairOptions options;
    options.segments_max = 64;
    options.receive_packets = 8192;
    options.receive_bytes = 8u << 20;
    return options;
  }
  explicit LongReads(const PairOptions& given = options()) : pair(given) { pair.fill(1, 1); }

  void read(std::uint32_t bytes, std::uint64_t offset = 0) {
    ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, offset, bytes, 5)).ok());
    ASSERT_TRUE(pair.run_until_idle());
    const auto done = pair.poll(0);
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].status, CompletionStatus::kSuccess);
    EXPECT_TRUE(pair.same(offset, bytes));
  }
  [[nodiscard]] std::vector<const Sent*> answers() const {
    std::vector<const Sent*> all;
    for (const Sent& each : pair.wire) {
      if (each.from == 1 && is_answer(each)) all.push_back(&each);
    }
    return all;
  }
  [[nodiscard]] static bool is_answer(const Sent& sent) {
    return sent.bth().opcode < wire::kTransportControl && wire::is_read_response(sent.packet().op);
  }
  static void lose_region_at_eighth(TwoEngines& pair, TwoEngines::Side& side, std::size_t& answered) {
    pair.drop = [&](const Sent& sent) {
      if (sent.from == 1 && is_answer(sent) && ++answered == 8) {
        EXPECT_TRUE(side.engine->deregister_memory(side.region).ok());
      }
      return false;
    };
  }
  TwoEngines pair;
};

// Equal to the bit: built again from the READ's parameters, with the timestamp of its batch.
TEST_F(LongReads, AMiddleResponseOfARunEqualsASingleOne) {
  constexpr std::uint32_t kRead = 16, kBytes = kRead * kMtu - 7;  // one request
  read(kBytes);
  const auto sent = answers();
  ASSERT_EQ(sent.size(), kRead);
  for (std::uint32_t i = 0; i < kRead; ++i) {
    const wire::Packet packet = sent[i]->packet();
    const bool last = i + 1 == kRead;
    wire::Packet alone;
    alone.bth.opcode = wire::opcode_of(i == 0 ? wire::RcOp::kReadResponseFirst
                                       : last ? wire::RcOp::kReadResponseLast
                                              : wire::RcOp::kReadResponseMiddle,
                                       true);
    alone.bth.dest_qpn = pair.side[0].engine->qp_num(pair.side[0].qp);
    alone.bth.psn = Psn{kFirstPsn + i};
    alone.bxth.source_qpn = pair.side[1].engine->qp_num(pair.side[1].qp);
    alone.bxth.packet_index = i;
    alone.bxth.timestamp = sent[0]->packet().bxth.timestamp;
    alone.aeth = {wire::kSyndromeAck, 1};
    const std::span<const std::byte> memory{pair.side[1].memory};
    EXPECT_EQ(pair.make(1, alone, memory.subspan(std::size_t{i} * kMtu, packet.payload.size())), sent[i]->bytes) << i;
    EXPECT_EQ(sent[i]->batch, sent[0]->batch);
  }
  EXPECT_EQ(pair.side[1].count(Counter::kSentDataPackets), kRead);
  EXPECT_EQ(pair.side[0].qp->requester().snapshot().responses_bytes, 0u);
}

// Of any length, and cut into several requests.
TEST_F(LongReads, ComeWhole) {
  for (const std::uint32_t bytes : {1u, kMtu, kMtu + 1, 2 * kMtu, 2 * kMtu + 1, 3 * kMtu, 100 * kMtu, 300'000u})
    read(bytes, 3);
}

// Batches of many sizes; lost responses are requested again, and reported by a bit.
TEST_F(LongReads, ComeWholeOverALossyNetwork) {
  for_each_seed(20, [](Random& random) {
    PairOptions some = options();
    some.segments_max = static_cast<std::uint32_t>(1 + random.below(64));
    TwoEngines pair{some};
    pair.fill(1, random.next());
    pair.drop = [&](const Sent&) { return random.below(30) == 0; };
    pair.extra_delay = [&](const Sent&) { return random.below(10) == 0 ? 10_us : Duration{}; };
    for (int i = 0; i < 8; ++i) {
      ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, static_cast<std::uint64_t>(i) * 100'000,
                                            static_cast<std::uint32_t>(random.below(100'000)), 5))
                      .ok());
    }
    ASSERT_TRUE(pair.run_until_idle());
    const auto done = pair.poll(0);
    ASSERT_EQ(done.size(), 8u);
    for (std::uint64_t i = 0; i < 8; ++i) EXPECT_TRUE(pair.same(i * 100'000, done[i].byte_length)) << i;
  });
}

// Its region is deregistered while responses leave: those sent stay sent, a NAK refuses the rest.
TEST_F(LongReads, EndWithTheRegion) {
  PairOptions short_batches = options();
  short_batches.segments_max = 4;
  TwoEngines pair{short_batches};
  std::size_t answered = 0;
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 0, 16 * kMtu, 5)).ok());
  lose_region_at_eighth(pair, pair.side[1], answered);
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_GE(answered, 8u);
  EXPECT_LT(answered, 16u);
  const auto done = pair.poll(0);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kRemoteAccessError);
}

// The same at the requester: the work request fails, and nothing is written.
TEST_F(LongReads, FailWhereTheirOwnRegionGoes) {
  std::size_t answered = 0;
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 0, 16 * kMtu, 5)).ok());
  lose_region_at_eighth(pair, pair.side[0], answered);
  ASSERT_TRUE(pair.run_until_idle());
  const auto done = pair.poll(0);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kLocalProtectionError);
  EXPECT_GT(pair.side[0].count(DropReason::kFault), 0u);
}

// More gaps than are kept: of the last only the base is known. The data behind it is here.
struct ManyGaps : LongReads {
  static PairOptions patient() {
    PairOptions options = LongReads::options();
    options.mtu = PathMtu::k256;
    options.recovery.depth_max = 100'000;
    options.recovery.age_max = options.recovery.stall_max = 1_s;
    return options;
  }
  ManyGaps() : LongReads(patient()) {}
};
TEST_F(ManyGaps, OneThatIsNotKeptClosesLikeAnyOther) {
  constexpr std::uint32_t kBytes = 256 * 256 * 4;
  for (int i = 0; i < 8; ++i) read(kBytes);  // until the congestion window allows enough requests at once
  ASSERT_EQ(pair.side[0].count(Counter::kGapsSeen), 0u);
  pair.extra_delay = [&](const Sent& sent) {
    const bool late =
        sent.from == 1 && is_answer(sent) && sent.packet().op == wire::RcOp::kReadResponseMiddle && sent.psn() % 2 == 0;
    return late ? 40_us : Duration{};
  };
  const std::uint64_t again = pair.side[0].count(Counter::kReadsReissued);
  // Of those that are not kept, an even number and an odd one.
  for (const std::uint32_t bytes : {kBytes, kBytes - 512, kBytes - 1024, kBytes - 1536}) {
    const std::uint64_t before = pair.side[0].count(Counter::kGapsSeen);
    read(bytes);
    EXPECT_GT(pair.side[0].count(Counter::kGapsSeen) - before, bitmap::kGapsMax);
  }
  EXPECT_EQ(pair.side[0].count(Counter::kReadsReissued), again);
}

}  // namespace
}  // namespace brdma::test
