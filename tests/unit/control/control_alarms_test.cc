// control/alarms.h: thresholds, hysteresis, each on both sides of its limit. tests design BR-40
#include <gtest/gtest.h>

#include "control/alarms.h"

namespace brdma::control {
namespace {

class Alarms : public testing::Test {
 protected:
  // One look, a second after the last.
  std::vector<AlarmChange> look() {
    now_ = now_ + 1_s;
    return book.evaluate(facts, thresholds, now_);
  }
  void send(std::uint64_t packets, std::uint64_t again) {
    facts.statistics.add(Counter::kSentDataPackets, packets);
    facts.statistics.add(Counter::kRetransmittedFfm, again);
  }
  AlarmBook book;
  AlarmFacts facts;
  AlarmThresholds thresholds;

 private:
  Instant now_ = Instant::from_ns(1);
};

TEST_F(Alarms, RetransmissionsOfAnIntervalRaiseAboveAndClearWellBelow) {
  send(1000, 100);
  EXPECT_TRUE(look().empty());  // 10 percent: at the limit
  send(1000, 110);
  const auto raised = look();
  ASSERT_EQ(raised.size(), 1u);
  EXPECT_TRUE(raised[0].raised);
  EXPECT_EQ(raised[0].alarm, Alarm::kRetransmissions);
  EXPECT_EQ(raised[0].value, 11u);
  EXPECT_EQ(raised[0].threshold, 10u);
  send(1000, 120);
  EXPECT_TRUE(look().empty());  // still: reported once
  send(1000, 80);
  EXPECT_TRUE(look().empty());  // between: no flapping
  EXPECT_TRUE(book.raised(Alarm::kRetransmissions));
  send(1000, 70);
  const auto cleared = look();
  ASSERT_EQ(cleared.size(), 1u);
  EXPECT_FALSE(cleared[0].raised);
}

TEST_F(Alarms, WhateverHadThemSentAgainCounts) {
  for (const Counter cause : {Counter::kRetransmittedEdn, Counter::kRetransmittedPath, Counter::kRetransmittedProbe}) {
    book = {};
    facts = {};
    facts.statistics.add(Counter::kSentDataPackets, 1000);
    facts.statistics.add(cause, 110);
    EXPECT_EQ(look().size(), 1u) << static_cast<int>(cause);
  }
}

TEST_F(Alarms, FewPacketsMakeNoRatio) {
  send(99, 99);
  EXPECT_TRUE(look().empty());
  send(100, 99);
  EXPECT_EQ(look().size(), 1u);
}

TEST_F(Alarms, ResourcesNearTheirLimits) {
  facts.queue_pairs_max = 100;
  facts.queue_pairs = 90;
  EXPECT_TRUE(look().empty());
  facts.queue_pairs = 91;
  ASSERT_EQ(look().size(), 1u);
  EXPECT_TRUE(book.raised(Alarm::kQueuePairs));
  facts.state_bytes_max = 1000;
  facts.state_bytes = 1000;
  ASSERT_EQ(look().size(), 1u);
  EXPECT_TRUE(book.raised(Alarm::kState));
  facts.queue_pairs = 67;
  facts.state_bytes = 670;
  EXPECT_EQ(look().size(), 2u);
}

TEST_F(Alarms, AStallCountsFromWhenItIsSeenAndClearsAtItsEnd) {
  facts.statistics.add(Counter::kStallsBegun);
  EXPECT_TRUE(look().empty());
  EXPECT_TRUE(look().empty());
  ASSERT_EQ(look().size(), 1u);  // two seconds
  EXPECT_TRUE(book.raised(Alarm::kStall));
  EXPECT_TRUE(look().empty());
  facts.statistics.add(Counter::kStallsEnded);
  const auto cleared = look();
  ASSERT_EQ(cleared.size(), 1u);
  EXPECT_FALSE(cleared[0].raised);
}

TEST_F(Alarms, AThresholdOfZeroSwitchesOffAndClears) {
  send(1000, 500);
  ASSERT_EQ(look().size(), 1u);
  thresholds.retransmission_percent = 0;
  send(1000, 500);
  const auto cleared = look();
  ASSERT_EQ(cleared.size(), 1u);
  EXPECT_FALSE(cleared[0].raised);
  EXPECT_TRUE(look().empty());
}

}  // namespace
}  // namespace brdma::control
