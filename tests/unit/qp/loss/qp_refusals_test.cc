// qp/loss/refusals.h: what a requester does when the peer refuses a packet.
#include <gtest/gtest.h>

#include "qp/loss/refusals.h"
#include "support/sender_parts.h"

namespace brdma::qp {
namespace {

constexpr std::uint8_t kNotReady = wire::kSyndromeRnr | 14;  // 1.28 ms (IBTA table 45)

struct Refused : test::SenderParts {
  Refusals refusals() { return Refusals{{environment, identity, scoreboard, rtt, loss, rnr, sent(), references()}}; }
  Refusals::Rnr not_ready(Sequence at) { return refusals().on_not_ready(kNotReady, at, now); }
  void sequence_nak(Sequence at) { refusals().on_sequence_nak(at, now); }
  void all_leave_again() {
    for (Sequence at = scoreboard.base(); at < scoreboard.next(); ++at)
      if (pending(at)) leaves_again(at);
  }
};

// --- RNR ---

TEST(Refusals, AnRnrNakBeginsAWait) {
  Refused parts;
  parts.write(4);
  EXPECT_EQ(parts.not_ready(2), Refusals::Rnr::kWaits);
  EXPECT_EQ(parts.rnr.until(), parts.now + 1_ms + 280_us);
  EXPECT_EQ(parts.count(Counter::kReceivedRnr), 1U);
}

TEST(Refusals, OneThatComesWhileItWaitsChangesNothing) {
  Refused parts;
  parts.write(4);
  (void)parts.not_ready(2);
  const auto until = parts.rnr.until();
  parts.pass(100_us);
  EXPECT_EQ(parts.not_ready(2), Refusals::Rnr::kRepeated);
  EXPECT_EQ(parts.rnr.until(), until);
  EXPECT_EQ(parts.count(Counter::kReceivedRnr), 1U);
}

TEST(Refusals, MoreInARowThanTheQueuePairAllowsFail) {
  Refused parts;
  parts.identity.attributes.rnr_retry = 1;
  parts.write(4);
  EXPECT_EQ(parts.not_ready(2), Refusals::Rnr::kWaits);
  parts.rnr.on_wait_over();
  EXPECT_EQ(parts.not_ready(2), Refusals::Rnr::kTooMany);
  EXPECT_EQ(parts.count(Counter::kRnrRetryExceeded), 1U);
}

TEST(Refusals, OnlyAPeerInBitmapModeIsTriedWithFewPackets) {
  for (const bool bitmap : {true, false}) {
    Refused parts;
    parts.identity.bitmap_agreed = bitmap;
    parts.write(4);
    (void)parts.not_ready(2);
    EXPECT_EQ(parts.rnr.is_recovering(), bitmap);
  }
}

// --- sequence NAK ---

TEST(Refusals, ASequenceNakGoesBack) {
  Refused parts;
  parts.write(4);
  parts.sequence_nak(1);
  EXPECT_FALSE(parts.pending(0));
  for (Sequence at = 1; at < 4; ++at) EXPECT_TRUE(parts.pending(at)) << at;
  EXPECT_EQ(parts.count(Counter::kPacketSeqErr), 1U);
}

TEST(Refusals, ARepeatedOneOnlyAfterARoundTrip) {
  Refused parts;
  parts.rtt.sample(1_ms, parts.now);
  parts.write(4);
  parts.sequence_nak(1);
  parts.all_leave_again();
  parts.pass(1_ms - 1_us);
  parts.sequence_nak(1);
  EXPECT_EQ(parts.scoreboard.pending(), 0U);
  parts.pass(1_us + 1_us);
  parts.sequence_nak(1);
  EXPECT_EQ(parts.scoreboard.pending(), 3U);
}

TEST(Refusals, OneForALaterPacketAtOnce) {
  Refused parts;
  parts.rtt.sample(1_ms, parts.now);
  parts.write(4);
  parts.sequence_nak(1);
  parts.all_leave_again();
  parts.pass(1_us);
  parts.sequence_nak(2);
  EXPECT_EQ(parts.scoreboard.pending(), 2U);
}

TEST(Refusals, NothingLeavesWhileTheReceiverIsNotReady) {
  Refused parts;
  parts.write(4);
  (void)parts.not_ready(2);
  parts.sequence_nak(1);
  EXPECT_EQ(parts.scoreboard.pending(), 0U);
}

// --- fatal ---

TEST(Refusals, EachNakHasItsStatus) {
  Refused parts;
  parts.write(1);
  const auto status = [&](std::uint8_t syndrome) { return parts.refusals().status(syndrome, 0); };
  EXPECT_EQ(status(wire::kSyndromeNakInvalidRequest), CompletionStatus::kRemoteInvalidRequest);
  EXPECT_EQ(status(wire::kSyndromeNakRemoteAccess), CompletionStatus::kRemoteAccessError);
  EXPECT_EQ(status(wire::kSyndromeNakRemoteOperation), CompletionStatus::kRemoteOperationError);
  EXPECT_EQ(status(wire::kSyndromeNakRemoteOperation + 1), CompletionStatus::kBadResponse) << "not of RC";
}

// The peer could not fetch what our packet named: because our memory is gone.
TEST(Refusals, OurOwnMemoryThatIsGoneIsOurError) {
  Refused parts;
  parts.queue = SendQueue{{.send_wr_max = 4, .send_sge_max = 4}};
  ASSERT_TRUE(parts.queue.push(
      {.sges = std::vector<Sge>{{.address = 4096, .length = 64}}, .opcode = WorkOpcode::kRdmaWrite}, 64));
  parts.write(1);
  EXPECT_EQ(parts.refusals().status(wire::kSyndromeNakRemoteOperation, 0), CompletionStatus::kRemoteOperationError);
  parts.messages.front().by_reference = 64;
  EXPECT_EQ(parts.refusals().status(wire::kSyndromeNakRemoteOperation, 0), CompletionStatus::kLocalProtectionError);
}

TEST(Refusals, OnlyTheRestOfAReadMayBeRefusedLate) {
  Refused parts;
  parts.write(1);
  parts.read(2);
  parts.acknowledge(1);
  const Refusals refusals = parts.refusals();
  EXPECT_TRUE(refusals.refuses_rest(wire::kSyndromeNakRemoteAccess, 2));
  EXPECT_FALSE(refusals.refuses_rest(wire::kSyndromeNakRemoteAccess, 1)) << "that response has come";
  EXPECT_FALSE(refusals.refuses_rest(wire::kSyndromeNakRemoteAccess, 0)) << "no READ";
  EXPECT_FALSE(refusals.refuses_rest(wire::kSyndromeNakSequence, 2));
  EXPECT_FALSE(refusals.refuses_rest(kNotReady, 2));
}

}  // namespace
}  // namespace brdma::qp
