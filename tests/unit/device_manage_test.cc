// device/manage.cc: recovery settings changed while queue pairs run, and how they stand. tests spec 1: management
#include <gmock/gmock.h>

#include <cerrno>

#include "support/two_engines.h"

namespace brdma::test {
namespace {

struct DepthMax final : RecoveryEditor {
  explicit DepthMax(std::uint32_t depth) : depth_max(depth) {}
  void edit(RecoveryConfig& config, bool made) const override {
    config.depth_max = depth_max;
    if (!made) config.window_packets = 64;
  }
  std::uint32_t depth_max;
};

class Manage : public testing::Test {
 protected:
  Engine& engine() { return *pair.side[1].engine; }
  std::uint32_t qpn() { return engine().qp_num(pair.side[1].qp); }
  QueuePairReport report() { return engine().report(qpn()).value(); }
  QueuePair* another() {
    QpCreate request;
    request.pd = pair.side[1].pd;
    request.send_cq = pair.side[1].send_cq;
    request.receive_cq = pair.side[1].receive_cq;
    return engine().create_qp(request).value();
  }
  TwoEngines pair;
};

TEST_F(Manage, AChangeForAllReachesRunningQueuePairsAndThoseToCome) {
  ASSERT_TRUE(engine().change_recovery(std::nullopt, DepthMax{100}, pair.now).ok());
  EXPECT_EQ(report().recovery.depth_max, 100u);
  EXPECT_EQ(report().limits.depth_max, 100u);
  EXPECT_EQ(report().recovery.window_packets, 4096u);  // applies to those made later only
  const auto later = engine().report(engine().qp_num(another())).value();
  EXPECT_EQ(later.recovery.depth_max, 100u);
  EXPECT_EQ(later.recovery.window_packets, 64u);
  EXPECT_FALSE(later.own_recovery);
}

TEST_F(Manage, AChangeForOneLeavesTheOthersAsTheyAre) {
  QueuePair* const other = another();
  ASSERT_TRUE(engine().change_recovery(qpn(), DepthMax{3}, pair.now).ok());
  EXPECT_EQ(report().limits.depth_max, 3u);
  EXPECT_TRUE(report().own_recovery);
  EXPECT_EQ(engine().report(engine().qp_num(other))->recovery.depth_max, 8u);
  EXPECT_EQ(engine().recovery().depth_max, 8u);
  ASSERT_TRUE(engine().change_recovery(qpn(), DepthMax{8}, pair.now).ok());  // as the device's again
  EXPECT_FALSE(report().own_recovery);
}

TEST_F(Manage, ThereIsNoSuchQueuePair) {
  EXPECT_EQ(engine().change_recovery(qpn() ^ 0x100, DepthMax{3}, pair.now).error(), ENOENT);
  EXPECT_FALSE(engine().report(qpn() ^ 0x100));
}

// A gap that waits under the old limits is judged by the new ones at once.
TEST_F(Manage, AWaitingGapIsJudgedByTheNewLimits) {
  ASSERT_TRUE(engine().change_recovery(std::nullopt, DepthMax{1000}, pair.now).ok());
  struct Patient final : RecoveryEditor {
    void edit(RecoveryConfig& config, bool) const override { config.age_max = config.stall_max = 1_s; }
  };
  ASSERT_TRUE(engine().change_recovery(std::nullopt, Patient{}, pair.now).ok());
  pair.drop = [](const Sent& sent) { return sent.data() && sent.psn() == 1003 && sent.copy == 1; };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 16 * 1024, /*wr_id=*/1)).ok());
  pair.run_for(100_us);
  ASSERT_EQ(report().gaps, 1u);
  EXPECT_EQ(pair.side[1].statistics.get(Counter::kGapsPromotedDepth), 0u);
  ASSERT_TRUE(engine().change_recovery(std::nullopt, DepthMax{2}, pair.now).ok());
  EXPECT_EQ(pair.side[1].statistics.get(Counter::kGapsPromotedDepth), 1u);
  pair.run_until_idle();
  EXPECT_EQ(report().gaps, 0u);
  EXPECT_EQ(report().receive_next, Psn{1016});
}

TEST_F(Manage, AQueuePairCountsItsOwnPackets) {
  QueuePair* const other = another();
  pair.drop = [](const Sent& sent) { return sent.data() && sent.psn() == 1003 && sent.copy == 1; };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 16 * 1024, /*wr_id=*/1)).ok());
  pair.run_until_idle();
  const QpStatistics receiver = report().statistics;
  EXPECT_EQ(receiver.get(QpCounter::kGapsSeen), 1u);
  EXPECT_EQ(receiver.get(QpCounter::kGapsPromoted), 1u);
  EXPECT_EQ(receiver.get(QpCounter::kFfmSent), 1u);
  const QpStatistics sender = pair.side[0].engine->report(pair.side[0].engine->qp_num(pair.side[0].qp))->statistics;
  EXPECT_EQ(sender.get(QpCounter::kSentData), 16u);
  EXPECT_EQ(sender.get(QpCounter::kRetransmitted), 1u);
  EXPECT_EQ(sender.get(QpCounter::kFfmReceived), 1u);
  EXPECT_EQ(sender.get(QpCounter::kSentPackets), pair.side[0].statistics.get(Counter::kSentPackets));
  EXPECT_EQ(engine().report(engine().qp_num(other))->statistics.get(QpCounter::kAccepted), 0u);
}

TEST_F(Manage, ListsWhatThereIs) {
  EXPECT_THAT(engine().queue_pair_numbers(), testing::ElementsAre(qpn()));
  const auto queues = engine().completion_queue_reports();
  ASSERT_EQ(queues.size(), 2u);
  EXPECT_EQ(queues[0].entries, pair.options.cq_entries);
  const auto regions = engine().memory_regions();
  ASSERT_EQ(regions.size(), 1u);
  EXPECT_EQ(regions[0].key, pair.side[1].key);
}

}  // namespace
}  // namespace brdma::test
