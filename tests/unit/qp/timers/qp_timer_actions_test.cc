// qp/timers/timer_actions.h: what leaves again when a timer fires.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <variant>
#include <vector>

#include "timer_actions_sender.h"

namespace brdma::qp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// --- RTO ---

TEST(TimerActions, ATimeoutResendsTheFirstAndTheLastAndSuspectsTheOthers) {
  SenderParts parts;
  parts.write(6);
  parts.pass(5_ms);
  time_out(parts);
  EXPECT_THAT(pending(parts), ElementsAre(0, 5));
  EXPECT_THAT(suspected(parts), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(parts.count(Counter::kLocalAckTimeout), 1U);
  EXPECT_EQ(parts.count(Counter::kRetransmittedTimeout), 2U);
  EXPECT_EQ(parts.timers.backoff(), 1);
  EXPECT_EQ(parts.timers.armed(), parts.now);
  EXPECT_EQ(parts.congestion.bytes(), kWindow) << "it may have been spurious";
  EXPECT_TRUE(parts.timers.has_undecided());
  EXPECT_EQ(granted(parts), 2U);
}

TEST(TimerActions, ATimeoutResendsWhatIsUnacknowledged) {
  SenderParts parts;
  parts.write(6);
  parts.acknowledge(0);
  parts.acknowledge(2);
  parts.acknowledge(5);
  time_out(parts);
  EXPECT_THAT(pending(parts), ElementsAre(1, 4));
  EXPECT_THAT(suspected(parts), ElementsAre(3));
}

TEST(TimerActions, ATimeoutOfOnePacketResendsItOnce) {
  SenderParts parts;
  parts.write(1);
  time_out(parts);
  EXPECT_THAT(pending(parts), ElementsAre(0));
  EXPECT_EQ(parts.count(Counter::kRetransmittedTimeout), 1U);
}

// The last acknowledgement was lost: a duplicate brings another.
TEST(TimerActions, IfAllHaveArrivedATimeoutResendsTheLast) {
  SenderParts parts;
  parts.write(3);
  for (Sequence at = 0; at < 3; ++at) parts.acknowledge(at);
  time_out(parts);
  EXPECT_THAT(leaving(parts), ElementsAre(2));
  EXPECT_TRUE(parts.scoreboard.is_acked(2));
  EXPECT_EQ(parts.count(Counter::kRetransmittedTimeout), 1U);
  EXPECT_EQ(granted(parts), 1U);
  EXPECT_EQ(timed_out(parts), 1U);
}

TEST(TimerActions, ATimeoutRequestsAWholeReadAgain) {
  SenderParts parts;
  parts.read(3);
  time_out(parts);
  EXPECT_THAT(pending(parts), ElementsAre(0, 1, 2));
}

// In one silence each packet times out once; after that only those that the timer resent.
TEST(TimerActions, EachPacketOfASilenceCountsOnceAsTimedOut) {
  SenderParts parts;
  parts.write(6);
  time_out(parts);
  EXPECT_EQ(timed_out(parts), 6U);
  parts.leaves_again(0);
  parts.leaves_again(5);
  parts.pass(10_ms);
  time_out(parts);
  EXPECT_THAT(pending(parts), ElementsAre(0, 5));
  EXPECT_EQ(parts.timers.backoff(), 2);
  EXPECT_EQ(timed_out(parts), 8U);
}

TEST(TimerActions, APacketThatIsAboutToLeaveAgainDoesNotTimeOut) {
  SenderParts parts;
  parts.write(6);
  retransmit(parts, 2);
  time_out(parts);
  EXPECT_THAT(pending(parts), ElementsAre(0, 2, 5));
  EXPECT_EQ(timed_out(parts), 5U);
}

// Path 1 has lost three packets, and one that left later on path 0 arrives.
TEST(TimerActions, ASilenceOfAllIsNoEvidenceAgainstAPath) {
  for (const bool all_silent : {false, true}) {
    SenderParts parts;
    parts.paths = std::make_unique<SendPaths>(2, Spraying::kRoundRobin);
    parts.write(3, 1);
    for (Sequence at = 0; at < 3; ++at) retransmit(parts, at);
    parts.pass(100_us);
    const Instant sent = parts.now;
    parts.write(2, 0);
    parts.pass(5_ms);
    if (all_silent) time_out(parts);
    (void)parts.paths->echoed({.path = 0, .back = 1, .sent = sent, .round_trip = 5_ms, .one_way = 2_ms}, parts.now);
    const auto silent = parts.paths->set_aside_silent(250_us, parts.now);
    EXPECT_EQ(silent.has_value(), !all_silent);
  }
}

// Acknowledgements that would have widened it may have been lost.
TEST(TimerActions, AfterAnRnrNakATimeoutLetsMoreOut) {
  SenderParts parts;
  parts.write(8);
  ASSERT_TRUE(parts.rnr.on_nak(0, 7, true, parts.now));
  parts.rnr.on_wait_over();
  ASSERT_EQ(parts.rnr.end(), 1U);
  time_out(parts);
  EXPECT_EQ(parts.rnr.end(), 3U) << "two more";
}

TEST(TimerActions, TheOperatorIsToldOfALongSilence) {
  SenderParts parts;
  parts.write(1);
  parts.pass(99_ms);
  time_out(parts);
  EXPECT_EQ(parts.count(Counter::kStallsBegun), 0U);
  parts.pass(1_ms);
  time_out(parts);
  EXPECT_EQ(parts.count(Counter::kStallsBegun), 1U);
}

TEST(TimerActions, AStandardPeerIsSentAllAgain) {
  SenderParts parts;
  parts.identity.bitmap_agreed = false;
  parts.write(4);
  time_out(parts);
  EXPECT_THAT(pending(parts), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(parts.count(Counter::kRetransmittedTimeout), 4U);
  EXPECT_FALSE(parts.timers.has_undecided()) << "nothing is left in doubt";
  EXPECT_EQ(granted(parts), 0U);
  EXPECT_EQ(timed_out(parts), 0U);
}

TEST(TimerActions, IrnResendsTheOldestAndWhatIsMissingBeforeAnArrivedOne) {
  SenderParts parts;
  follow_irn(parts);
  parts.write(7);
  parts.report(2);
  parts.report(4);
  time_out(parts);
  EXPECT_THAT(pending(parts), ElementsAre(0, 1, 3));
  EXPECT_THAT(untouched(parts), ElementsAre(5, 6));
  EXPECT_EQ(parts.count(Counter::kRetransmittedTimeout), 3U);
  EXPECT_FALSE(parts.timers.has_undecided());
  EXPECT_EQ(granted(parts), 1U);
  EXPECT_EQ(timed_out(parts), 0U);
}

TEST(TimerActions, IrnResendsOneIfNothingHasArrived) {
  SenderParts parts;
  follow_irn(parts);
  parts.write(4);
  time_out(parts);
  EXPECT_THAT(pending(parts), ElementsAre(0));
  EXPECT_THAT(untouched(parts), ElementsAre(1, 2, 3));
}

TEST(TimerActions, IrnResendsTheBaseIfAllHaveArrived) {
  SenderParts parts;
  follow_irn(parts);
  parts.write(3);
  for (Sequence at = 0; at < 3; ++at) parts.acknowledge(at);
  time_out(parts);
  EXPECT_THAT(leaving(parts), ElementsAre(0));
  EXPECT_TRUE(parts.scoreboard.is_acked(0));
}

// --- TLP ---

TEST(TimerActions, AProbeResendsTheLast) {
  SenderParts parts;
  parts.write(4);
  parts.pass(2_ms);
  probe(parts);
  EXPECT_THAT(pending(parts), ElementsAre(3));
  EXPECT_THAT(untouched(parts), ElementsAre(0, 1, 2));
  EXPECT_EQ(parts.count(Counter::kRetransmittedProbe), 1U);
  EXPECT_EQ(parts.count(Counter::kLocalAckTimeout), 0U);
  EXPECT_TRUE(parts.timers.probe_sent());
  EXPECT_EQ(parts.timers.activity(), parts.now);
  EXPECT_EQ(granted(parts), 1U);
}

TEST(TimerActions, AProbeResendsTheLastThatIsUnacknowledged) {
  SenderParts parts;
  parts.write(4);
  parts.acknowledge(3);
  probe(parts);
  EXPECT_THAT(pending(parts), ElementsAre(2));
}

TEST(TimerActions, IfAllHaveArrivedAProbeResendsTheLast) {
  SenderParts parts;
  parts.write(2);
  parts.acknowledge(0);
  parts.acknowledge(1);
  probe(parts);
  EXPECT_THAT(leaving(parts), ElementsAre(1));
  EXPECT_EQ(parts.count(Counter::kRetransmittedProbe), 1U);
}

TEST(TimerActions, WhatHasArrivedIsStillAcknowledgedAfterAProbe) {
  SenderParts parts;
  parts.write(2);
  parts.acknowledge(0);
  parts.acknowledge(1);
  probe(parts);
  EXPECT_EQ(parts.packets_in_flight(), 0U);
  parts.leaves_again(1);
  EXPECT_EQ(parts.packets_in_flight(), 0U);
  EXPECT_TRUE(parts.scoreboard.is_acked(1));
  parts.write(1);
  parts.pass(5_ms);
  time_out(parts);
  EXPECT_THAT(leaving(parts), ElementsAre(2));
}

// It may be lost as well, and everything waits for it.
TEST(TimerActions, AProbeRepeatsARetransmissionAtTheBase) {
  SenderParts parts;
  parts.write(4);
  retransmit(parts, 0);
  parts.leaves_again(0);
  probe(parts);
  EXPECT_THAT(pending(parts), ElementsAre(0, 3));
  EXPECT_EQ(parts.count(Counter::kRetransmittedProbe), 2U);
  EXPECT_EQ(granted(parts), 2U);
}

TEST(TimerActions, AProbeRepeatsNoOtherRetransmission) {
  SenderParts parts;
  parts.write(4);
  retransmit(parts, 1);
  parts.leaves_again(1);
  probe(parts);
  EXPECT_THAT(pending(parts), ElementsAre(3));
  EXPECT_EQ(granted(parts), 1U);
}

TEST(TimerActions, AProbeForAReadWithoutResponsesIsTheWholeRequest) {
  SenderParts parts;
  parts.read(3);
  probe(parts);
  EXPECT_THAT(pending(parts), ElementsAre(0, 1, 2));
  EXPECT_EQ(parts.count(Counter::kRetransmittedProbe), 3U);
}

TEST(TimerActions, AProbeForAReadThatIsAnsweredIsTheLastResponse) {
  SenderParts parts;
  parts.read(4);
  response(parts, 0);
  probe(parts);
  EXPECT_THAT(pending(parts), ElementsAre(3));
  EXPECT_EQ(parts.count(Counter::kRetransmittedProbe), 1U);
}

// Nothing waits for its execution, so nothing blocks.
TEST(TimerActions, AProbeWhereOnlyResponsesAreMissing) {
  SenderParts parts;
  parts.read(2);
  executed(parts, 2);
  parts.sent().request_arrived(parts.messages.front());
  probe(parts);
  EXPECT_THAT(pending(parts), ElementsAre(0, 1));
  EXPECT_EQ(granted(parts), 1U);
}

TEST(TimerActions, AProbeRequestsMissingResponsesToo) {
  SenderParts parts;
  parts.read(5);
  response(parts, 0);
  response(parts, 2);
  probe(parts);
  EXPECT_THAT(pending(parts), ElementsAre(1, 4));
  EXPECT_EQ(parts.count(Counter::kRetransmittedFfm), 1U);
  EXPECT_EQ(parts.count(Counter::kRetransmittedProbe), 1U);
}

// It needs requests in order, and acknowledges no duplicate.
TEST(TimerActions, AStandardPeerIsProbedWithTheFirstMissingResponse) {
  SenderParts parts;
  parts.identity.bitmap_agreed = false;
  parts.write(1);
  parts.read(2);
  retransmit(parts, 0);
  parts.leaves_again(0);
  probe(parts);
  EXPECT_THAT(pending(parts), ElementsAre(1, 2)) << "the WRITE is not sent again";
  EXPECT_EQ(granted(parts), 1U);
}

TEST(TimerActions, AStandardPeerIsNotProbedWhereNoResponseIsMissing) {
  SenderParts parts;
  parts.identity.bitmap_agreed = false;
  parts.write(2);
  probe(parts);
  EXPECT_THAT(pending(parts), IsEmpty());
  EXPECT_EQ(parts.count(Counter::kRetransmittedProbe), 0U);
}

// --- stall ---

TEST(TimerActions, AStallSuspectsTheHolesAndResendsTheFirst) {
  SenderParts parts;
  parts.write(8);
  parts.report(3);
  parts.report(5);
  parts.pass(1_ms);
  stall(parts);
  EXPECT_THAT(pending(parts), ElementsAre(0));
  EXPECT_THAT(suspected(parts), ElementsAre(1, 2, 4));
  EXPECT_THAT(untouched(parts), ElementsAre(6, 7)) << "nothing later has arrived";
  EXPECT_EQ(parts.count(Counter::kSendStalls), 1U);
  EXPECT_EQ(parts.count(Counter::kRetransmittedAck), 1U);
  EXPECT_EQ(parts.scoreboard.cumulative_moved(), parts.now) << "it is counted again";
  EXPECT_FALSE(parts.timers.acknowledged_since_stall());
}

// They are not the peer's to acknowledge: it has executed that READ.
TEST(TimerActions, AStallDoesNotConcernMissingResponses) {
  SenderParts parts;
  parts.read(2);
  parts.write(4);
  executed(parts, 2);
  parts.report(4);
  stall(parts);
  EXPECT_THAT(pending(parts), ElementsAre(2));
  EXPECT_THAT(suspected(parts), ElementsAre(3));
  EXPECT_THAT(untouched(parts), ElementsAre(0, 1, 5));
}

TEST(TimerActions, AStallWithoutAHoleResendsNothing) {
  SenderParts parts;
  parts.write(3);
  parts.report(0);
  parts.report(1);
  stall(parts);
  EXPECT_THAT(pending(parts), IsEmpty());
  EXPECT_THAT(untouched(parts), ElementsAre(2));
}

// --- traced ---

struct Watcher : trace::Sink {
  void record(Instant, std::uint32_t qpn, const trace::Event& event) override {
    EXPECT_EQ(qpn, 17U);
    if (const auto* timeout = std::get_if<trace::TimeoutFired>(&event)) timeouts.push_back(*timeout);
    if (const auto* stalled = std::get_if<trace::SendStalled>(&event)) stalls.push_back(*stalled);
  }
  std::vector<trace::TimeoutFired> timeouts;
  std::vector<trace::SendStalled> stalls;
};

TEST(TimerActions, AreTraced) {
  Watcher watcher;
  SenderParts parts;
  parts.environment.telemetry.sink = &watcher;
  parts.write(4);
  parts.report(2);
  stall(parts);
  ASSERT_EQ(watcher.stalls.size(), 1U);
  EXPECT_EQ(watcher.stalls[0].base, Psn{1000});
  EXPECT_EQ(watcher.stalls[0].arrived_end, Psn{1003});
  probe(parts);
  time_out(parts);
  ASSERT_EQ(watcher.timeouts.size(), 2U);
  EXPECT_TRUE(watcher.timeouts[0].probe);
  EXPECT_FALSE(watcher.timeouts[1].probe);
  EXPECT_EQ(watcher.timeouts[1].base, Psn{1000});
}

}  // namespace
}  // namespace brdma::qp
