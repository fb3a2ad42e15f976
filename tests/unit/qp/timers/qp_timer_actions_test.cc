// qp/timers/timer_actions.h: what leaves again when a timer fires.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <variant>
#include <vector>

#include "qp/timers/timer_actions.h"
#include "support/sender_parts.h"

namespace brdma::qp {
namespace {

using bitmap::EntryState;
using test::SenderParts;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kWindow = 64 * 1024;                              // of congestion, at first
constexpr Duration kRetry = Duration::from_ns(std::int64_t{4096} << 16);  // four of the attribute: 268 ms

std::vector<Sequence> in_state(const SenderParts& parts, EntryState state) {
  std::vector<Sequence> found;
  for (Sequence at = parts.scoreboard.base(); at < parts.scoreboard.next(); ++at) {
    if (parts.scoreboard.state(at) == state) found.push_back(at);
  }
  return found;
}
std::vector<Sequence> pending(const SenderParts& parts) { return in_state(parts, EntryState::kRetransmitPending); }
// Those that leave next, acknowledged ones included.
std::vector<Sequence> leaving(const SenderParts& parts) {
  std::vector<Sequence> found;
  const Scoreboard& board = parts.scoreboard;
  for (Sequence at = board.next_pending(board.base()); at < board.next(); at = board.next_pending(at + 1))
    found.push_back(at);
  return found;
}
std::vector<Sequence> suspected(const SenderParts& parts) { return in_state(parts, EntryState::kSuspectedLost); }
std::vector<Sequence> untouched(const SenderParts& parts) { return in_state(parts, EntryState::kSentUnacked); }

// Packets that have waited too long, as the inquiry about the path counts them.
std::uint32_t timed_out(const SenderParts& parts) {
  if (!parts.signals || !parts.signals->inquiry) return 0;
  WanConfig config;
  for (config.inquiry_timeouts = 1; parts.signals->inquiry->is_due(config, parts.now);) ++config.inquiry_timeouts;
  return config.inquiry_timeouts;
}
// Retransmissions that may exceed the congestion window.
unsigned granted(SenderParts& parts) {
  unsigned packets = 0;
  for (; parts.timers.has_grant(); ++packets) parts.timers.use_grant();
  return packets;
}
void retransmit(SenderParts& parts, Sequence sequence) {
  const SentPackets sent = parts.sent();
  EXPECT_TRUE(sent.retransmit(sequence, sent.message_of(sequence), Counter::kRetransmittedRequest, parts.now));
}
void follow_irn(SenderParts& parts) {
  parts.recovery.mode = RecoveryMode::kSelective;
  parts.judge = std::make_unique<SenderJudge>(parts.recovery);
  parts.judge->follow_irn({.low = 100_us, .high = 320_us});
}
void response(SenderParts& parts, Sequence sequence) {
  wire::Packet packet;
  packet.op = wire::RcOp::kReadResponseMiddle;
  packet.bth.psn = parts.scoreboard.psn_of(sequence);
  packet.bitmap = true;
  const Instant sent = parts.scoreboard.sent_at(sequence, parts.now);
  parts.responses.on_response(SenderParts::kMtu, true);
  parts.acknowledge(sequence);
  parts.sent().request_arrived(parts.sent().message_of(sequence));
  parts.gaps().on_response(packet, sequence, sent, parts.now);
}
// The peer has executed all requests before `boundary`.
void executed(SenderParts& parts, Sequence boundary) { parts.scoreboard.set_cumulative(boundary, parts.now); }

void time_out(SenderParts& parts) { parts.actions().fire_retransmission(parts.now); }
void probe(SenderParts& parts) { parts.actions().fire_probe(parts.now); }
void stall(SenderParts& parts) { parts.actions().fire_stall(parts.now); }

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

// --- RNR ---

TEST(TimerActions, AfterAnRnrWaitAllThatWasRefusedLeavesAgain) {
  SenderParts parts;
  parts.write(4);
  parts.timers.on_timeout(parts.now);
  parts.acknowledge(0);
  executed(parts, 1);
  parts.report(2);
  ASSERT_TRUE(parts.rnr.on_nak(1, 7, false, parts.now + 10_ms));
  parts.pass(10_ms);
  parts.actions().end_rnr_wait(parts.now);
  EXPECT_FALSE(parts.rnr.waiting());
  EXPECT_THAT(pending(parts), ElementsAre(1, 3));
  EXPECT_EQ(parts.count(Counter::kRetransmittedNak), 2U);
  EXPECT_EQ(parts.timers.progress(), parts.now);
  EXPECT_EQ(parts.timers.armed(), parts.now);
  EXPECT_EQ(parts.timers.activity(), parts.now);
  EXPECT_EQ(parts.timers.backoff(), 1) << "an RNR NAK is no progress";
}

// The base stood still because the peer was not ready: only now can it move.
TEST(TimerActions, AStallCountsFromTheEndOfAnRnrWait) {
  SenderParts parts;
  parts.write(4);
  parts.report(2);
  ASSERT_TRUE(parts.rnr.on_nak(0, 7, true, parts.now + 10_ms));
  parts.pass(10_ms);
  parts.actions().end_rnr_wait(parts.now);
  EXPECT_EQ(parts.scoreboard.cumulative_moved(), parts.now);
}

TEST(TimerActions, AfterAnRnrWaitAReadThatArrivedIsNotRequestedAgain) {
  SenderParts parts;
  parts.read(2);
  parts.sent().request_arrived(parts.messages.front());
  parts.write(1);
  parts.read(2);
  ASSERT_TRUE(parts.rnr.on_nak(2, 7, false, parts.now + 10_ms));
  parts.actions().end_rnr_wait(parts.now + 10_ms);
  EXPECT_THAT(pending(parts), ElementsAre(2, 3, 4));
  EXPECT_THAT(untouched(parts), ElementsAre(0, 1));
}

// --- our own pause ---

TEST(TimerActions, AnOwnPauseIsNoSilenceOfThePeer) {
  SenderParts parts;
  const Instant sent = parts.now;
  parts.write(1);
  const Instant due = sent + 5_ms;
  parts.actions().note_own_pause(due, due + 50_ms - kTick);
  EXPECT_EQ(parts.timers.progress(), sent) << "a busy machine is late by less";
  parts.actions().note_own_pause(due, due + 50_ms);
  EXPECT_EQ(parts.timers.progress(), sent + 50_ms);
  parts.actions().note_own_pause(due, due + 10_s);
  EXPECT_EQ(parts.timers.progress(), sent + 10'050_ms);
}

TEST(TimerActions, AfterAnOwnPauseOneRetryIsLeft) {
  SenderParts parts;
  const Instant due = parts.now + 2_s;
  parts.write(1);
  parts.now = due + 200_ms;
  EXPECT_LT(parts.deadlines().retry_limit(), parts.now);
  parts.actions().note_own_pause(due, parts.now);
  EXPECT_EQ(parts.deadlines().retry_limit(), parts.now + kRetry);
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
