// The inside of long messages leaves in runs (qp/transmit_inside.cc): what is on the wire and in memory is as if each
// packet had been looked at alone.
#include <gtest/gtest.h>

#include <vector>

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

TEST_P(LongMessages, APacketOfTheInsideSaysWhatItWouldAlone) {
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

}  // namespace
}  // namespace brdma::test
