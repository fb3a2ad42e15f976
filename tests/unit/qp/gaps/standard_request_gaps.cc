// tests design BR-21: gaps of a standard peer (qp/gaps/request_gaps.h): it is sent back to the base.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gap_receivers.h"

namespace brdma::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(RequestGaps, AStandardPeerIsSentBackToTheBase) {
  StandardReceiver receiver;
  receiver.arrive(1001, 1008);
  EXPECT_TRUE(receiver.resources.empty());
  receiver.arrive(1009, 1009);
  ASSERT_EQ(receiver.resources.size(), 1u);
  EXPECT_EQ(receiver.resources.front().psn, Psn{1000});
  EXPECT_EQ(receiver.resources.front().syndrome, wire::kSyndromeNakSequence);
  EXPECT_TRUE(receiver.lost(0));
  EXPECT_FALSE(receiver.feedback.due());
  EXPECT_TRUE(receiver.state->go_back.active);
  EXPECT_EQ(receiver.state->go_back.end, Psn{1009});
}

TEST(RequestGaps, AStandardPeerIsSentBackInTime) {
  StandardReceiver receiver;
  receiver.arrive(1001, 1001);
  receiver.pass(50_us);
  receiver.gaps().on_time(receiver.now);
  EXPECT_TRUE(receiver.resources.empty());
  receiver.pass(kTick);
  receiver.gaps().on_time(receiver.now);
  EXPECT_EQ(receiver.resources.size(), 1u);
}

TEST(RequestGaps, OfAStandardPeerOnlyTheGapAtTheBaseIsJudged) {
  StandardReceiver receiver;
  receiver.window.receive(Psn{1000});  // held
  receiver.arrive(1002, 1020);
  receiver.pass(1_s);
  receiver.gaps().on_time(receiver.now);
  EXPECT_TRUE(receiver.resources.empty());
}

TEST(RequestGaps, AStandardPeerThatWaitsForTheRnrTimerIsNotSentBack) {
  StandardReceiver receiver;
  receiver.base_packet.refuse();
  receiver.arrive(1001, 1020);
  EXPECT_TRUE(receiver.resources.empty());
}

TEST(RequestGaps, InARoundOfGoBackNNewPacketsAndTimeAreNoEvidence) {
  StandardReceiver receiver;
  receiver.goes_back();
  receiver.arrive(1010, 1030);
  receiver.pass(1_s);
  receiver.gaps().on_time(receiver.now);
  EXPECT_TRUE(receiver.resources.empty());
}

TEST(RequestGaps, MoreThanEightPacketsThatComeAgainAre) {
  StandardReceiver receiver;
  receiver.goes_back();
  for (int i = 0; i < 8; ++i) receiver.gaps().on_copy(receiver.now);
  EXPECT_TRUE(receiver.resources.empty());
  receiver.gaps().on_copy(receiver.now);
  EXPECT_EQ(receiver.resources.size(), 1u);
}

TEST(RequestGaps, FiftyMicrosecondsAfterTheFirstOfThemAre) {
  StandardReceiver receiver;
  receiver.goes_back();
  receiver.gaps().on_copy(receiver.now);
  const Instant due = receiver.now + 50_us + kTick;
  receiver.pass(40_us);
  receiver.gaps().on_copy(receiver.now);
  EXPECT_EQ(receiver.state->watch.judge_at, due);
  receiver.now = due;
  receiver.gaps().on_time(receiver.now);
  EXPECT_EQ(receiver.resources.size(), 1u);
}

TEST(RequestGaps, WithoutARoundOfGoBackNCopiesAreNotCounted) {
  StandardReceiver receiver;
  receiver.arrive(1001, 1001);
  receiver.gaps().on_copy(receiver.now);
  EXPECT_EQ(receiver.state->go_back.repeats, 0u);
}

TEST(RequestGaps, AStandardPacketOfTheRoundIsARetransmissionOnceTheNakHasLeft) {
  for (const bool left : {true, false}) {
    StandardReceiver receiver;
    receiver.arrive(1001, 1009);
    if (left) receiver.resources.pop();
    receiver.executes(1000);
    EXPECT_EQ(receiver.count(Counter::kGapsRecovered), left ? 1u : 0u);
    EXPECT_EQ(receiver.count(Counter::kMisjudgementCorrections), left ? 0u : 1u);
  }
}

TEST(RequestGaps, AStandardPacketBehindTheRoundIsNone) {
  StandardReceiver receiver;
  receiver.goes_back();
  receiver.arrives(receiver.packet(1011));
  receiver.arrives(receiver.packet(1010));
  EXPECT_EQ(receiver.count(Counter::kGapsRecovered), 0u);
  EXPECT_EQ(receiver.count(Counter::kGapsClosed), 1u);
}

TEST(RequestGaps, WithoutARoundAStandardPacketIsNone) {
  StandardReceiver receiver;
  receiver.state->go_back = {.active = false, .base = Psn{1000}, .end = Psn{1009}, .repeats = 0, .first_repeat = {}};
  receiver.arrive(1001, 1001);
  receiver.executes(1000);
  EXPECT_EQ(receiver.count(Counter::kGapsRecovered), 0u);
  EXPECT_EQ(receiver.count(Counter::kGapsClosed), 1u);
}

TEST(RequestGaps, ARoundEndsBehindAllThatHadComeWhenItsFirstPacketCame) {
  StandardReceiver receiver;
  receiver.goes_back();
  receiver.arrive(1010, 1012);
  EXPECT_EQ(receiver.state->go_back.end, Psn{1009});
  EXPECT_TRUE(receiver.gaps().fill_base(receiver.packet(1000), receiver.now));
  EXPECT_EQ(receiver.state->go_back.end, Psn{1012});
}

TEST(RequestGaps, OnlyTheFirstPacketOfARoundMovesItsEnd) {
  for (const bool active : {true, false}) {
    StandardReceiver receiver;
    receiver.arrive(1001, 1002);
    // Inactive, or begun at another packet.
    receiver.state->go_back = {
        .active = active, .base = Psn{active ? 999u : 1000u}, .end = Psn{1001}, .repeats = 0, .first_repeat = {}};
    EXPECT_TRUE(receiver.gaps().fill_base(receiver.packet(1000), receiver.now));
    EXPECT_EQ(receiver.state->go_back.end, Psn{1001});
  }
}

TEST(RequestGaps, ARoundIsOverWhenTheBaseHasPassedItsEnd) {
  StandardReceiver receiver;
  receiver.arrive(1002, 1002);
  receiver.arrive(1004, 1004);
  receiver.state->go_back = {.active = true, .base = Psn{999}, .end = Psn{1002}, .repeats = 3, .first_repeat = {}};
  receiver.executes(1000);
  EXPECT_TRUE(receiver.state->go_back.active);
  EXPECT_EQ(receiver.state->go_back.repeats, 0u) << "the base has moved";
  receiver.executes(1001);
  EXPECT_FALSE(receiver.state->go_back.active);
}

}  // namespace
}  // namespace brdma::test
