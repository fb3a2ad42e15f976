// qp/timers/timer_actions.h: what leaves again after an RNR wait, and what a pause of our own process means.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "timer_actions_sender.h"

namespace brdma::qp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// --- RNR ---

TEST(TimerWaits, AfterAnRnrWaitAllThatWasRefusedLeavesAgain) {
  SenderParts parts;
  parts.write(4);
  parts.timers.on_timeout(parts.now);
  parts.acknowledge(0);
  executed(parts, 1);
  parts.report(2);
  ASSERT_TRUE(parts.rnr.on_nak(1, 7, false, parts.now + 10_ms));
  parts.pass(10_ms);
  parts.actions().end_rnr_wait(parts.now);
  EXPECT_FALSE(parts.rnr.waiting());
  EXPECT_THAT(pending(parts), ElementsAre(1, 3));
  EXPECT_EQ(parts.count(Counter::kRetransmittedNak), 2U);
  EXPECT_EQ(parts.timers.progress(), parts.now);
  EXPECT_EQ(parts.timers.armed(), parts.now);
  EXPECT_EQ(parts.timers.activity(), parts.now);
  EXPECT_EQ(parts.timers.backoff(), 1) << "an RNR NAK is no progress";
}

// The base stood still because the peer was not ready: only now can it move.
TEST(TimerWaits, AStallCountsFromTheEndOfAnRnrWait) {
  SenderParts parts;
  parts.write(4);
  parts.report(2);
  ASSERT_TRUE(parts.rnr.on_nak(0, 7, true, parts.now + 10_ms));
  parts.pass(10_ms);
  parts.actions().end_rnr_wait(parts.now);
  EXPECT_EQ(parts.scoreboard.cumulative_moved(), parts.now);
}

TEST(TimerWaits, AfterAnRnrWaitAReadThatArrivedIsNotRequestedAgain) {
  SenderParts parts;
  parts.read(2);
  parts.sent().request_arrived(parts.messages.front());
  parts.write(1);
  parts.read(2);
  ASSERT_TRUE(parts.rnr.on_nak(2, 7, false, parts.now + 10_ms));
  parts.actions().end_rnr_wait(parts.now + 10_ms);
  EXPECT_THAT(pending(parts), ElementsAre(2, 3, 4));
  EXPECT_THAT(untouched(parts), ElementsAre(0, 1));
}

// --- our own pause ---

TEST(TimerWaits, AnOwnPauseIsNoSilenceOfThePeer) {
  SenderParts parts;
  const Instant sent = parts.now;
  parts.write(1);
  const Instant due = sent + 5_ms;
  parts.actions().note_own_pause(due, due + 50_ms - kTick);
  EXPECT_EQ(parts.timers.progress(), sent) << "a busy machine is late by less";
  parts.actions().note_own_pause(due, due + 50_ms);
  EXPECT_EQ(parts.timers.progress(), sent + 50_ms);
  parts.actions().note_own_pause(due, due + 10_s);
  EXPECT_EQ(parts.timers.progress(), sent + 10'050_ms);
}

TEST(TimerWaits, AfterAnOwnPauseOneRetryIsLeft) {
  SenderParts parts;
  const Instant due = parts.now + 2_s;
  parts.write(1);
  parts.now = due + 200_ms;
  EXPECT_LT(parts.deadlines().retry_limit(), parts.now);
  parts.actions().note_own_pause(due, parts.now);
  EXPECT_EQ(parts.deadlines().retry_limit(), parts.now + kRetry);
}

}  // namespace
}  // namespace brdma::qp
