// The requester's recovery, one rule a test. Side 1 is a whole engine if its reactions matter, and paused if the test
// builds its packets by hand.
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <cerrno>

#include "qp/loss/sender_judge.h"
#include "qp/state/management.h"
#include "support/hand_played.h"

namespace brdma::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ByHand : public testing::Test, public HandPlayed {};

// An application that does not know the path has chosen 4 ms for one of 10.
TEST(LongPath, ATimeoutIsNoShorterThanTheRoundTrip) {
  PairOptions options;
  options.one_way_delay = 5_ms;
  options.timeout = 10;
  HandPlayed hand{options};
  hand.send(4);
  const Instant begun = hand.pair.now;
  hand.pair.run_for(10_ms);
  hand.ack({.base = 1004, .echo = begun});
  const std::uint64_t before = hand.count(Counter::kLocalAckTimeout);
  hand.send(4);
  hand.pair.run_for(19_ms);
  EXPECT_EQ(hand.count(Counter::kLocalAckTimeout), before);
  hand.pair.run_for(2_ms);
  EXPECT_EQ(hand.count(Counter::kLocalAckTimeout), before + 1);
}

// Half the circle away: behind it, modulo 2^24, is before the sent packets.
TEST_F(ByHand, AnAcknowledgementHalfTheCircleAwayIsRefused) {
  send(4);
  for (const std::uint32_t base : {1005u, 1004u + 4096, 1000u + 0x7F'FFFF}) {
    const std::uint64_t before = pair.side[0].count(DropReason::kBadControl);
    ack({.base = base});
    EXPECT_EQ(pair.side[0].count(DropReason::kBadControl), before + 1) << base;
    ack({.base = base, .arrived = {base + 5}});
    EXPECT_EQ(pair.side[0].count(DropReason::kBadControl), before + 2) << base;
  }
  EXPECT_TRUE(pair.poll(0).empty());
  ack({.base = 1004});
  EXPECT_EQ(pair.poll(0).size(), 1u);
}

// RDMA-CM's timeout, 2.1 s: it sets how long an outage may last, not how long after it the path is found again.
TEST(LongTimeout, OutlastsAnOutageAndFindsThePathSoonAfter) {
  PairOptions options;
  options.one_way_delay = 5_us;
  options.timeout = 19;
  options.retry_count = 7;
  HandPlayed hand{options};
  hand.send(4);
  hand.pair.run_for(2_s);
  const std::uint64_t before = hand.count(Counter::kLocalAckTimeout);
  hand.pair.run_for(2_s);
  EXPECT_EQ(hand.count(Counter::kLocalAckTimeout), before + 10) << "each 200 ms";
  const Duration once = Duration::from_ns(std::int64_t{4096} << 19);
  hand.pair.run_for(once * 8 - 4_s - 10_ms);
  EXPECT_TRUE(hand.pair.poll(0).empty());
  hand.pair.run_for(20_ms);
  const auto completions = hand.pair.poll(0);
  ASSERT_FALSE(completions.empty());
  EXPECT_EQ(completions[0].status, CompletionStatus::kRetryExceeded) << "after eight of them, not thirty-two";
}

// IRN, the baseline: the oldest again, after the short time if few packets are in flight.
TEST(Irn, ATimeoutIsShortWhereFewPacketsAreInFlight) {
  PairOptions options;
  options.mode[0] = options.mode[1] = RecoveryMode::kSelective;
  HandPlayed hand{options};
  hand.pair.side[0].qp->manage().follow_irn({.low = 100_us, .high = 320_us});
  hand.send(4);
  hand.sent();
  hand.pair.run_for(319_us);
  EXPECT_TRUE(hand.sent().empty());
  hand.pair.run_for(2_us);
  EXPECT_THAT(hand.sent(), ElementsAre(1000));
  hand.ack({.base = 1000, .arrived = {1002}});
  EXPECT_THAT(hand.sent(), ElementsAre(1001)) << "1000 was sent again";
  hand.ack({.base = 1003});
  hand.pair.run_for(99_us);
  EXPECT_TRUE(hand.sent().empty());
  hand.pair.run_for(2_us);
  EXPECT_THAT(hand.sent(), ElementsAre(1003));
}

TEST_F(ByHand, AnAcknowledgementOfWhatWasNeverSentIsRefused) {
  send(4);
  ack({.base = 1005});
  ack({.base = 1000, .arrived = {1004}});
  EXPECT_EQ(pair.side[0].count(DropReason::kBadControl), 2u);
  ack({.base = 1002});
  ack({.base = 1001});
  EXPECT_EQ(pair.side[0].count(DropReason::kStaleResponse), 1u);
  aeth(1004, wire::kSyndromeAck);
  aeth(999, wire::kSyndromeAck);
  EXPECT_EQ(pair.side[0].count(DropReason::kStaleResponse), 3u);
  EXPECT_TRUE(pair.poll(0).empty());
}

TEST_F(ByHand, BitsBeyondTheBaseCompleteNothing) {
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 1024, 1)).ok());
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 1024, 2)).ok());
  pair.round();
  ack({.base = 1000, .arrived = {1001}});
  EXPECT_TRUE(pair.poll(0).empty());
  ack({.base = 1001});
  EXPECT_EQ(pair.poll(0).size(), 1u) << "1001 arrived, but was not executed";
  ack({.base = 1002});
  EXPECT_EQ(pair.poll(0).size(), 1u);
}

