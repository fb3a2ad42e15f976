// qp/loss/reported_arrivals.h: what an acknowledgement says of packets beyond its base.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>

#include "support/sender_parts.h"
#include "wire/control.h"
#include "wire/headers.h"

namespace brdma::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// An acknowledgement whose base is the scoreboard's, and whose bits are these packets'.
class Acknowledgement {
 public:
  explicit Acknowledgement(SenderParts& parts, std::initializer_list<std::uint32_t> arrived = {}) : parts_(parts) {
    ack.base = parts.scoreboard.base_psn();
    ack.highest = ack.base - 1;
    for (const std::uint32_t bit : arrived) {
      bits_[bit / 8] |= static_cast<std::byte>(0x80u >> (bit % 8));
      ack.bit_count = std::max(ack.bit_count, static_cast<std::uint16_t>((bit / 32 + 1) * 32));
      ack.highest = ack.base + bit;
    }
    ack.bits = {bits_, static_cast<std::size_t>(ack.bit_count / 8)};
  }
  Acknowledgement& echo(Instant sent, std::uint8_t path = 0) {
    ack.echo_valid = true;
    ack.ts_echo = wire::timestamp_of(sent);
    ack.path = path;
    return *this;
  }
  Acknowledgement& range(std::uint32_t start, std::uint32_t length) {
    wire::emit_ack_range({.start = Psn{start}, .length = length}, ranges_);
    ack.range_count = 1;
    ack.ranges = ranges_;
    return *this;
  }
  void arrives() { parts_.arrivals().on_acknowledgement(ack, parts_.scoreboard.base(), parts_.now); }
  wire::BitmapAck ack;

 private:
  SenderParts& parts_;
  std::byte bits_[512] = {};
  std::byte ranges_[8] = {};
};

TEST(ReportedArrivals, TheBitsAcknowledgeWithoutMovingTheBase) {
  SenderParts parts;
  parts.write(100);
  Acknowledgement(parts, {3, 70}).arrives();
  EXPECT_TRUE(parts.scoreboard.is_acked(3));
  EXPECT_TRUE(parts.scoreboard.is_acked(70));
  EXPECT_EQ(parts.scoreboard.unacked(), 98u);
  EXPECT_EQ(parts.scoreboard.arrived_end(), 71u);
  EXPECT_EQ(parts.scoreboard.base(), 0u);
}

TEST(ReportedArrivals, BitsOfPacketsThatWereNotSentAreIgnored) {
  SenderParts parts;
  parts.write(4);
  Acknowledgement(parts, {2, 9}).arrives();
  EXPECT_EQ(parts.scoreboard.unacked(), 3u);
  EXPECT_EQ(parts.scoreboard.arrived_end(), 3u);
}

TEST(ReportedArrivals, OnlyNewsIsProgress) {
  SenderParts parts;
  parts.write(8);
  Acknowledgement(parts, {3}).arrives();
  const Instant first = parts.timers.progress();
  parts.pass(1_ms);
  Acknowledgement(parts, {3}).arrives();
  EXPECT_EQ(parts.timers.progress(), first);
  Acknowledgement(parts, {3, 4}).arrives();
  EXPECT_EQ(parts.timers.progress(), parts.now);
}

// A receive is missing there: the peer lives, and must not exceed the retry limit.
TEST(ReportedArrivals, AnyAnswerIsProgressWhereAllHaveArrived) {
  SenderParts parts;
  parts.write(2);
  Acknowledgement(parts, {0, 1}).arrives();
  parts.pass(1_ms);
  Acknowledgement(parts, {0, 1}).arrives();
  EXPECT_EQ(parts.timers.progress(), parts.now);
}

TEST(ReportedArrivals, AnArrivedRequestStillWaitsForItsResponses) {
  SenderParts parts;
  parts.write(1);
  parts.read(4);
  Acknowledgement(parts, {1}).arrives();
  EXPECT_TRUE(parts.messages.back().request_received);
  EXPECT_FALSE(parts.scoreboard.is_acked(1));
}

