// Many queue pairs of one engine with one peer, each used once in a while: their acknowledgements share batches as
// their requests do, and idle ones cost nothing.
#include <gmock/gmock.h>

#include <algorithm>

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

// Acknowledgements of the common form have a fast path on arrival: damaged ones are refused there too, and each is
// counted.
TEST_F(ManyQueuePairs, AnAcknowledgementIsProcessedWholeOrNotAtAll) {
  const auto& here = both.side[0];
  const auto counted = [&] { return both.accepted_and_dropped(0); };
  both.drop = [](const Sent& sent) { return sent.control(wire::Control::kBitmapAck); };
  write_on_all();
  both.run_for(6_us);
  const auto last = std::ranges::find_if(both.wire, [](const Sent& s) { return s.control(wire::Control::kBitmapAck); });
  ASSERT_NE(last, both.wire.end());
  const std::vector<std::byte> good = last->bytes;
  const std::uint64_t accepted = here.count(Counter::kAcceptedPackets), before = counted();
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    if (bit / 8 == 4) continue;  // FECN, BECN and the reserved bits beside them: the ICRC masks them
    auto bad = good;
    bad[bit / 8] ^= std::byte(1 << (bit % 8));
    both.inject(0, bad);
  }
  EXPECT_EQ(here.count(Counter::kAcceptedPackets), accepted);
  EXPECT_EQ(counted(), before + (good.size() - 1) * 8);
  EXPECT_EQ(counted(), here.count(Counter::kReceivedPackets));
  EXPECT_THAT(both.poll(0), testing::IsEmpty());
  both.inject(0, good);
  EXPECT_EQ(here.count(Counter::kAcceptedPackets), accepted + 1);
  EXPECT_THAT(both.poll(0), testing::SizeIs(1));
  both.inject(0, good);  // a repetition: no news
  EXPECT_EQ(counted(), here.count(Counter::kReceivedPackets));
  EXPECT_THAT(both.poll(0), testing::IsEmpty());
}

// With so many, a post prefetches the state of the next ones in the order of the last round: UD has none.
TEST(ManyDatagramQueuePairs, ArePostedToInTurn) {
  PairOptions options;
  options.type = QpType::kUd;
  TwoEngines both{options};
  TwoEngines::Side& from = both.side[0];
  std::vector<QueuePair*> all{from.qp};
  while (all.size() < 300) {
    QpCreate create{.type = QpType::kUd,
                    .pd = from.pd,
                    .send_cq = from.send_cq,
                    .receive_cq = from.receive_cq,
                    .capabilities = options.capabilities,
                    .user = &from};
    from.qp = from.engine->create_qp(create).value();
    both.connect(0);
    all.push_back(from.qp);
  }
  for (int round = 0; round < 3; ++round) {
    for (QueuePair* const qp : all)
      ASSERT_TRUE(from.engine->post_send(qp, both.request(0, WorkOpcode::kSend, 0, 64, 1), both.now).ok());
    ASSERT_TRUE(both.run_until_idle());
    EXPECT_THAT(both.poll(0), testing::SizeIs(all.size()));
  }
}

// The RTT sample of a burst's last acknowledgement is processed at the next query.
TEST_F(ManyQueuePairs, EachKnowsItsRttSamples) {
  write_on_all();
  ASSERT_TRUE(both.run_until_idle());
  for (const auto& [qp, peer] : pairs) {
    const auto now = qp->requester().snapshot();
    EXPECT_EQ(now.srtt, both.options.one_way_delay * 2);
    EXPECT_EQ(now.base_rtt, both.options.one_way_delay * 2);
  }
}

TEST_F(ManyQueuePairs, AQueuePairWithoutWorkIsIdle) {
  const auto sent_all = [&](QueuePair* qp) { return qp->interest(both.now) == TransmitInterest::kNone; };
  const auto resting = [&](QueuePair* qp) {
    if (qp->is_idle()) {
      EXPECT_TRUE(sent_all(qp));
      EXPECT_EQ(qp->next_timeout(), std::nullopt);
    }
    return qp->is_idle();
  };
  for (const auto& [qp, peer] : pairs) EXPECT_TRUE(resting(qp) && resting(peer));
  write_on_all();
  for (const auto& [qp, peer] : pairs) EXPECT_TRUE(!resting(qp) && !sent_all(qp) && resting(peer));
  both.drop = [](const Sent& sent) { return sent.from == 1 && sent.copy == 1; };
  both.run_for(6_us);  // they are there, and their acknowledgements are lost
  for (const auto& [qp, peer] : pairs) EXPECT_TRUE(!resting(qp) && sent_all(qp) && qp->next_timeout() && resting(peer));
  ASSERT_TRUE(both.run_until_idle());
  for (const auto& [qp, peer] : pairs) EXPECT_TRUE(resting(qp) && resting(peer));
  EXPECT_THAT(both.poll(0), testing::SizeIs(kPairs));
}

// Packets that have waited too long are counted, in case links are to be inquired. A queue pair with nothing else to do
// than this count is idle, and uses the fast paths, as before.
TEST_F(ManyQueuePairs, AQueuePairThatWaitedOnceBecomesIdleAgain) {
  write_on_all();
  both.drop = [](const Sent&) { return true; };
  both.run_for(100_ms);
  both.drop = nullptr;
  ASSERT_TRUE(both.run_until_idle());
  EXPECT_GE(both.side[0].count(Counter::kLocalAckTimeout), 1u);
  for (const auto& [qp, peer] : pairs) {
    EXPECT_TRUE(qp->is_idle());
    EXPECT_EQ(qp->next_timeout(), std::nullopt);
    EXPECT_EQ(qp->interest(both.now), TransmitInterest::kNone);
  }
}

// The next ones are prefetched in the order of the last round: it may name queue pairs that were destroyed since, or
// whose numbers were reused.
TEST_F(ManyQueuePairs, TheOrderOfPostsMayNameQueuePairsThatHaveGone) {
  constexpr std::size_t kMany = 600;
  auto& side = both.side[0];
  std::vector<QueuePair*> many;
  const auto add = [&] {
    QpCreate create{.pd = side.pd,
                    .send_cq = side.send_cq,
                    .receive_cq = side.receive_cq,
                    .capabilities = both.options.capabilities,
                    .user = &side,
                    .user_bytes = sizeof side};
    many.push_back(side.engine->create_qp(create).value());
  };
  while (many.size() < kMany) add();
  for (int round = 0; round < 4; ++round) {
    for (QueuePair* qp : many) EXPECT_EQ(side.engine->post_send(qp, SendRequest{}, both.now).error(), EINVAL);
    for (std::size_t i = 0; i < many.size(); i += 3) {
      ASSERT_TRUE(side.engine->destroy_qp(many[i]).ok());
      many.erase(many.begin() + static_cast<std::ptrdiff_t>(i));
    }
    write_on_all();
    ASSERT_TRUE(both.run_until_idle());
    for (int i = 0; i < 50; ++i) add();
  }
  for (QueuePair* qp : many) ASSERT_TRUE(side.engine->destroy_qp(qp).ok());
}

}  // namespace
}  // namespace brdma::test