// A peer may report packets in ranges alone, and no more of it in its next acknowledgement.
TEST_F(ByHand, PacketsReportedInRangesAloneAreAcknowledgedOnce) {
  send(60);
  const auto sender = [this] { return pair.side[0].qp->requester().snapshot(); };
  ack({.base = 1000, .ranges = {{Psn{1040}, 5}}});
  EXPECT_EQ(sender().unacked, 55u);
  ack({.base = 1010});
  ack({.base = 1050});
  EXPECT_EQ(sender().unacked, 10u);
  ack({.base = 1060});
  EXPECT_EQ(sender().flight_packets, 0u);
  EXPECT_EQ(sender().pipe_bytes, 0u);
}

TEST_F(ByHand, ThePeersCreditIsNeverExceededAndZeroIsProbed) {
  ack({.base = 1000, .credit_packets = 4, .credit_bytes = 1u << 20});
  send(16);
  EXPECT_EQ(sent().size(), 4u);
  EXPECT_EQ(count(Counter::kCreditStalls), 1u);
  ack({.base = 1002, .credit_packets = 4, .credit_bytes = 3 * 1024});
  EXPECT_EQ(sent().size(), 1u) << "two more packets, but bytes for one";
  ack({.base = 1005, .credit_packets = 0, .credit_bytes = 0});
  EXPECT_TRUE(sent().empty());
  pair.run_for(30_ms);
  EXPECT_THAT(sent(), testing::SizeIs(testing::Ge(1u))) << "no acknowledgement can come, so a packet asks";
}

TEST_F(ByHand, TheProbeResendsTheTailAndAsksForAnAcknowledgement) {
  send(4);
  sent();
  pair.run_for(1999_us);  // no RTT sample yet
  EXPECT_TRUE(pair.wire.empty());
  pair.run_for(2_us);
  ASSERT_EQ(pair.wire.size(), 1u);
  EXPECT_EQ(pair.wire[0].psn(), 1003u);
  EXPECT_TRUE(pair.wire[0].bth().ack_request);
  EXPECT_EQ(count(Counter::kRetransmittedProbe), 1u);
  pair.run_for(500_us);
  EXPECT_EQ(pair.wire.size(), 1u) << "one probe a silence";
}

