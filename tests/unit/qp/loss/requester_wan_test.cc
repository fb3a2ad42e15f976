// Wide-area retransmission in the requester. tests design WT-3 to WT-5, one step a test.
#include "support/hand_played.h"

namespace brdma::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

PairOptions wan(RecoveryMode mode) {
  PairOptions options;
  options.mode[0] = options.mode[1] = mode;
  options.recovery.wan.walk_interval = 1_us;
  return options;
}

// 1000 to 1003 leave at 0, 1004 to 1007 at 20 us, 1008 to 1011 at 40 us; at 100 us all is acknowledged but 1005 and
// 1006. Delays 100, 80 and 60 us: T 80, delta 17.9, so 1006 is overdue at 117.9 us.
class WideArea : public testing::Test, public HandPlayed {
 protected:
  explicit WideArea(RecoveryMode mode = RecoveryMode::kWan) : HandPlayed(wan(mode)) {
    begun = pair.now;
    for (int i = 0; i < 3; ++i) {
      send(4, static_cast<std::uint64_t>(i));
      pair.run_for(20_us);
    }
    pair.run_for(40_us);
    EXPECT_EQ(sent().size(), 12u);
  }
  void acknowledge(std::uint16_t judged = 0) {
    ack({.base = 1005, .arrived = {1007, 1008, 1009, 1010, 1011}, .echo = begun + 40_us, .judged = judged});
  }
  Instant begun;
};

TEST_F(WideArea, TheExpectedPacketIsSentAtOnce) {
  acknowledge();
  EXPECT_THAT(sent(), ElementsAre(1005));
  EXPECT_EQ(count(Counter::kRetransmittedExpected), 1u);
}

TEST_F(WideArea, AndAgainOnceInTAndDelta) {
  acknowledge();
  sent();
  pair.run_for(97_us);
  acknowledge();
  EXPECT_THAT(sent(), ElementsAre(1006)) << "the walk's; the retransmission of 1005 may be on its way";
  pair.run_for(1_us);
  acknowledge();
  EXPECT_THAT(sent(), ElementsAre(1005));
  EXPECT_EQ(count(Counter::kRetransmittedExpected) + count(Counter::kRetransmittedWait), 3u);
}

TEST_F(WideArea, TheWalkSendsWhatHasWaitedForTAndDelta) {
  acknowledge();
  sent();
  pair.run_for(17_us);
  EXPECT_THAT(sent(), IsEmpty());
  pair.run_for(1_us);
  EXPECT_THAT(sent(), ElementsAre(1006));
  EXPECT_EQ(count(Counter::kRetransmittedWait), 1u);
}

TEST_F(WideArea, WhatIsAcknowledgedIsNotSentAgain) {
  acknowledge();
  sent();
  ack({.base = 1012});
  EXPECT_EQ(pair.poll(0).size(), 3u);
  pair.run_for(10_ms);
  EXPECT_THAT(sent(), IsEmpty());
}

// Of the last packets nobody can know whether they are late or lost: longer, as a probe waits.
TEST_F(WideArea, ATailWaitsLonger) {
  ack({.base = 1008, .echo = begun + 20_us});
  pair.run_for(189_us);
  EXPECT_THAT(sent(), IsEmpty());
  pair.run_for(2_us);
  EXPECT_THAT(sent(), ElementsAre(1008, 1009, 1010, 1011));
  EXPECT_EQ(count(Counter::kRetransmittedWait), 4u);
}

class WideAreaFeedback : public WideArea {
 protected:
  WideAreaFeedback() : WideArea(RecoveryMode::kWanFeedback) {}
};

// The receiver separates reordering from loss; its verdict is applied.
TEST_F(WideAreaFeedback, TheReceiversVerdictComesFirst) {
  acknowledge();
  EXPECT_THAT(sent(), IsEmpty());
  acknowledge(/*judged=*/1);
  EXPECT_THAT(sent(), ElementsAre(1005));
  EXPECT_EQ(count(Counter::kRetransmittedAck), 1u);
}

TEST_F(WideAreaFeedback, AndTheWalkDoesWithoutIt) {
  acknowledge();
  pair.run_for(18_us);
  EXPECT_THAT(sent(), ElementsAre(1005, 1006));
  EXPECT_EQ(count(Counter::kRetransmittedWait), 2u);
}

// Packets that leave before bitmap mode is agreed on are walked over as well. In world 700280 each of these packets
// waited for its turn as the expected one, a round trip each.
TEST(WideAreaBeforeAgreement, WhatIsLostIsSentAgainTogether) {
  PairOptions options = wan(RecoveryMode::kWan);
  options.settle = false;
  options.one_way_delay = 500_us;
  TwoEngines pair{options};
  pair.drop = [](const Sent& sent) {
    return sent.from == 0 && sent.data() && sent.copy == 1 && sent.psn() >= 1003 && sent.psn() <= 1017 &&
           sent.psn() % 2 == 1;
  };
  pair.run_for(600_us);  // CAPS with the peer's token have arrived, those with ours have not
  EXPECT_FALSE(pair.side[0].qp->identity().bitmap_agreed);
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 30 * 1024, 1)).ok());
  pair.run_for(4_ms);
  EXPECT_EQ(pair.poll(0).size(), 1u);
  EXPECT_EQ(pair.side[0].count(Counter::kRetransmittedExpected) + pair.side[0].count(Counter::kRetransmittedWait), 8u);
}

}  // namespace
}  // namespace brdma::test
