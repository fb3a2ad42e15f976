// tests design BR-9 to BR-18: gaps among requests are recorded, judged and closed (qp/gaps/request_gaps.h). Those of
// a standard peer: standard_request_gaps.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gap_receivers.h"

namespace brdma::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// --- recorded ---

TEST(RequestGaps, WhatIsMissingBeforeAnEarlyPacketIsAGap) {
  Receiver receiver;
  receiver.arrive(1002, 1003);
  EXPECT_THAT(receiver.open(), ElementsAre(1000));
  EXPECT_EQ(receiver.state->gaps[0].length, 2u);
  EXPECT_EQ(receiver.count(Counter::kGapsSeen), 1u);
  EXPECT_FALSE(receiver.lost(0));
  EXPECT_FALSE(receiver.feedback.due());
}

TEST(RequestGaps, AGapIsAsOldAsTheArrivalOfThePacketBehindIt) {
  Receiver receiver;
  receiver.environment.waited = 30_us;
  receiver.arrive(1001, 1001);
  EXPECT_EQ(receiver.state->gaps[0].first_seen, receiver.now - 30_us);
}

TEST(RequestGaps, ALatePacketClosesItsGapAlone) {
  Receiver receiver;
  receiver.arrives(receiver.packet(1001));
  receiver.arrives(receiver.packet(1003));
  receiver.arrives(receiver.packet(1002));
  EXPECT_THAT(receiver.open(), ElementsAre(1000));
  EXPECT_EQ(receiver.count(Counter::kGapsClosed), 1u);
  EXPECT_TRUE(receiver.executes(1000));
  EXPECT_THAT(receiver.open(), IsEmpty());
  EXPECT_EQ(receiver.count(Counter::kGapsClosed), 2u);
}

TEST(RequestGaps, APartOfAGapDoesNotCloseIt) {
  Receiver receiver;
  receiver.arrive(1002, 1002);
  EXPECT_FALSE(receiver.executes(1000));
  EXPECT_THAT(receiver.open(), ElementsAre(1001));
  EXPECT_EQ(receiver.count(Counter::kGapsClosed), 0u);
}

TEST(RequestGaps, AReadRequestFillsThePsnsOfItsResponses) {
  Receiver receiver;
  receiver.arrives(receiver.packet(1001));
  receiver.arrives(receiver.packet(1004));
  wire::Packet read = receiver.packet(1002);
  read.op = wire::RcOp::kReadRequest;
  read.reth.length = 2 * ReceiverParts::kMtu;
  receiver.arrives(read);
  EXPECT_THAT(receiver.open(), ElementsAre(1000));
}

TEST(RequestGaps, AGapWithoutARecordIsFoundWhenAnotherCloses) {
  Receiver receiver;
  receiver.state->gaps.begin(2);
  for (const std::uint32_t psn : {1001, 1003, 1005}) receiver.arrives(receiver.packet(psn));
  EXPECT_THAT(receiver.open(), ElementsAre(1000, 1002));
  receiver.arrives(receiver.packet(1002));
  EXPECT_THAT(receiver.open(), ElementsAre(1000, 1004));
}

TEST(RequestGaps, AGapWithoutARecordIsFoundWhenTheBaseMoves) {
  Receiver receiver;
  receiver.state->gaps.begin(1);
  for (const std::uint32_t psn : {1001, 1003}) receiver.arrives(receiver.packet(psn));
  EXPECT_THAT(receiver.open(), ElementsAre(1000));
  receiver.executes(1000);
  EXPECT_THAT(receiver.open(), ElementsAre(1002));
}

// --- judged ---

TEST(RequestGaps, AGapIsLostWithMoreThanEightPacketsBehindIt) {
  Receiver receiver;
  receiver.arrive(1001, 1008);
  EXPECT_FALSE(receiver.lost(0));
  receiver.arrive(1009, 1009);
  EXPECT_TRUE(receiver.lost(0));
  EXPECT_EQ(receiver.count(Counter::kGapsPromotedDepth), 1u);
  EXPECT_TRUE(receiver.feedback.due());
}

