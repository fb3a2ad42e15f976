// The requester's reaction to feedback (design BR-23 to BR-27): which packets are retransmitted, how, and each rule
// of suppression.
#include "support/hand_played.h"

namespace brdma::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

class Feedback : public testing::Test, public HandPlayed {
 protected:
  using HandPlayed::HandPlayed;
  // Batches by the runs of packets that they retransmitted.
  [[nodiscard]] std::vector<std::uint64_t> operations() const {
    return {count(Counter::kRetransmitSingle), count(Counter::kRetransmitInterval),
            count(Counter::kRetransmitAggregated)};
  }
};

TEST_F(Feedback, AnFfmResendsWhatItNamesAndNothingElse) {
  send(16);
  EXPECT_EQ(sent().size(), 16u);
  ffm(0, 1003, 1012, {{1003, 1}});
  EXPECT_THAT(sent(), ElementsAre(1003));
  EXPECT_EQ(count(Counter::kRetransmittedFfm), 1u);
  ack({.base = 1016});
  EXPECT_EQ(pair.poll(0).size(), 1u);
  EXPECT_EQ(pair.story({"entry psn=1003"}),
            "0 entry psn=1003 sent-unacked -> retransmit-pending\n"
            "0 entry psn=1003 retransmit-pending -> retransmitted-unacked\n"
            "0 entry psn=1003 retransmitted-unacked -> acked\n");
}

TEST_F(Feedback, GapsOfSeveralFfmsLeaveInOneBatch) {
  send(30);
  sent();
  pair.in_burst[0] = true;
  ffm(0, 1003, 1022, {{1020, 1}});
  ffm(1, 1003, 1029, {{1003, 2}, {1010, 1}});
  ffm(2, 1003, 1029, {{1021, 2}});
  ASSERT_THAT(pair.wire, IsEmpty());
  pair.in_burst[0] = false;
  pair.round();
  ASSERT_EQ(pair.wire.size(), 6u);
  for (const Sent& each : pair.wire) {
    EXPECT_EQ(each.batch, pair.wire[0].batch);
    EXPECT_TRUE(each.packet().bxth.retransmitted);
  }
  EXPECT_THAT(sent(), ElementsAre(1003, 1004, 1010, 1020, 1021, 1022));
  EXPECT_EQ(count(Counter::kFfmReceived), 3u);
  EXPECT_THAT(operations(), ElementsAre(0, 0, 1));
}

TEST_F(Feedback, OnePacketARunAndSeveralRunsAreCountedApart) {
  send(30);
  sent();
  ffm(0, 1003, 1029, {{1003, 1}});
  EXPECT_THAT(operations(), ElementsAre(1, 0, 0));
  ffm(1, 1003, 1029, {{1005, 3}});
  EXPECT_THAT(operations(), ElementsAre(1, 1, 0));
  ffm(2, 1003, 1029, {{1010, 1}, {1012, 2}});
  EXPECT_THAT(operations(), ElementsAre(1, 1, 1));
  ffm(3, 1003, 1029, {{1020, 1}, {1021, 1}});  // two gaps, one run
  EXPECT_THAT(operations(), ElementsAre(1, 2, 1));
}

// --- suppression, a rule a test ---

TEST_F(Feedback, PacketsThatHaveArrivedAreLeftOut) {
  send(16);
  ack({.base = 1003, .arrived = {1004, 1005}});
  sent();
  ffm(0, 1000, 1007, {{1004, 3}, {1000, 2}});
  EXPECT_THAT(sent(), ElementsAre(1006));
  EXPECT_EQ(count(Counter::kFfmPacketsAcked), 4u);
  EXPECT_EQ(count(Counter::kFfmSuppressed), 1u) << "the gap of which nothing was to be done";
}