TEST_F(ByHand, TheTimeoutDoublesUpToTheAttributeAndSilenceIsDeath) {
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 1024, 1)).ok());
  auto quiet = pair.write(0, 0, 1024, 2);
  quiet.flags = 0;
  ASSERT_TRUE(pair.post(0, quiet).ok());
  const Instant begun = pair.now;
  pair.round();
  ASSERT_TRUE(pair.run_until_idle(10_s));
  const auto done = pair.poll(0);
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].status, CompletionStatus::kRetryExceeded);
  EXPECT_EQ(done[1].status, CompletionStatus::kFlushed) << "unsignaled, but it failed";
  EXPECT_EQ(pair.state(0), QpState::kErr);
  const Duration limit = Duration::from_ns((4096ll << 14) * 8 * 4);  // each timeout at its longest
  EXPECT_EQ((pair.now - begun).ns(), limit.ns());
  EXPECT_EQ(count(Counter::kRetryExceeded), 1u);
  EXPECT_GE(count(Counter::kLocalAckTimeout), 8u);
}

// Only the two that the timeout sends at once, and the congestion window is restored.
TEST_F(ByHand, ATimeoutThatWasNotNeededHasNoConsequence) {
  send(16);
  const Instant sent_at = pair.now;
  sent();
  const auto window = pair.side[0].qp->requester().snapshot().congestion_bytes;
  pair.run_for(6_ms);
  EXPECT_EQ(count(Counter::kLocalAckTimeout), 1u);
  EXPECT_THAT(sent(), ElementsAre(1015, 1000, 1015)) << "probe, timeout";
  ack({.base = 1008, .echo = sent_at});  // caused by a packet that left before: it was only late
  ack({.base = 1008, .arrived = {1015}, .echo = pair.now - 100_us});
  EXPECT_TRUE(sent().empty()) << "the receiver will say what is missing";
  EXPECT_EQ(pair.side[0].qp->requester().snapshot().congestion_bytes, window);
}

// Nothing sent before it has arrived.
TEST_F(ByHand, ATimeoutThatWasNeededHalvesTheCongestionWindow) {
  send(16);
  sent();
  const auto window = pair.side[0].qp->requester().snapshot().congestion_bytes;
  pair.run_for(6_ms);
  sent();
  ack({.base = 1001, .arrived = {1015}, .echo = pair.now - 100_us});  // the timeout's packets
  EXPECT_EQ(sent().size(), 14u);
  EXPECT_EQ(pair.side[0].qp->requester().snapshot().congestion_bytes, window / 2);
}

// 1001 is lost twice. Packets sent after its second transmission reveal it, those sent with it do not.
TEST_F(ByHand, ARetransmissionThatSomethingOvertookIsSentAgain) {
  send(4);
  sent();
  pair.run_for(60_us);
  ffm(0, 1001, 1003, {{1001, 1}});
  EXPECT_THAT(sent(), ElementsAre(1001));
  const Instant again = pair.now;
  pair.run_for(20_us);
  send(2, 2);
  sent();
  const Instant later = pair.now;
  pair.run_for(60_us);
  ack({.base = 1001, .arrived = {1002, 1003}, .echo = again, .judged = 1});
  EXPECT_TRUE(sent().empty());
  ack({.base = 1001, .arrived = {1002, 1003, 1004}, .echo = later, .judged = 1});
  EXPECT_THAT(sent(), ElementsAre(1001));
  EXPECT_EQ(count(Counter::kRetransmittedAck), 1u);
  ack({.base = 1001, .arrived = {1002, 1003, 1004, 1005}, .echo = later, .judged = 1});
  EXPECT_TRUE(sent().empty()) << "nothing sent after the third copy";
}

// 1002 came 40 us of sending late: a retransmission gets a quarter more than that.
TEST_F(ByHand, ARetransmissionMayBeAsLateAsOthersWere) {
  send(3);
  pair.run_for(40_us);
  send(1, 2);
  const Instant fourth = pair.now;
  pair.run_for(60_us);
  ack({.base = 1001, .arrived = {1003}, .echo = fourth});
  ffm(0, 1001, 1003, {{1001, 1}});
  sent();
  const Instant again = pair.now;
  ack({.base = 1001, .arrived = {1002, 1003}});
  pair.run_for(again + 45_us - pair.now);
  send(1, 3);
  pair.run_for(again + 55_us - pair.now);
  send(1, 4);
  sent();
  pair.run_for(20_us);
  ack({.base = 1001, .arrived = {1002, 1003, 1004}, .echo = again + 45_us, .judged = 1});
  EXPECT_TRUE(sent().empty());
  ack({.base = 1001, .arrived = {1002, 1003, 1004, 1005}, .echo = again + 55_us, .judged = 1});
  EXPECT_THAT(sent(), ElementsAre(1001));
}

