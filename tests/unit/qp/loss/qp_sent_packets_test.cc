// qp/loss/sent_packets.h: what becomes of each packet in flight, and who counts it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/sender_parts.h"

namespace brdma::test {
namespace {

using bitmap::EntryState;

// The window measures: a loss was reported to it, where nothing else was.
bool was_told(const congestion::DelayWindow& window) { return window.allocated_bytes() != 0; }

// --- arrived ---

TEST(SentPackets, APacketIsAcknowledgedOnce) {
  SenderParts parts;
  parts.write(4);
  const qp::Message& message = parts.messages.front();
  EXPECT_TRUE(parts.sent().acknowledge(1, message, parts.now));
  EXPECT_FALSE(parts.sent().acknowledge(1, message, parts.now));
  EXPECT_EQ(parts.scoreboard.flight(), (qp::Flight{.packets = 3, .bytes = 3 * 1024, .pipe = 3 * 1024}));
}

TEST(SentPackets, AResponseIsNoDataInFlight) {
  SenderParts parts;
  parts.read(4);
  EXPECT_TRUE(parts.sent().acknowledge(0, parts.messages.front(), parts.now));
  EXPECT_EQ(parts.packets_in_flight(), 1u) << "the request";
  parts.sent().request_arrived(parts.messages.front());
  EXPECT_EQ(parts.packets_in_flight(), 0u);
  EXPECT_TRUE(parts.messages.front().request_received);
}

TEST(SentPackets, ARequestLeavesTheCountInFlightOnce) {
  SenderParts parts;
  parts.write(1);
  parts.read(4);
  parts.sent().request_arrived(parts.messages.back());
  parts.sent().request_arrived(parts.messages.back());
  EXPECT_EQ(parts.packets_in_flight(), 1u) << "the WRITE";
}

TEST(SentPackets, WhatIsExecutedIsAcknowledgedUpToTheBoundaryAlone) {
  SenderParts parts;
  parts.write(100);
  parts.read(8);
  parts.write(2);
  parts.report(3);
  parts.sent().acknowledge_before(109, parts.now);
  EXPECT_EQ(parts.scoreboard.flight().packets, 1u);
  EXPECT_TRUE(parts.scoreboard.is_acked(99));
  EXPECT_TRUE(parts.scoreboard.is_acked(108));
  EXPECT_FALSE(parts.scoreboard.is_acked(109));
  EXPECT_FALSE(parts.scoreboard.is_acked(100)) << "a response: it has to come itself";
  EXPECT_TRUE(parts.messages[1].request_received);
}

TEST(SentPackets, ARunTakesThePayloadOfItsMessages) {
  SenderParts parts;
  parts.write(3);
  parts.write(4);
  parts.sent().acknowledge_run(0, 5, parts.now);
  EXPECT_EQ(parts.scoreboard.flight(), (qp::Flight{.packets = 2, .bytes = 2 * 1024, .pipe = 2 * 1024}));
  parts.scoreboard.set_cumulative(5, parts.now);
  parts.scoreboard.advance(parts.now);
  parts.sent().acknowledge_run(5, 7, parts.now);
  EXPECT_EQ(parts.scoreboard.flight(), qp::Flight{});
}

// A packet that was overtaken teaches by how much: less than that is no loss of a retransmission.
TEST(SentPackets, ALatePacketTeachesHowFarPacketsOvertake) {
  SenderParts parts;
  parts.write(1);
  parts.pass(8_us);
  parts.write(1);
  parts.report(1);
  ASSERT_FALSE(parts.loss);
  parts.report(0);
  ASSERT_TRUE(parts.loss);
  EXPECT_NEAR(static_cast<double>(parts.loss->overtaking.tolerance().ns()), 10'000, 128) << "8 us and a quarter";
}

TEST(SentPackets, OnlyAPacketSentOnceTeaches) {
  SenderParts parts;
  parts.write(1);
  parts.sent().retransmit(0, parts.messages.front(), Counter::kRetransmittedFfm, parts.now);
  parts.leaves_again(0);
  parts.pass(8_us);
  parts.write(1);
  parts.report(1);
  parts.report(0);
  EXPECT_FALSE(parts.loss);
}

TEST(SentPackets, ASenderThatJudgesKeepsItsOwnRecordOfLatePackets) {
  SenderParts parts;
  parts.recovery.mode = RecoveryMode::kSelective;
  parts.judge = std::make_unique<qp::SenderJudge>(parts.recovery);
  parts.write(1);
  parts.pass(8_us);
  parts.write(1);
  parts.report(1);
  parts.acknowledge(0);
  EXPECT_FALSE(parts.loss);
}

TEST(SentPackets, AReopenedPacketIsInFlightAgain) {
  SenderParts parts;
  parts.write(2);
  parts.acknowledge(1);
  parts.sent().reopen(1, parts.messages.front(), parts.now);
  EXPECT_EQ(parts.scoreboard.flight(), (qp::Flight{.packets = 2, .bytes = 2048, .pipe = 2048}));
  parts.read(2);
  parts.acknowledge(3);
  parts.sent().reopen(3, parts.messages.back(), parts.now);
  EXPECT_FALSE(parts.scoreboard.is_acked(3));
  EXPECT_EQ(parts.scoreboard.flight().bytes, 2048u) << "a response is no data of ours";
}

// --- lost ---

TEST(SentPackets, OnlyAPacketInFlightForTheFirstTimeIsSuspected) {
  SenderParts parts;
  parts.write(2);
  parts.acknowledge(1);
  parts.sent().suspect(0, parts.now);
  parts.sent().suspect(1, parts.now);
  EXPECT_EQ(parts.scoreboard.state(0), EntryState::kSuspectedLost);
  EXPECT_EQ(parts.scoreboard.state(1), EntryState::kAcked);
}

TEST(SentPackets, ALostPacketIsCountedOnceByItsCause) {
  SenderParts parts;
  parts.write(2);
  EXPECT_TRUE(parts.sent().retransmit(0, parts.messages.front(), Counter::kRetransmittedFfm, parts.now));
  EXPECT_FALSE(parts.sent().retransmit(0, parts.messages.front(), Counter::kRetransmittedFfm, parts.now));
  EXPECT_EQ(parts.count(Counter::kRetransmittedFfm), 1u);
  EXPECT_EQ(parts.scoreboard.flight().pipe, 1024u);
  parts.leaves_again(0);
  EXPECT_EQ(parts.scoreboard.state(0), EntryState::kRetransmittedUnacked);
  EXPECT_EQ(parts.scoreboard.flight().pipe, 2048u);
}

// Losses that later arrivals show are a sign of a queue. Timeouts and probes are not; a switch counts its own drops.
TEST(SentPackets, OnlyLossesShownByArrivalsReachTheWindow) {
  for (const Counter cause : {Counter::kRetransmittedFfm, Counter::kRetransmittedAck, Counter::kRetransmittedTimeout,
                              Counter::kRetransmittedProbe, Counter::kRetransmittedEdn}) {
    SenderParts parts;
    parts.write(2);
    parts.sent().retransmit(0, parts.messages.front(), cause, parts.now);
    const bool by_arrivals = cause == Counter::kRetransmittedFfm || cause == Counter::kRetransmittedAck;
    EXPECT_EQ(was_told(parts.congestion), by_arrivals) << static_cast<int>(cause);
    EXPECT_FALSE(was_told(parts.responses.congestion()));
  }
}

TEST(SentPackets, ALostRequestMakesTheNextOnesLeaveTwice) {
  SenderParts parts;
  parts.read(4);
  EXPECT_EQ(parts.responses.copies_left(), 0);
  parts.sent().retransmit_range(2, 3, Counter::kRetransmittedProbe, parts.now);
  EXPECT_EQ(parts.responses.copies_left(), qp::ResponseAdmission::kCopiesAfterLoss);
  for (qp::Sequence at = 0; at < 4; ++at) EXPECT_TRUE(parts.pending(at)) << "one request brings all";
}

TEST(SentPackets, ALostResponseIsNoLostRequest) {
  SenderParts parts;
  parts.read(4);
  parts.sent().request_arrived(parts.messages.front());
  parts.sent().retransmit(2, parts.messages.front(), Counter::kRetransmittedFfm, parts.now);
  EXPECT_EQ(parts.responses.copies_left(), 0);
  EXPECT_TRUE(was_told(parts.responses.congestion()));
  EXPECT_FALSE(was_told(parts.congestion)) << "it took the return path";
}

TEST(SentPackets, ARangeIsCutToWhatIsInFlight) {
  SenderParts parts;
  parts.write(4);
  parts.acknowledge(2);
  EXPECT_EQ(parts.sent().retransmit_range(0, 100, Counter::kRetransmittedNak, parts.now), 3u);
  EXPECT_EQ(parts.scoreboard.pending(), 3u);
}

TEST(SentPackets, ALossCountsAgainstThePathThatTheLastCopyTook) {
  SenderParts parts;
  parts.paths = std::make_unique<qp::SendPaths>(2, parts.recovery.spraying);
  parts.write(2, 1);
  parts.sent().retransmit(0, parts.messages.front(), Counter::kRetransmittedFfm, parts.now);
  EXPECT_EQ(parts.paths->status(1).in_flight, 1u);
  EXPECT_EQ(parts.paths->status(0).in_flight, 0u);
  parts.acknowledge(1);
  EXPECT_EQ(parts.paths->status(1).in_flight, 0u);
}

// --- for a probe ---

TEST(SentPackets, TheOldestAndTheNewestOpenPacket) {
  SenderParts parts;
  parts.write(5);
  parts.acknowledge(0);
  parts.acknowledge(4);
  EXPECT_EQ(parts.sent().oldest_open(), 1u);
  EXPECT_EQ(parts.sent().newest_open(), 3u);
}

TEST(SentPackets, ARepeatedPacketStaysAcknowledged) {
  SenderParts parts;
  parts.write(2);
  parts.acknowledge(0);
  parts.acknowledge(1);
  for (int i = 0; i < 2; ++i) parts.sent().repeat(1, Counter::kRetransmittedProbe);
  EXPECT_EQ(parts.count(Counter::kRetransmittedProbe), 1u) << "once until it leaves";
  EXPECT_EQ(parts.scoreboard.pending(), 1u);
  const qp::Flight before = parts.scoreboard.flight();
  parts.pass(1_ms);
  parts.leaves_again(1);
  EXPECT_TRUE(parts.scoreboard.is_acked(1));
  EXPECT_EQ(parts.scoreboard.flight(), before);
  EXPECT_EQ(parts.scoreboard.retransmitted(), 0u);
  EXPECT_EQ(parts.scoreboard.pending(), 0u);
  EXPECT_EQ(parts.scoreboard.entry(1).transmissions, 2u) << "its acknowledgement is no RTT sample";
}

}  // namespace
}  // namespace brdma::test