TEST_F(Feedback, TheSameMessageTwiceIsOnce) {
  send(16);
  sent();
  ffm(7, 1003, 1012, {{1003, 1}});
  EXPECT_THAT(sent(), ElementsAre(1003));
  pair.run_for(200_us);
  ffm(7, 1003, 1012, {{1003, 1}});
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(count(Counter::kFfmDuplicates), 1u);
}

TEST_F(Feedback, AnOldMessageIsNotBelieved) {
  send(16);
  sent();
  ffm(100, 1003, 1012, {{1003, 1}});
  EXPECT_THAT(sent(), ElementsAre(1003));
  ffm(36, 1003, 1012, {{1005, 1}});
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(count(Counter::kFfmStale), 1u);
}

// A message that a newer one has overtaken still reports losses that the newer does not name; but it knows nothing of a
// packet that was retransmitted meanwhile.
TEST_F(Feedback, AnOvertakenMessageCountsForWhatWasSentOnce) {
  send(16);
  sent();
  ffm(7, 1003, 1012, {{1003, 1}});
  EXPECT_THAT(sent(), ElementsAre(1003));
  pair.run_for(200_us);
  ffm(6, 1003, 1012, {{1003, 1}, {1005, 1}});
  EXPECT_THAT(sent(), ElementsAre(1005));
  EXPECT_EQ(count(Counter::kFfmPacketsOutdated), 1u);
}

TEST_F(Feedback, APacketIsSentAgainOnceInTheResendInterval) {
  send(16);
  sent();
  ffm(0, 1003, 1012, {{1003, 1}});
  EXPECT_THAT(sent(), ElementsAre(1003));
  pair.run_for(49_us);
  ffm(1, 1003, 1012, {{1003, 1}});
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(count(Counter::kFfmPacketsRecent), 1u);
  pair.run_for(2_us);
  ffm(2, 1003, 1012, {{1003, 1}});
  EXPECT_THAT(sent(), ElementsAre(1003));
}

// The packets left before bitmap mode was agreed, so nothing echoes them: the newest that has arrived is the only
// measure of the path (random world 25379).
TEST_F(Feedback, BeforeTheFirstEchoThePathIsAsLongAsTheNewestPacketTook) {
  send(16);
  sent();
  pair.run_for(300_us);
  ffm(0, 1003, 1012, {{1003, 1}});
  EXPECT_THAT(sent(), ElementsAre(1003));
  pair.run_for(250_us);
  ffm(1, 1003, 1012, {{1003, 1}});
  EXPECT_THAT(sent(), IsEmpty()) << "made before 1003 can have arrived";
  EXPECT_EQ(count(Counter::kFfmPacketsRecent), 1u);
}

TEST_F(Feedback, AnAcknowledgementWithoutAnEchoMeasuresThePathToo) {
  send(16);
  sent();
  pair.run_for(300_us);
  ack({.base = 1003, .arrived = {1004, 1012}, .judged = 1});
  EXPECT_THAT(sent(), ElementsAre(1003));
  pair.run_for(250_us);
  ffm(0, 1003, 1012, {{1003, 1}});
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(count(Counter::kFfmPacketsRecent), 1u);
}

// While a queue grows a retransmission is in flight for longer than recent round trips. The newest packet that the
// receiver had shows whether its message can know of it.
TEST_F(Feedback, ARetransmissionThatLeftAfterTheNewestPacketReceivedIsNotJudgedByIt) {
  send(16);
  sent();
  pair.run_for(20_us);
  ffm(0, 1003, 1012, {{1003, 1}});
  EXPECT_THAT(sent(), ElementsAre(1003));
  pair.run_for(60_us);
  ffm(1, 1003, 1015, {{1003, 1}});
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(count(Counter::kFfmPacketsRecent), 1u);
  send(4, 2);
  sent();
  ffm(2, 1003, 1017, {{1003, 1}});
  EXPECT_THAT(sent(), ElementsAre(1003)) << "1017 left after it, and is there";
  pair.run_for(201_us);
  ffm(3, 1003, 1017, {{1003, 1}});
  EXPECT_THAT(sent(), ElementsAre(1003)) << "nothing later is in flight that could be acknowledged";
}