// A queue pair's record of reordering takes memory only as long as it has content.
TEST_F(ByHand, TheOutOfOrderRecordIsKeptUntilItExpires) {
  const auto bytes = [&] { return qp::memory_use(*pair.side[0].qp).recovery; };
  const std::size_t at_rest = bytes();
  send(3);
  pair.run_for(40_us);
  send(1, 2);
  ack({.base = 1001, .arrived = {1003}, .echo = pair.now});
  EXPECT_EQ(bytes(), at_rest) << "nothing came late, nothing was sent again";
  ack({.base = 1004});
  EXPECT_GT(bytes(), at_rest);
  pair.run_for(100_ms);
  send(1, 3);
  ack({.base = 1005});
  EXPECT_GT(bytes(), at_rest);
  pair.run_for(3_s);
  send(1, 4);
  ack({.base = 1006});
  EXPECT_EQ(bytes(), at_rest);
}

TEST_F(ByHand, NaksBecomeTheStatusOfTheirWorkRequest) {
  const std::pair<std::uint8_t, CompletionStatus> cases[] = {
      {wire::kSyndromeNakInvalidRequest, CompletionStatus::kRemoteInvalidRequest},
      {wire::kSyndromeNakRemoteAccess, CompletionStatus::kRemoteAccessError},
      {wire::kSyndromeNakRemoteOperation, CompletionStatus::kRemoteOperationError}};
  for (const auto& [syndrome, status] : cases) {
    for (const bool bitmap : {true, false}) {
      HandPlayed hand;
      for (std::uint64_t n = 0; n < 3; ++n) ASSERT_TRUE(hand.pair.post(0, hand.pair.write(0, 0, 1024, n)).ok());
      hand.pair.round();
      if (bitmap) {
        hand.ack({.base = 1001, .syndrome = syndrome});
      } else {
        hand.aeth(1001, syndrome);
      }
      const auto done = hand.pair.poll(0);
      ASSERT_EQ(done.size(), 3u);
      EXPECT_EQ(done[0].status, CompletionStatus::kSuccess);
      EXPECT_EQ(done[1].status, status);
      EXPECT_EQ(done[2].status, CompletionStatus::kFlushed);
      EXPECT_EQ(hand.pair.state(0), QpState::kErr);
    }
  }
}

// --- receiver not ready ---

TEST(ReceiverNotReady, IsWaitedForAndThenEverythingIsTaken) {
  for (const RecoveryMode mode : {RecoveryMode::kBitmap, RecoveryMode::kStandard, RecoveryMode::kGoBackN}) {
    PairOptions options;
    options.mode[0] = options.mode[1] = mode;
    options.min_rnr_timer = 14;  // 1.28 ms
    options.recovery.rnr_hold = Duration{};
    TwoEngines pair{options};
    pair.fill(0, 1);
    for (std::uint64_t n = 0; n < 4; ++n) {
      ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, n * 3000, 3000, n)).ok());
    }
    pair.run_for(1_ms);
    EXPECT_EQ(pair.side[0].count(Counter::kReceivedRnr), 1u);
    EXPECT_TRUE(pair.poll(0).empty());
    pair.wire.clear();
    pair.run_for(100_us);
    EXPECT_EQ(pair.sent_by(0, [](const Sent& s) { return s.data(); }), 0u) << "nothing leaves during the wait";
    for (std::uint64_t n = 0; n < 4; ++n) ASSERT_TRUE(pair.post_receive(1, n * 3000, 3000, n).ok());
    ASSERT_TRUE(pair.run_until_idle());
    EXPECT_EQ(pair.poll(0).size(), 4u);
    EXPECT_EQ(pair.poll_receives(1).size(), 4u);
    EXPECT_TRUE(pair.same(0, 12'000));
  }
}

