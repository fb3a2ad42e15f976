// Many queue pairs of one engine with one peer, each used once in a while: their acknowledgements share batches as
// their requests do, and who has nothing to do is left alone.
#include <gmock/gmock.h>

#include "support/two_engines.h"

namespace brdma::test {
namespace {

struct ManyQueuePairs : testing::Test {
  static constexpr std::size_t kPairs = 8;
  TwoEngines both;
  std::vector<std::pair<QueuePair*, QueuePair*>> pairs;

  ManyQueuePairs() {
    pairs.emplace_back(both.side[0].qp, both.side[1].qp);
    while (pairs.size() < kPairs) {
      for (auto& side : both.side) {
        QpCreate create{.pd = side.pd,
                        .send_cq = side.send_cq,
                        .receive_cq = side.receive_cq,
                        .capabilities = both.options.capabilities,
                        .user = &side};
        side.qp = side.engine->create_qp(create).value();
      }
      both.connect(0);
      both.connect(1);
      pairs.emplace_back(both.side[0].qp, both.side[1].qp);
    }
    both.run_for(2_ms);
    both.wire.clear();
  }
  // A small WRITE on each, posted before anything leaves.
  void write_on_all() {
    auto& from = both.side[0];
    const Sge sge{from.at(0), 64, from.key};
    for (const auto& [qp, peer] : pairs) {
      const SendRequest request{.sges = {&sge, 1},
                                .opcode = WorkOpcode::kRdmaWrite,
                                .flags = kSendSignaled,
                                .remote_address = both.side[1].at(0),
                                .rkey = both.side[1].key};
      ASSERT_TRUE(from.engine->post_send(qp, request, both.now).ok());
    }
  }
};

TEST_F(ManyQueuePairs, AcknowledgementsShareABatch) {
  write_on_all();
  ASSERT_TRUE(both.run_until_idle());
  std::vector<std::size_t> batches;
  for (const Sent& sent : both.wire)
    if (sent.control(wire::Control::kBitmapAck)) batches.push_back(sent.batch);
  EXPECT_THAT(batches, testing::SizeIs(kPairs));
  EXPECT_THAT(batches, testing::Each(batches.at(0)));
}

TEST_F(ManyQueuePairs, WhoHasNothingToDoRests) {
  const auto resting = [&](QueuePair* qp) {
    EXPECT_FALSE(qp->has_said_all() && qp->has_output(both.now));
    if (qp->rests()) {
      EXPECT_TRUE(qp->has_said_all());
      EXPECT_EQ(qp->next_timeout(), std::nullopt);
    }
    return qp->rests();
  };
  for (const auto& [qp, peer] : pairs) EXPECT_TRUE(resting(qp) && resting(peer));
  write_on_all();
  for (const auto& [qp, peer] : pairs) EXPECT_TRUE(!resting(qp) && !qp->has_said_all() && resting(peer));
  both.drop = [](const Sent& sent) { return sent.from == 1 && sent.copy == 1; };
  both.run_for(6_us);  // they are there, and their acknowledgements are lost
  for (const auto& [qp, peer] : pairs)
    EXPECT_TRUE(!resting(qp) && qp->has_said_all() && qp->next_timeout() && resting(peer));
  ASSERT_TRUE(both.run_until_idle());
  for (const auto& [qp, peer] : pairs) EXPECT_TRUE(resting(qp) && resting(peer));
  EXPECT_THAT(both.poll(0), testing::SizeIs(kPairs));
}

}  // namespace
}  // namespace brdma::test