TEST(RequestGaps, EachGapHasItsOwnDepth) {
  Receiver receiver;
  receiver.arrive(1001, 1002);
  receiver.arrive(1004, 1011);
  EXPECT_TRUE(receiver.lost(0));
  EXPECT_FALSE(receiver.lost(1));
  receiver.arrive(1012, 1012);
  EXPECT_TRUE(receiver.lost(1));
}

TEST(RequestGaps, AGapIsLostWhenOlderThanFiftyMicroseconds) {
  Receiver receiver;
  receiver.arrive(1001, 1001);
  const Instant due = receiver.now + 50_us + kTick;
  EXPECT_EQ(receiver.state->watch.judge_at, due);
  receiver.now = due - kTick;
  receiver.gaps().on_time(receiver.now);
  EXPECT_FALSE(receiver.lost(0));
  receiver.now = due;
  receiver.gaps().on_time(receiver.now);
  EXPECT_TRUE(receiver.lost(0));
  EXPECT_EQ(receiver.count(Counter::kGapsPromotedAge), 1u);
}

TEST(RequestGaps, APacketShowsThatAGapIsTooOld) {
  Receiver receiver;
  receiver.arrive(1001, 1001);
  receiver.pass(50_us);
  receiver.arrive(1002, 1002);
  EXPECT_FALSE(receiver.lost(0));
  receiver.pass(kTick);
  receiver.arrive(1003, 1003);
  EXPECT_TRUE(receiver.lost(0));
}

TEST(RequestGaps, NothingIsLookedAtBeforeItsTime) {
  Receiver receiver;
  receiver.arrive(1001, 1001);
  receiver.pass(50_us);
  receiver.gaps().on_time(receiver.now);
  receiver.arrive(1002, 1008);
  EXPECT_EQ(receiver.state->gaps_looked_at, 0u);
}

TEST(RequestGaps, ABaseThatWasDueBeforeIsStuckSinceThen) {
  Receiver receiver;
  receiver.arrives(receiver.packet(1001), receiver.now - 40_us);
  receiver.pass(40_us);
  receiver.gaps().on_time(receiver.now);
  EXPECT_FALSE(receiver.lost(0));
  receiver.pass(kTick);
  receiver.gaps().on_time(receiver.now);
  EXPECT_TRUE(receiver.lost(0)) << "80 us after it was due";
  EXPECT_EQ(receiver.count(Counter::kGapsPromotedStall), 1u);
}

TEST(RequestGaps, AStallBeginsAtMostFiftyMicrosecondsBeforeItsGap) {
  Receiver receiver;
  receiver.arrives(receiver.packet(1001), receiver.now - 1_ms);
  EXPECT_EQ(receiver.state->watch.judge_at, receiver.now + 30_us + kTick);
}

TEST(RequestGaps, AStallBeginsNoLaterThanItsGap) {
  Receiver receiver;
  receiver.arrives(receiver.packet(1001), receiver.now + 10_us);
  EXPECT_EQ(receiver.state->gaps[0].base_stuck_since, receiver.now);
}

TEST(RequestGaps, OnlyTheGapAtTheBaseStalls) {
  Receiver receiver;
  receiver.arrives(receiver.packet(1001));
  receiver.arrives(receiver.packet(1003), receiver.now - 40_us);
  EXPECT_EQ(receiver.state->gaps[1].base_stuck_since, receiver.now);
}

TEST(RequestGaps, WithSeveralPathsNothingWasDueBefore) {
  Receiver receiver;
  receiver.begin_paths(2);
  receiver.arrives(receiver.packet(1001), receiver.now - 40_us);
  EXPECT_EQ(receiver.state->gaps[0].base_stuck_since, receiver.now);
}