TEST(ReportedArrivals, RangesReachBeyondTheBits) {
  SenderParts parts;
  parts.write(100);
  Acknowledgement(parts, {1}).range(1050, 100).arrives();
  EXPECT_TRUE(parts.scoreboard.is_acked(50));
  EXPECT_TRUE(parts.scoreboard.is_acked(99)) << "cut at what was sent";
  EXPECT_FALSE(parts.scoreboard.is_acked(49));
  EXPECT_EQ(parts.scoreboard.unacked(), 49u);
}

// --- missing ---

TEST(ReportedArrivals, WhatTheReceiverHasJudgedLostIsRetransmittedOnce) {
  SenderParts parts;
  parts.write(8);
  Acknowledgement all(parts, {4});
  all.ack.judged = 2;
  all.arrives();
  EXPECT_THAT(parts.all_pending(), ElementsAre(0, 1));
  parts.leaves_again(0);
  parts.leaves_again(1);
  parts.pass(1_us);
  all.arrives();
  EXPECT_THAT(parts.all_pending(), IsEmpty()) << "the judgement is older than the retransmission";
}

TEST(ReportedArrivals, AnUnjudgedHoleWaitsForTheReceiver) {
  SenderParts parts;
  parts.write(8);
  Acknowledgement(parts, {4}).arrives();
  EXPECT_THAT(parts.all_pending(), IsEmpty());
}

TEST(ReportedArrivals, AHoleThatIsOlderThanAStallIsRetransmittedAndHasTimedOut) {
  SenderParts parts;
  parts.write(8);
  const Duration stall = parts.lengths().stall();
  parts.pass(stall - 1_us);
  Acknowledgement(parts, {4}).arrives();
  EXPECT_THAT(parts.all_pending(), IsEmpty());
  parts.pass(2_us);
  Acknowledgement(parts, {4}).arrives();
  EXPECT_THAT(parts.all_pending(), ElementsAre(0, 1, 2, 3));
  ASSERT_TRUE(parts.signals && parts.signals->inquiry) << "the path's links may be asked";
}

// By the packet that caused the acknowledgement: a late acknowledgement says nothing.
TEST(ReportedArrivals, AHoleAgesByTheEchoedPacket) {
  SenderParts parts;
  parts.write(8);
  const Instant sent = parts.now;
  parts.pass(parts.lengths().stall() * 2);
  Acknowledgement(parts, {4}).echo(sent).arrives();
  EXPECT_THAT(parts.all_pending(), IsEmpty());
}

TEST(ReportedArrivals, ARetransmissionThatWasOvertakenIsLostAgain) {
  SenderParts parts;
  parts.write(4);
  parts.sent().retransmit(1, parts.messages.front(), Counter::kRetransmittedFfm, parts.now);
  parts.leaves_again(1);
  parts.pass(parts.recovery.resend_interval_min - 1_us);
  const Instant later = parts.now;
  parts.write(4);
  Acknowledgement(parts, {0, 4}).echo(later).arrives();
  EXPECT_THAT(parts.all_pending(), IsEmpty()) << "too early";
  parts.pass(1_us);
  Acknowledgement(parts, {0, 5}).echo(later).arrives();
  EXPECT_THAT(parts.all_pending(), ElementsAre(1));
}

// No bit can report the base. If its receiver does not count it as lost either, it may be there and wait for a receive.
TEST(ReportedArrivals, ABaseThatWasOvertakenIsLostAgainOnlyIfTheReceiverHasJudgedIt) {
  for (const bool several : {false, true}) {
    SenderParts parts;
    if (several) parts.paths = std::make_unique<qp::SendPaths>(2, parts.recovery.spraying);
    parts.write(4);
    parts.sent().retransmit(0, parts.messages.front(), Counter::kRetransmittedFfm, parts.now);
    parts.leaves_again(0);
    parts.pass(parts.recovery.age_max + 1_us);
    const Instant later = parts.now;
    parts.write(4);
    Acknowledgement(parts, {1, 4}).echo(later).arrives();
    EXPECT_THAT(parts.all_pending(), IsEmpty());
    Acknowledgement judged(parts, {1, 5});
    judged.ack.judged = 1;
    judged.echo(later).arrives();
    EXPECT_THAT(parts.all_pending(), ElementsAre(0));
  }
}