TEST(ReceiverNotReady, RetriesAreCountedAndSevenIsForEver) {
  for (const unsigned retries : {0u, 3u, 7u}) {
    PairOptions options;
    options.rnr_retry = static_cast<std::uint8_t>(retries);
    options.min_rnr_timer = 1;
    TwoEngines pair{options};
    ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, 0, 100, 1)).ok());
    ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, 0, 100, 2)).ok());
    pair.run_for(200_ms);
    const auto done = pair.poll(0);
    if (retries == 7) {
      EXPECT_TRUE(done.empty());
      EXPECT_GT(pair.side[0].count(Counter::kReceivedRnr), 100u);
      continue;
    }
    ASSERT_EQ(done.size(), 2u) << retries;
    EXPECT_EQ(done[0].status, CompletionStatus::kRnrRetryExceeded);
    EXPECT_EQ(done[1].status, CompletionStatus::kFlushed);
    EXPECT_EQ(pair.side[0].count(Counter::kReceivedRnr), retries + 1u);
    EXPECT_EQ(pair.side[0].count(Counter::kRnrRetryExceeded), 1u);
  }
}

TEST_F(ByHand, WhatAReceiverThatWasNotReadyThrewAwayIsSentAgain) {
  for (std::uint64_t n = 0; n < 5; ++n) {
    ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, 0, 100, n)).ok());
  }
  pair.round();
  ack({.base = 1000, .arrived = {1001, 1002, 1004}});
  sent();
  ack({.base = 1001,
       .arrived = {1003},
       .syndrome = std::uint8_t{wire::kSyndromeRnr + 1}});  // of 1001, 1002 and 1004 no information
  EXPECT_TRUE(sent().empty());
  pair.run_for(11_us);
  EXPECT_THAT(sent(), ElementsAre(1001)) << "what was refused, and no more before it is taken";
  ack({.base = 1002, .arrived = {1003}});
  EXPECT_THAT(sent(), ElementsAre(1002)) << "of two";
  ack({.base = 1004});
  EXPECT_THAT(sent(), ElementsAre(1004));
}

// tests seed 5425 of sim_worlds: the refused packet was accepted, but that acknowledgement was lost.
TEST_F(ByHand, ATrialAfterARefusalEndsWithoutItsAcknowledgement) {
  for (const bool feedback : {true, false}) {
    HandPlayed hand;
    for (std::uint64_t n = 0; n < 5; ++n) {
      ASSERT_TRUE(hand.pair.post(0, hand.pair.request(0, WorkOpcode::kSend, 0, 100, n)).ok());
    }
    hand.pair.round();
    hand.ack({.base = 1001, .syndrome = std::uint8_t{wire::kSyndromeRnr + 1}});
    hand.sent();
    hand.pair.run_for(11_us);
    EXPECT_THAT(hand.sent(), ElementsAre(1001));
    if (feedback) {
      hand.ffm(0, 1003, 1004, {{1003, 1}});
    } else {
      hand.pair.run_for(20_ms);
    }
    EXPECT_THAT(hand.sent(), testing::Contains(1003));
  }
}

// --- standard peers ---

class Standard : public testing::Test, public HandPlayed {
 protected:
  static PairOptions standard() {
    PairOptions options;
    options.mode[0] = options.mode[1] = RecoveryMode::kStandard;
    return options;
  }
  Standard() : HandPlayed(standard()) {}
};

TEST_F(Standard, ASequenceNakGoesBackToItsPsn) {
  send(8);
  sent();
  aeth(1003, wire::kSyndromeNakSequence);
  EXPECT_THAT(sent(), ElementsAre(1003, 1004, 1005, 1006, 1007));
  aeth(1003, wire::kSyndromeNakSequence);
  EXPECT_TRUE(sent().empty()) << "just done";
  EXPECT_EQ(count(Counter::kPacketSeqErr), 2u);
  EXPECT_EQ(count(Counter::kRetransmittedNak), 5u);
}