TEST_F(Feedback, WhatWasNeverSentIsCounted) {
  send(4);
  sent();
  ffm(0, 1004, 1100, {{1004, 90}});
  EXPECT_EQ(count(Counter::kFfmPacketsUnsent), 90u);
  ffm(1, 900, 1003, {{900, 5}});
  EXPECT_EQ(count(Counter::kFfmPacketsAcked), 5u) << "far behind the base";
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(count(Counter::kFfmSuppressed), 2u);
}

// --- the receiver's judgement, repeated by its acknowledgements ---

TEST_F(Feedback, AnAcknowledgementRepeatsALostFfm) {
  send(16);
  sent();
  ack({.base = 1003, .arrived = {1004, 1006, 1015}, .judged = 3});
  EXPECT_THAT(sent(), ElementsAre(1003, 1005)) << "1007 is still waited for";
  EXPECT_EQ(count(Counter::kRetransmittedAck), 2u);
  pair.run_for(200_us);
  ack({.base = 1003, .arrived = {1004, 1006, 1015}, .judged = 3});
  EXPECT_THAT(sent(), IsEmpty()) << "an acknowledgement may be older than what was sent again";
}

TEST_F(Feedback, AJudgementReachesNoFurtherThanWhatHasArrived) {
  send(16);
  sent();
  ack({.base = 1003, .arrived = {1005}, .judged = 0xFFFF});
  EXPECT_THAT(sent(), ElementsAre(1003, 1004));
}

// --- aggregation by time, the limit, the stall ---

class HeldFeedback : public Feedback {
 protected:
  HeldFeedback() : Feedback(options()) {}
  static PairOptions options() {
    PairOptions options;
    options.recovery.aggregate_delay = 20_us;
    return options;
  }
};

TEST_F(HeldFeedback, RetransmissionsWaitForOthersToLeaveWithThem) {
  send(40);
  sent();
  ffm(0, 1003, 1039, {{1003, 1}});
  EXPECT_THAT(sent(), IsEmpty());
  pair.run_for(10_us);
  ffm(1, 1003, 1039, {{1003, 1}, {1010, 1}});
  EXPECT_EQ(count(Counter::kFfmPacketsPending), 1u);
  pair.run_for(9_us);
  EXPECT_THAT(sent(), IsEmpty());
  pair.run_for(1_us);
  EXPECT_THAT(sent(), ElementsAre(1003, 1010));
  EXPECT_THAT(operations(), ElementsAre(0, 0, 1));
  EXPECT_EQ(count(Counter::kRetransmitHeld), 1u);
}

TEST_F(HeldFeedback, AFullBatchDoesNotWait) {
  send(40);
  sent();
  ffm(0, 1003, 1039, {{1003, 16}});
  EXPECT_EQ(sent().size(), 16u);
}

class LimitedFeedback : public Feedback {
 protected:
  LimitedFeedback() : Feedback(options()) {}
  static PairOptions options() {
    PairOptions options;
    options.recovery.resend_window = 3;
    return options;
  }
};

TEST_F(LimitedFeedback, SoManyRetransmissionsAreUnderWayAndNoMore) {
  send(40);
  sent();
  ffm(0, 1003, 1039, {{1003, 8}});
  EXPECT_THAT(sent(), ElementsAre(1003, 1004, 1005));
  EXPECT_EQ(count(Counter::kResendWindowFull), 1u);
  ack({.base = 1005});
  EXPECT_THAT(sent(), ElementsAre(1006, 1007));
  ack({.base = 1040});
  EXPECT_EQ(pair.poll(0).size(), 1u);
}