TEST(RequestGaps, AStallMayBeCountedInPackets) {
  Receiver receiver;
  receiver.recovery.stall_packets = 2;
  receiver.arrive(1001, 1002);
  EXPECT_FALSE(receiver.lost(0));
  receiver.arrive(1003, 1003);
  EXPECT_TRUE(receiver.lost(0));
  EXPECT_EQ(receiver.count(Counter::kGapsPromotedStall), 1u);
}

TEST(RequestGaps, WithoutThatLimitPacketsAreNotCounted) {
  Receiver receiver;
  receiver.arrive(1001, 1003);
  EXPECT_EQ(receiver.state->gaps[0].later_packets, 0u);
}

TEST(RequestGaps, BehindAPacketThatWaitsForAReceivePacketsAreNotCounted) {
  Receiver receiver;
  receiver.recovery.stall_packets = 2;
  receiver.window.receive(Psn{1000});  // held
  receiver.arrive(1002, 1006);
  EXPECT_EQ(receiver.state->gaps[0].later_packets, 0u);
}

TEST(RequestGaps, WhileTheSenderWaitsForTheRnrTimerNothingIsJudged) {
  Receiver receiver;
  receiver.base_packet.refuse();
  receiver.arrive(1001, 1001);
  receiver.arrive(1003, 1020);
  EXPECT_EQ(receiver.count(Counter::kGapsPromotedDepth), 0u);
  EXPECT_TRUE(receiver.state->feedback.look);
  receiver.executes(1000);
  EXPECT_THAT(receiver.open(), ElementsAre(1002));
  EXPECT_TRUE(receiver.lost(0));
}

TEST(RequestGaps, ASenderThatJudgesByItselfGetsAcknowledgementsOnly) {
  for (const auto mode : {RecoveryMode::kSelective, RecoveryMode::kWan}) {
    Receiver receiver;
    receiver.recovery.mode = mode;
    receiver.arrive(1001, 1020);
    EXPECT_FALSE(receiver.lost(0));
    EXPECT_FALSE(receiver.feedback.due());
  }
}

TEST(RequestGaps, ASenderThatJudgesByItselfGetsThemAtOnce) {
  struct Case {
    RecoveryMode mode;
    bool new_gap, next;  // an acknowledgement is forced
  };
  for (const auto [mode, new_gap, next] :
       {Case{RecoveryMode::kSelective, true, true}, Case{RecoveryMode::kWan, true, false},
        Case{RecoveryMode::kWanFeedback, true, false}, Case{RecoveryMode::kBitmap, false, false}}) {
    Receiver receiver;
    receiver.recovery.mode = mode;
    receiver.arrive(1001, 1001);
    EXPECT_EQ(receiver.ack.forced(), new_gap);
    receiver.ack = {};
    receiver.arrive(1002, 1002);
    EXPECT_EQ(receiver.ack.forced(), next);
  }
}

TEST(RequestGaps, AStandardAcknowledgementIsNotForced) {
  StandardReceiver receiver;
  receiver.recovery.mode = RecoveryMode::kSelective;
  receiver.arrive(1001, 1001);
  EXPECT_FALSE(receiver.ack.forced());
}

TEST(RequestGaps, APacketThatNamesTheGapAsSentBeforeItOnItsPathIsEvidence) {
  for (const bool names_path : {true, false}) {
    Receiver receiver;
    receiver.begin_paths(3);
    receiver.arrives(receiver.packet(1001, 0));
    EXPECT_FALSE(receiver.lost(0));
    wire::Packet behind = receiver.packet(1002, 1);
    behind.bxth.before = {.distance = 2, .run = 1};
    behind.bitmap = names_path;
    receiver.arrives(behind);
    EXPECT_EQ(receiver.lost(0), names_path);
    EXPECT_EQ(receiver.count(Counter::kGapsPromotedPath), names_path ? 1u : 0u);
  }
}

// --- the base moves ---

