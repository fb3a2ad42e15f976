// qp/timers/retransmission_timers.h: the effect of each event on the timers' start.
#include <gtest/gtest.h>

#include "qp/timers/retransmission_timers.h"

namespace brdma::qp {
namespace {

constexpr Instant at(Duration since) { return Instant{} + since; }

TEST(RetransmissionTimers, TheTimeoutBacksOffUntilThereIsProgress) {
  RetransmissionTimers timers;
  timers.on_flight_begun(at(10_us));
  timers.on_timeout(at(20_us));
  timers.on_timeout(at(40_us));
  EXPECT_EQ(timers.backoff(), 2);
  EXPECT_EQ(timers.armed(), at(40_us));
  EXPECT_EQ(timers.activity(), at(40_us));
  EXPECT_EQ(timers.progress(), at(10_us)) << "the retry limit counts from the last progress";
  timers.on_activity(at(50_us));
  EXPECT_EQ(timers.backoff(), 2) << "something came, but acknowledged nothing";
  timers.on_progress(at(60_us));
  EXPECT_EQ(timers.backoff(), 0);
  EXPECT_EQ(timers.armed(), at(60_us));
  EXPECT_EQ(timers.progress(), at(60_us));
}

TEST(RetransmissionTimers, OneProbeASilence) {
  RetransmissionTimers timers;
  timers.on_probe(at(10_us));
  EXPECT_TRUE(timers.probe_sent());
  EXPECT_TRUE(timers.has_grant());
  timers.use_grant();
  EXPECT_FALSE(timers.has_grant());
  timers.on_activity(at(20_us));
  EXPECT_TRUE(timers.probe_sent());
  timers.on_new_data();
  EXPECT_FALSE(timers.probe_sent());
  timers.on_probe(at(30_us));
  timers.on_progress(at(40_us));
  EXPECT_FALSE(timers.probe_sent());
}

TEST(RetransmissionTimers, WhatTimeoutsLeaveUndecidedIsDecidedOnce) {
  RetransmissionTimers timers;
  EXPECT_FALSE(timers.take_undecided());
  timers.add_undecided(8, at(10_us));
  timers.add_undecided(5, at(30_us));
  EXPECT_TRUE(timers.has_undecided());
  const auto taken = timers.take_undecided();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->last, at(30_us));
  EXPECT_EQ(taken->packets, 8u) << "the most that was under way at one of them";
  EXPECT_EQ(taken->count, 2);
  EXPECT_FALSE(timers.take_undecided());
}

// Nothing is left of earlier timeouts: the next one lowers the window once.
TEST(RetransmissionTimers, ANewFlightForgetsTheTimeoutsOfTheLast) {
  RetransmissionTimers timers;
  timers.add_undecided(8, at(10_us));
  timers.on_flight_begun(at(20_us));
  EXPECT_FALSE(timers.has_undecided());
  timers.add_undecided(2, at(30_us));
  const auto taken = timers.take_undecided();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->packets, 2u);
  EXPECT_EQ(taken->count, 1);
}

TEST(RetransmissionTimers, AWindowStallNeedsAnAcknowledgementBetween) {
  RetransmissionTimers timers;
  EXPECT_TRUE(timers.acknowledged_since_stall());
  timers.on_window_stall();
  timers.on_activity(at(10_us));
  EXPECT_FALSE(timers.acknowledged_since_stall());
  timers.on_acknowledgement(at(20_us));
  EXPECT_TRUE(timers.acknowledged_since_stall());
  EXPECT_EQ(timers.activity(), at(20_us));
}

TEST(RetransmissionTimers, AnOwnPauseIsNoSilenceOfThePeer) {
  RetransmissionTimers timers;
  timers.on_flight_begun(at(10_us));
  timers.on_own_pause(100_ms, at(50_us));
  EXPECT_EQ(timers.progress(), at(10_us + 100_ms));
  timers.on_own_pause(1_us, at(1_s));
  EXPECT_EQ(timers.progress(), at(1_s)) << "what is left of the retries";
  timers.on_rnr_end(at(2_s));
  EXPECT_EQ(timers.progress(), at(2_s));
  EXPECT_EQ(timers.armed(), at(2_s));
}

}  // namespace
}  // namespace brdma::qp
