// Moderation of a completion queue's notifications: after enough completions, or a time after the first.
#include <gtest/gtest.h>

#include "qp/queues/completion_queue.h"
#include "support/two_engines.h"

namespace brdma::test {
namespace {

constexpr Instant at(Duration since) { return Instant{} + since; }

class ModeratedQueue : public testing::Test {
 protected:
  CompletionQueue::Push push(Duration when, bool solicited = false) { return cq.push({}, solicited, at(when)); }
  CompletionQueue cq{64, nullptr, {.moderation = {.count = 3, .period = 100_us}}};
};

TEST_F(ModeratedQueue, NotifiesAfterTheCount) {
  ASSERT_FALSE(cq.arm(false));
  EXPECT_EQ(push(1_us), CompletionQueue::Push::kQuiet);
  EXPECT_EQ(push(2_us), CompletionQueue::Push::kQuiet);
  EXPECT_EQ(push(3_us), CompletionQueue::Push::kNotify);
  EXPECT_FALSE(cq.deadline().has_value());
  EXPECT_EQ(push(4_us), CompletionQueue::Push::kQuiet) << "not armed any more";
}

TEST_F(ModeratedQueue, OrThePeriodAfterTheFirst) {
  ASSERT_FALSE(cq.arm(false));
  EXPECT_FALSE(cq.deadline().has_value());
  (void)push(10_us);
  (void)push(90_us);
  EXPECT_EQ(cq.deadline(), at(110_us));
  EXPECT_FALSE(cq.expire(at(110_us - kTick)));
  EXPECT_TRUE(cq.expire(at(110_us)));
  EXPECT_FALSE(cq.expire(at(110_us))) << "once an arming";
}

TEST_F(ModeratedQueue, CompletionsBeforeTheArmingCount) {
  (void)push(10_us);
  (void)push(20_us);
  ASSERT_FALSE(cq.arm(false));
  EXPECT_EQ(cq.deadline(), at(110_us));
  EXPECT_EQ(push(30_us), CompletionQueue::Push::kNotify);
  for (int i = 0; i < 3; ++i) (void)push(40_us);
  EXPECT_TRUE(cq.arm(false)) << "enough wait already";
}

TEST_F(ModeratedQueue, PolledOnesCountNoMoreAtTheNextArming) {
  (void)push(10_us);
  (void)push(20_us);
  std::array<Completion, 2> out;
  ASSERT_EQ(cq.poll(out), 2u);
  ASSERT_FALSE(cq.arm(false));
  EXPECT_FALSE(cq.deadline().has_value());
  (void)push(200_us);
  EXPECT_EQ(cq.deadline(), at(300_us));
}

TEST_F(ModeratedQueue, ForSolicitedOnesTheOthersDoNotCount) {
  ASSERT_FALSE(cq.arm(true));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(push(1_us), CompletionQueue::Push::kQuiet);
  EXPECT_FALSE(cq.deadline().has_value());
  EXPECT_EQ(push(50_us, true), CompletionQueue::Push::kQuiet);
  EXPECT_EQ(cq.deadline(), at(150_us));
}

TEST_F(ModeratedQueue, LessOfItNotifiesThoseThatWait) {
  ASSERT_FALSE(cq.arm(false));
  (void)push(1_us);
  (void)push(2_us);
  EXPECT_FALSE(cq.moderate({.count = 3, .period = 1_s}));
  EXPECT_EQ(cq.deadline(), at(1_us + 1_s));
  EXPECT_TRUE(cq.moderate({.count = 2, .period = 1_s}));
  EXPECT_FALSE(cq.deadline().has_value());
}

TEST_F(ModeratedQueue, ACountWithoutAPeriodIsNone) {
  EXPECT_FALSE(cq.moderate({.count = 8, .period = Duration{}}));
  ASSERT_FALSE(cq.arm(false));
  EXPECT_EQ(push(1_us), CompletionQueue::Push::kNotify);
  EXPECT_TRUE(CompletionQueue(4, nullptr).is_quiet());
  EXPECT_FALSE(CompletionQueue(4, nullptr, {.moderation = {.count = 8, .period = 1_us}}).is_quiet());
}

class ModeratedEngine : public testing::Test {
 protected:
  TwoEngines pair;
  TwoEngines::Side& side = pair.side[0];
};

TEST_F(ModeratedEngine, KeepsTheDeadline) {
  side.engine->moderate_cq(side.send_cq, {.count = 100, .period = 5_ms});
  side.engine->request_notify(side.send_cq, false);
  side.notifications.clear();
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 100, 1)).ok());
  pair.run_for(1_ms);
  EXPECT_TRUE(side.notifications.empty());
  ASSERT_TRUE(side.engine->next_timeout().has_value());
  pair.run_for(5_ms);
  ASSERT_EQ(side.notifications.size(), 1u);
  EXPECT_EQ(side.notifications[0].kind, Notification::Kind::kCompletion);
  EXPECT_EQ(side.notifications[0].user, &side.send_cq);
  EXPECT_TRUE(pair.run_until_idle());
}

TEST_F(ModeratedEngine, NotifiesOnceForTheCount) {
  side.engine->moderate_cq(side.send_cq, {.count = 3, .period = 1_s});
  side.engine->request_notify(side.send_cq, false);
  side.notifications.clear();
  for (std::uint64_t n = 0; n < 5; ++n) ASSERT_TRUE(pair.post(0, pair.write(0, 0, 100, n)).ok());
  pair.run_for(1_ms);
  EXPECT_EQ(side.notifications.size(), 1u);
}

TEST_F(ModeratedEngine, SwitchingItOffNotifiesAtOnce) {
  side.engine->moderate_cq(side.send_cq, {.count = 3, .period = 1_s});
  side.engine->request_notify(side.send_cq, false);
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 100, 1)).ok());
  pair.run_for(1_ms);
  side.notifications.clear();
  side.engine->moderate_cq(side.send_cq, {});
  pair.round();
  EXPECT_EQ(side.notifications.size(), 1u);
}

TEST_F(ModeratedEngine, ADestroyedQueueHasNoDeadline) {
  auto made = side.engine->create_cq(16, nullptr, {.moderation = {.count = 3, .period = 1_s}});
  ASSERT_TRUE(made);
  side.engine->request_notify(made.value(), false);
  ASSERT_TRUE(side.engine->destroy_cq(made.value()).ok());
  EXPECT_FALSE(side.engine->next_timeout().has_value());
}

}  // namespace
}  // namespace brdma::test