TEST(RequestGaps, AStallBeginsAgainWhenTheBaseMovesUpToTheGap) {
  Receiver receiver;
  receiver.recovery.stall_packets = 100;
  receiver.arrive(1002, 1003);
  EXPECT_EQ(receiver.state->gaps[0].later_packets, 2u);
  const Instant seen = receiver.now;
  receiver.pass(10_us);
  receiver.executes(1000);
  EXPECT_EQ(receiver.state->gaps[0].first_seen, seen);
  EXPECT_EQ(receiver.state->gaps[0].base_stuck_since, receiver.now);
  EXPECT_EQ(receiver.state->gaps[0].later_packets, 0u);
}

TEST(RequestGaps, AGapBehindAPacketThatWaitsForAReceiveDoesNotStall) {
  Receiver receiver;
  receiver.window.receive(Psn{1000});  // held
  receiver.arrive(1002, 1002);
  const Instant seen = receiver.now;
  receiver.pass(10_us);
  receiver.gaps().on_advance(receiver.now, receiver.now);
  EXPECT_EQ(receiver.state->gaps[0].base_stuck_since, seen);
}

TEST(RequestGaps, WithoutAGapNothingIsToBeNamed) {
  Receiver receiver;
  receiver.arrive(1001, 1009);
  ASSERT_TRUE(receiver.feedback.due());
  ASSERT_TRUE(receiver.state->feedback.unnamed);
  receiver.executes(receiver.retransmission(1000));
  EXPECT_FALSE(receiver.feedback.due());
  EXPECT_FALSE(receiver.state->feedback.unnamed);
  EXPECT_FALSE(receiver.state->watch.next_event(false));
}

// --- late, or retransmitted ---

TEST(RequestGaps, AnOriginalShowsAMisjudgementARetransmissionARecovery) {
  for (const bool again : {true, false}) {
    Receiver receiver;
    receiver.arrive(1001, 1009);
    receiver.executes(again ? receiver.retransmission(1000) : receiver.packet(1000));
    EXPECT_EQ(receiver.count(Counter::kGapsRecovered), again ? 1u : 0u);
    EXPECT_EQ(receiver.count(Counter::kMisjudgementCorrections), again ? 0u : 1u);
  }
}

TEST(RequestGaps, OnlyARetransmissionMeasuresTheRoundTripOfAnFfm) {
  for (const bool again : {true, false}) {
    Receiver receiver;
    receiver.arrive(1001, 1009);
    receiver.named(0, 1);
    receiver.pass(300_us);
    receiver.environment.waited = 100_us;
    receiver.executes(again ? receiver.retransmission(1000) : receiver.packet(1000));
    EXPECT_EQ(receiver.feedback.round_trip(), again ? 200_us : Duration{});
  }
}

TEST(RequestGaps, ARetransmissionIntoAGapWithoutARecordMeasuresNothing) {
  Receiver receiver;
  receiver.state->gaps.begin(1);
  for (const std::uint32_t psn : {1001, 1003}) receiver.arrives(receiver.packet(psn));
  receiver.named(0, 1);
  receiver.pass(30_us);
  receiver.arrives(receiver.retransmission(1002));
  EXPECT_EQ(receiver.feedback.round_trip(), Duration{});
  EXPECT_THAT(receiver.open(), ElementsAre(1000));
}

TEST(RequestGaps, WithSeveralPathsTheRetransmissionOfAMisjudgedPacketIsAwaited) {
  struct Case {
    bool lost;
    std::uint16_t named;
    std::optional<Duration> took;
  };
  for (const auto& [lost, named, took] : {Case{true, 1, 300_us}, Case{true, 2, {}}, Case{false, 1, {}}}) {
    Receiver receiver;
    receiver.begin_paths(2);
    receiver.arrive(1001, 1001);
    if (lost) receiver.request_by_hand();
    receiver.named(0, named);
    receiver.pass(200_us);
    receiver.executes(1000);
    EXPECT_EQ(receiver.tolerance.paths()->repetition_came(Psn{1000}, receiver.now + 100_us), took);
  }
}

// --- management ---