// Kernel peers send each NAK once: an ignored one costs a timeout.
TEST_F(Standard, ASequenceNakForALaterPacketIsFollowedHoweverSoon) {
  send(8);
  sent();
  pair.run_for(2_ms);
  aeth(1000, wire::kSyndromeAck);  // a round trip of 2 ms
  aeth(1003, wire::kSyndromeNakSequence);
  EXPECT_THAT(sent(), ElementsAre(1003, 1004, 1005, 1006, 1007));
  pair.run_for(10_us);
  aeth(1005, wire::kSyndromeNakSequence);
  EXPECT_THAT(sent(), ElementsAre(1005, 1006, 1007));
  aeth(1004, wire::kSyndromeNakSequence);
  EXPECT_TRUE(sent().empty()) << "older than what is known";
}

TEST_F(Standard, TheTimeoutGoesBackToTheOldestRetryCountTimes) {
  const Instant begun = pair.now;
  send(3);
  sent();
  aeth(1000, wire::kSyndromeAck);
  pair.run_for(Duration::from_ns(4096ll << 14) + 1_us);
  EXPECT_THAT(sent(), ElementsAre(1001, 1002));
  ASSERT_TRUE(pair.run_until_idle(10_s));
  EXPECT_EQ(sent().size(), 6u * 2);
  EXPECT_EQ(pair.poll(0).at(0).status, CompletionStatus::kRetryExceeded);
  EXPECT_EQ((pair.now - begun).ns(), (4096ll << 14) * 8);
  EXPECT_EQ(count(Counter::kLocalAckTimeout), 7u);
}

TEST(StandardTimeout, ZeroNeverExpires) {
  PairOptions options;
  options.mode[0] = options.mode[1] = RecoveryMode::kStandard;
  options.timeout = 0;
  TwoEngines pair{options};
  pair.paused[1] = true;
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 100, 1)).ok());
  pair.round();
  EXPECT_FALSE(pair.side[0].engine->next_timeout().has_value());
}

TEST_F(Standard, LongMessagesRequestAcknowledgementsInMiddlePackets) {
  send(200);
  const auto packets = pair.wire;
  EXPECT_EQ(packets.size(), 64u) << "the window towards a peer that states no credit";
  std::size_t asked = 0;
  for (const Sent& each : packets) asked += each.bth().ack_request ? 1 : 0;
  EXPECT_EQ(asked, 4u);
  EXPECT_TRUE(packets.back().bth().ack_request);
}

TEST_F(ByHand, ARegionThatIsGoneAtRetransmissionIsALocalProtectionError) {
  send(16);
  ASSERT_TRUE(pair.side[0].engine->deregister_memory(pair.side[0].region).ok());
  ffm(0, 1003, 1012, {{1003, 1}});
  const auto done = pair.poll(0);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kLocalProtectionError);
}

// Responses of one READ come every 60 us; the missing one was due before the gap is seen.
TEST(ReadGaps, InTheMiddleOfAMessageAStallDecides) {
  TwoEngines pair;
  const std::uint32_t first = pair.options.first_psn[0];
  const auto is_answer = [](const Sent& sent) {
    return sent.from == 1 && sent.bth().opcode < wire::kTransportControl && !sent.data();
  };
  pair.extra_delay = [=](const Sent& sent) {
    return is_answer(sent) && sent.copy == 1 ? 60_us * static_cast<int>(sent.psn() - first) : Duration{};
  };
  pair.drop = [=](const Sent& sent) { return is_answer(sent) && sent.psn() == first + 2 && sent.copy == 1; };
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 0, 8192, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), 1u);
  EXPECT_EQ(pair.side[0].count(Counter::kGapsPromotedStall), 1u);
  EXPECT_EQ(pair.side[0].count(Counter::kGapsPromotedAge), 0u);
  EXPECT_EQ(pair.side[0].count(Counter::kReadsReissued), 1u);
}

}  // namespace
}  // namespace brdma::test
