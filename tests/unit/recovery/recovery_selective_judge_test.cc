// RACK's rules (RFC 8985, section 6.2) as the baseline uses them.
#include <gtest/gtest.h>

#include "recovery/selective_judge.h"

namespace brdma::recovery {
namespace {

constexpr Instant kStart = Instant::from_ns(1'000'000);
constexpr Instant sent(std::int64_t n) { return kStart + 1_us * n; }  // packet n
constexpr Duration kTrip = 100_us;

void deliver(SelectiveJudge& judge, std::uint64_t sequence) {
  const Instant when = sent(static_cast<std::int64_t>(sequence));
  judge.delivered(sequence, when, false, when + kTrip);
}

TEST(SelectiveJudge, SaysNothingBeforeALaterPacketHasArrived) {
  SelectiveJudge judge;
  EXPECT_FALSE(judge.judge(3, sent(3), sent(500)).lost);
  deliver(judge, 2);
  const auto verdict = judge.judge(3, sent(3), sent(500));
  EXPECT_FALSE(verdict.lost);
  EXPECT_FALSE(verdict.retry_at.has_value());
}

TEST(SelectiveJudge, ThreeLaterPacketsAreEnoughWithoutReordering) {
  SelectiveJudge judge;
  deliver(judge, 2);
  deliver(judge, 5);
  EXPECT_EQ(judge.judge(3, sent(3), sent(5) + kTrip).retry_at, sent(3) + kTrip + kTrip / 4);
  deliver(judge, 6);
  EXPECT_TRUE(judge.judge(3, sent(3), sent(6) + kTrip).lost);
}

TEST(SelectiveJudge, WaitsAQuarterOfTheRoundTripOnceReorderingWasSeen) {
  SelectiveJudge judge;
  deliver(judge, 2);
  deliver(judge, 1);
  EXPECT_TRUE(judge.reordering_seen());
  deliver(judge, 10);
  const Instant due = sent(3) + kTrip + kTrip / 4;
  EXPECT_EQ(judge.judge(3, sent(3), due - kTick).retry_at, due);
  EXPECT_TRUE(judge.judge(3, sent(3), due).lost);
}

TEST(SelectiveJudge, ARetransmissionIsJudgedByWhatWasSentAfterIt) {
  SelectiveJudge judge;
  deliver(judge, 10);
  EXPECT_FALSE(judge.judge(3, sent(20), sent(500)).lost) << "sent again after all that has arrived";
  judge.delivered(4, sent(30), true, sent(30) + kTrip);
  EXPECT_TRUE(judge.judge(3, sent(20), sent(500)).lost);
}

// Else the RTT sample would be zero.
TEST(SelectiveJudge, AnAcknowledgementThatCameTooSoonIsOfAnEarlierCopy) {
  SelectiveJudge judge;
  deliver(judge, 10);
  judge.delivered(4, sent(100), true, sent(101));
  EXPECT_FALSE(judge.judge(5, sent(50), sent(500)).lost);
}

// IRN: one later packet is enough, and a retransmission is not judged again.
// The first packet that arrives left twice, and it was its first transmission: the second was acknowledged at once.
// That is no round trip, and would remain the shortest (random world 21794).
TEST(SelectiveJudge, ThePathIsUnknownUntilAPacketSentOnceHasArrived) {
  SelectiveJudge judge;
  judge.delivered(0, sent(90), true, sent(91));
  EXPECT_FALSE(judge.judge(1, sent(50), sent(300)).lost);
  deliver(judge, 95);
  judge.delivered(4, sent(96), true, sent(97) + kTrip / 2);
  EXPECT_FALSE(judge.judge(93, sent(93), sent(93) + kTrip - kTick).lost) << "its acknowledgement may be on its way";
}

TEST(SelectiveJudge, IrnWaitsForNothingButATimeoutForWhatWasSentAgain) {
  SelectiveJudge judge{SelectiveJudge::Rule::kIrn};
  EXPECT_FALSE(judge.judge(3, sent(3), sent(4)).lost);
  deliver(judge, 4);
  EXPECT_TRUE(judge.judge(3, sent(3), sent(4) + kTrip).lost);
  EXPECT_FALSE(judge.judge(5, sent(5), sent(500)).lost);
  deliver(judge, 10);
  judge.delivered(5, sent(30), true, sent(30) + kTrip);
  const auto again = judge.judge(3, sent(20), sent(500), /*sent_again=*/true);
  EXPECT_FALSE(again.lost);
  EXPECT_FALSE(again.retry_at.has_value());
}

}  // namespace
}  // namespace brdma::recovery