TEST(RequestGaps, ChangedLimitsApplyAtOnce) {
  for (const bool bitmap : {true, false}) {
    Receiver receiver;
    receiver.bitmap = bitmap;
    receiver.arrive(1001, 1006);
    receiver.recovery.depth_max = 3;
    receiver.gaps().judge_again(receiver.now);
    EXPECT_TRUE(receiver.lost(0));
    EXPECT_EQ(receiver.feedback.due(), bitmap);
    EXPECT_EQ(receiver.resources.size(), bitmap ? 0u : 1u);
  }
}

TEST(RequestGaps, WithoutGapsChangedLimitsNeedNoLook) {
  Receiver receiver;
  receiver.gaps().judge_again(receiver.now);
  EXPECT_FALSE(receiver.state->feedback.look);
}

TEST(RequestGaps, AnOperatorRequestsOneGapOrAll) {
  Receiver receiver;
  receiver.arrives(receiver.packet(1001));
  receiver.arrives(receiver.packet(1003));
  EXPECT_THAT(receiver.request_by_hand(Psn{1001}), IsEmpty());
  EXPECT_FALSE(receiver.feedback.due());
  EXPECT_THAT(receiver.request_by_hand(Psn{1002}), ElementsAre(1002));
  EXPECT_FALSE(receiver.lost(0));
  EXPECT_TRUE(receiver.lost(1));
  EXPECT_TRUE(receiver.feedback.due());
  EXPECT_THAT(receiver.request_by_hand(), ElementsAre(1000, 1002));
  EXPECT_EQ(receiver.count(Counter::kGapsPromotedRequest), 2u) << "each counts as lost once";
}

TEST(RequestGaps, AnOperatorsRequestDoesNotWaitForTheLastOne) {
  Receiver receiver;
  receiver.arrives(receiver.packet(1001));
  receiver.arrives(receiver.packet(1003));
  receiver.request_by_hand();
  receiver.named(0, 1);
  receiver.request_by_hand();
  EXPECT_TRUE(receiver.repeats(0));
  EXPECT_EQ(receiver.state->gaps[1].last_feedback, Instant{}) << "was not named yet";
}

TEST(RequestGaps, AnOperatorsRequestDoesNotWaitForASilentPeer) {
  Receiver receiver;
  receiver.arrives(receiver.packet(1001));
  receiver.request_by_hand();
  receiver.pass(1_s);
  receiver.named(0, 5);
  receiver.pass(900_ms);
  EXPECT_FALSE(receiver.repeats(0)) << "silent for 1 s when it was named";
  receiver.request_by_hand();
  EXPECT_TRUE(receiver.repeats(0));
}

// What was put off while the peer was silent is looked at when it sends again.
TEST(RequestGaps, AfterASilenceNamedGapsAreLookedAt) {
  Receiver receiver;
  receiver.arrives(receiver.packet(1001));
  receiver.request_by_hand();
  receiver.pass(1_s);
  receiver.named(0, 5);
  receiver.gaps().judge_again(receiver.now);
  EXPECT_EQ(receiver.state->watch.repeat_at, receiver.now + 1_s);
  receiver.feedback.cancel();
  receiver.pass(100_ms);
  receiver.arrives(receiver.packet(1002));
  EXPECT_TRUE(receiver.feedback.due());
}

TEST(RequestGaps, AnOperatorCanOnlySendAStandardPeerBackToTheBase) {
  StandardReceiver receiver;
  receiver.arrives(receiver.packet(1001));
  receiver.arrives(receiver.packet(1003));
  EXPECT_THAT(receiver.request_by_hand(Psn{1002}), IsEmpty());
  EXPECT_TRUE(receiver.resources.empty());
  EXPECT_THAT(receiver.request_by_hand(), ElementsAre(1000));
  EXPECT_EQ(receiver.resources.size(), 1u);
  EXPECT_FALSE(receiver.feedback.due());
}

}  // namespace
}  // namespace brdma::test