// Packets behind it wait for its acknowledgement, which a standard peer sends only on request (random world 39334).
TEST_F(LimitedFeedback, TheLastThatMayLeaveRequestsAnAcknowledgement) {
  send(40);
  sent();
  ffm(0, 1003, 1039, {{1003, 8}});
  pair.round();
  ASSERT_EQ(pair.wire.size(), 3u);
  EXPECT_FALSE(pair.wire[1].bth().ack_request);
  EXPECT_EQ(pair.wire[2].psn(), 1005u);
  EXPECT_TRUE(pair.wire[2].bth().ack_request);
}

TEST_F(Feedback, AWindowThatStandsStillWhileLaterPacketsArriveIsAStall) {
  send(16);
  ack({.base = 1003, .arrived = {1004, 1005, 1006, 1015}});
  sent();
  pair.run_for(999_us);
  sent();  // the probe has done its work: the last packet
  EXPECT_EQ(count(Counter::kSendStalls), 0u);
  pair.run_for(1_us);
  EXPECT_EQ(count(Counter::kSendStalls), 1u);
  EXPECT_THAT(sent(), ElementsAre(1003));  // the peer may have the others in its socket
  EXPECT_EQ(count(Counter::kRetransmittedAck), 1u);
  EXPECT_THAT(pair.story({"send_stalled", "entry psn=1003"}),
              "0 send_stalled base=1003 arrived_end=1016\n"
              "0 entry psn=1003 sent-unacked -> suspected-lost\n"
              "0 entry psn=1003 suspected-lost -> retransmit-pending\n"
              "0 entry psn=1003 retransmit-pending -> retransmitted-unacked\n");
  // It has arrived, and they had not before it, though they left long before.
  const Instant left = pair.now;
  pair.run_for(10_us);
  ack({.base = 1007, .arrived = {1015}, .echo = left});
  EXPECT_THAT(sent(), ElementsAre(1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014));
  EXPECT_EQ(count(Counter::kRetransmittedAck), 9u);
}

// The acknowledgement was true when a packet arrived that left hardly later: its own delay in sending or processing
// proves nothing.
TEST_F(Feedback, HolesThatAreOldOnlyInAProcessWithoutACoreAreNotRepaired) {
  send(16);
  const Instant left = pair.now;
  sent();
  pair.run_for(999_us);
  sent();
  ack({.base = 1003, .arrived = {1004, 1005, 1006, 1015}, .echo = left});
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(count(Counter::kRetransmittedAck), 0u);
}

// Random world 2171: a receiver that was not ready for 100 ms got half of the refused packet's retransmissions twice.
TEST_F(Feedback, ARefusedPacketLeavesOnceForEachRnrNak) {
  send(4);
  sent();
  for (int refusals = 0; refusals < 20; ++refusals) {
    ack({.base = 1000, .arrived = {1001, 1002}, .syndrome = std::uint8_t{wire::kSyndromeRnr + 1}});
    pair.run_for(100_us);
    EXPECT_THAT(sent(), ElementsAre(1000));
  }
  EXPECT_EQ(count(Counter::kSendStalls), 0u);
}

// The peer is gone: timeouts probe it, at growing intervals, two packets each.
TEST_F(Feedback, AStallIsNotRepeatedWhileNothingIsHeard) {
  send(16);
  ack({.base = 1003, .arrived = {1004, 1005, 1006, 1015}});
  pair.run_for(1_ms);
  ASSERT_EQ(count(Counter::kSendStalls), 1u);
  sent();
  pair.run_for(100_ms);
  EXPECT_EQ(count(Counter::kSendStalls), 1u);
  EXPECT_LE(sent().size(), 2 * (count(Counter::kLocalAckTimeout) + 1)) << "and one probe";
  ack({.base = 1003, .arrived = {1004, 1005, 1006, 1015}});
  pair.run_for(1_ms);
  EXPECT_EQ(count(Counter::kSendStalls), 2u);
}

}  // namespace
}  // namespace brdma::test
