// qp/loss/loss_recovery.h: what a requester knows while packets are missing, lent by the engine's pool.
#include <gtest/gtest.h>

#include "qp/loss/loss_recovery.h"

namespace brdma::qp {
namespace {

constexpr std::uint32_t kWindow = 1024;

struct Lent {
  ~Lent() { state.end(pool); }
  LossRecovery& begun() { return state.begun(pool, kWindow); }

  WarmPool<LossRecovery> pool;
  PooledLossRecovery state;
  Instant now = Instant{} + 1_s;
};

TEST(LossRecovery, IsTakenForTheFirstLossAndGivenBackAfterTheLast) {
  Lent lent;
  EXPECT_FALSE(lent.state);
  EXPECT_FALSE(lent.state.held_until());
  EXPECT_FALSE(lent.state.paused_until());
  lent.begun().held_until = lent.now;
  EXPECT_TRUE(lent.state);
  EXPECT_EQ(lent.state.held_until(), lent.now);
  LossRecovery* const first = &lent.begun();
  EXPECT_EQ(first->held_until, lent.now) << "begun once";
  lent.state.end(lent.pool);
  EXPECT_FALSE(lent.state);
  lent.state.end(lent.pool);
  EXPECT_EQ(&lent.begun(), first) << "and lent again";
}

// The next queue pair gets the same object.
TEST(LossRecovery, NothingOfOneQueuePairReachesTheNext) {
  Lent lent;
  LossRecovery& one = lent.begun();
  ASSERT_TRUE(one.response_gaps.open(Psn{10}, Psn{14}, 0, lent.now, lent.now));
  one.response_judge_at = one.held_until = one.paused_until = lent.now + 1_ms;
  one.gone_back_to = 7;
  one.overtaking.on_echo(lent.now);
  one.overtaking.came_late(lent.now - 1_ms, 5_ms);
  EXPECT_FALSE(one.done());
  lent.state.end(lent.pool);

  LossRecovery& next = lent.begun();
  ASSERT_EQ(&next, &one);
  EXPECT_TRUE(next.done());
  EXPECT_TRUE(next.response_gaps.empty());
  EXPECT_FALSE(next.response_judge_at);
  EXPECT_FALSE(next.held_until);
  EXPECT_FALSE(next.paused_until);
  EXPECT_FALSE(next.gone_back_to);
}

TEST(LossRecovery, TheBaseAtAGapBeginsAStall) {
  Lent lent;
  LossRecovery& one = lent.begun();
  ASSERT_TRUE(one.response_gaps.open(Psn{10}, Psn{14}, 0, lent.now, lent.now));
  one.on_base_moved(Psn{9}, 9, lent.now + 1_ms);
  EXPECT_EQ(one.response_gaps[0].base_stuck_since, lent.now) << "not there yet";
  EXPECT_FALSE(one.response_judge_at);
  one.on_base_moved(Psn{11}, 11, lent.now + 2_ms);
  EXPECT_EQ(one.response_gaps[0].base_stuck_since, lent.now + 2_ms);
  EXPECT_EQ(one.response_judge_at, lent.now + 2_ms);
  one.on_base_moved(Psn{14}, 14, lent.now + 3_ms);
  EXPECT_TRUE(one.response_gaps.empty());
}

TEST(LossRecovery, ANakIsRememberedUntilItsPacketIsPassed) {
  Lent lent;
  LossRecovery& one = lent.begun();
  one.gone_back_to = 20;
  one.on_base_moved(Psn{20}, 20, lent.now);
  EXPECT_EQ(one.gone_back_to, 20U);
  EXPECT_FALSE(one.done());
  one.on_base_moved(Psn{21}, 21, lent.now);
  EXPECT_FALSE(one.gone_back_to);
  EXPECT_TRUE(one.done());
}

}  // namespace
}  // namespace brdma::qp