// A READ request waits for no receive, and it is one packet: its PSNs leave again together (random world 547).
TEST(ReportedArrivals, AReadRequestThatWasOvertakenIsLostAgainAsAWhole) {
  SenderParts parts;
  parts.read(2);
  parts.sent().retransmit_range(0, 2, Counter::kRetransmittedTimeout, parts.now);
  parts.leaves_again(0);
  parts.leaves_again(1);
  parts.pass(parts.recovery.age_max + 1_us);
  const Instant later = parts.now;
  parts.write(2);
  Acknowledgement(parts, {2}).echo(later).arrives();
  EXPECT_THAT(parts.all_pending(), ElementsAre(0, 1));
}

TEST(ReportedArrivals, AFirstTransmissionThatWasOvertakenWaitsForTheReceiver) {
  SenderParts parts;
  parts.write(4);
  parts.pass(100_us);
  const Instant later = parts.now;
  parts.sent().retransmit(0, parts.messages.front(), Counter::kRetransmittedFfm, parts.now);
  parts.leaves_again(0);
  parts.pass(100_us);
  parts.write(1);
  Acknowledgement(parts, {4}).echo(later).arrives();
  EXPECT_FALSE(parts.pending(1));
}

// With several paths only the echoed packet's order counts: on the same path at once, on others behind their skew.
TEST(ReportedArrivals, OnSeveralPathsTheOrderOfOnePathDecides) {
  SenderParts parts;
  parts.paths = std::make_unique<qp::SendPaths>(2, parts.recovery.spraying);
  parts.write(4, 1);
  parts.sent().retransmit(1, parts.messages.front(), Counter::kRetransmittedFfm, parts.now);
  parts.leaves_again(1, 1);
  parts.pass(parts.recovery.age_max + 1_us);
  const Instant later = parts.now;
  parts.write(4, 1);
  Acknowledgement(parts, {0, 4}).arrives();
  EXPECT_THAT(parts.all_pending(), IsEmpty()) << "no echo";
  Acknowledgement(parts, {0, 4}).echo(later, 1).arrives();
  EXPECT_THAT(parts.all_pending(), ElementsAre(1));
}

TEST(ReportedArrivals, ASenderThatJudgesDoesNotTakeTheReceiversJudgement) {
  SenderParts parts;
  parts.recovery.mode = RecoveryMode::kWan;
  parts.judge = std::make_unique<qp::SenderJudge>(parts.recovery);
  parts.write(8);
  parts.pass(1_s);
  Acknowledgement all(parts, {4});
  all.ack.judged = 2;
  all.arrives();
  EXPECT_THAT(parts.all_pending(), IsEmpty());
  parts.recovery.mode = RecoveryMode::kWanFeedback;
  all.arrives();
  EXPECT_THAT(parts.all_pending(), ElementsAre(0, 1)) << "both judge";
}

// --- taken back ---

TEST(ReportedArrivals, ARefusingReceiverTakesBackWhatItsBitsNoLongerShow) {
  SenderParts parts;
  parts.write(6);
  parts.read(2);
  Acknowledgement(parts, {2, 3, 6}).arrives();
  ASSERT_TRUE(parts.messages.back().request_received);
  const Acknowledgement refusal(parts, {3});
  parts.arrivals().take_back(refusal.ack, 0, parts.now);
  EXPECT_FALSE(parts.scoreboard.is_acked(2));
  EXPECT_TRUE(parts.scoreboard.is_acked(3));
  EXPECT_FALSE(parts.messages.back().request_received);
  Acknowledgement(parts, {2, 3}).arrives();
  EXPECT_TRUE(parts.scoreboard.is_acked(2)) << "reported again";
}

}  // namespace
}  // namespace brdma::test
