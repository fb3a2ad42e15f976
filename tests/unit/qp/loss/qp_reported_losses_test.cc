// qp/loss/reported_losses.h: the sender's reaction to feedback (FFM) and to a switch's drop notification (EDN).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/sender_parts.h"
#include "wire/control.h"
#include "wire/headers.h"

namespace brdma::test {
namespace {

struct Sender : SenderParts {
  // An FFM that names one gap. `highest`: the receiver's newest packet.
  void ffm(std::uint32_t serial, std::uint32_t highest, std::uint32_t start, std::uint32_t length) {
    wire::emit_ffm_gap({.start = Psn{start}, .length = length, .cause = 1, .repeat = 0}, gap);
    wire::Ffm message;
    message.highest = Psn{highest};
    message.base = Psn{start};
    message.serial = serial;
    message.gap_count = 1;
    message.gaps = gap;
    losses().on_feedback(message, now);
  }
  std::uint32_t edn(std::uint32_t first, std::uint32_t last, Duration drain = {},
                    std::optional<Instant> transmitted = {}) {
    wire::Edn message{.first = Psn{first}, .last = Psn{last}};
    message.drain = drain;
    if (transmitted) message.timestamp = wire::timestamp_of(*transmitted);
    return losses().on_drops(message, now);
  }
  std::byte gap[wire::kFfmGapSize];
};

using testing::ElementsAre;
using testing::IsEmpty;

// --- feedback ---

TEST(ReportedLosses, ExactlyTheNamedPacketsBecomePending) {
  Sender sender;
  sender.write(8);
  sender.ffm(0, 1007, 1002, 2);
  EXPECT_THAT(sender.all_pending(), ElementsAre(2, 3));
  EXPECT_EQ(sender.count(Counter::kFfmReceived), 1u);
  EXPECT_EQ(sender.count(Counter::kFfmSuppressed), 0u);
}

TEST(ReportedLosses, AGapBeyondWhatWasSentIsCutAndCounted) {
  Sender sender;
  sender.write(4);
  sender.ffm(0, 1003, 1002, 5);
  EXPECT_THAT(sender.all_pending(), ElementsAre(2, 3));
  EXPECT_EQ(sender.count(Counter::kFfmPacketsUnsent), 3u);
}

TEST(ReportedLosses, AGapBeforeTheBaseIsCutAndCounted) {
  Sender sender;
  sender.write(4);
  sender.acknowledge(0);
  sender.scoreboard.set_cumulative(1, sender.now);
  sender.scoreboard.advance(sender.now);
  sender.ffm(0, 1003, 1000, 2);
  EXPECT_THAT(sender.all_pending(), ElementsAre(1));
  EXPECT_EQ(sender.count(Counter::kFfmPacketsAcked), 1u);
}

TEST(ReportedLosses, ARepeatedAndAnOldFfmChangeNothing) {
  Sender sender;
  sender.write(8);
  sender.ffm(100, 1007, 1002, 1);
  sender.ffm(100, 1007, 1003, 1);
  sender.ffm(36, 1007, 1004, 1);
  EXPECT_THAT(sender.all_pending(), ElementsAre(2));
  EXPECT_EQ(sender.count(Counter::kFfmDuplicates), 1u);
  EXPECT_EQ(sender.count(Counter::kFfmStale), 1u) << "64 numbers earlier";
  EXPECT_EQ(sender.count(Counter::kFfmSuppressed), 2u);
}

TEST(ReportedLosses, ARetransmissionIsNotRepeatedWithinTheQuietTime) {
  Sender sender;
  sender.write(8);
  sender.ffm(0, 1007, 1002, 1);
  sender.leaves_again(2);
  sender.pass(sender.recovery.resend_interval_min - 1_us);
  sender.ffm(1, 1007, 1002, 1);
  EXPECT_THAT(sender.all_pending(), IsEmpty());
  EXPECT_EQ(sender.count(Counter::kFfmPacketsRecent), 1u);
  sender.pass(sender.recovery.resend_interval_min * 4);
  sender.ffm(2, 1007, 1002, 1);
  EXPECT_THAT(sender.all_pending(), ElementsAre(2));
}

// On a longer path a round trip: the receiver cannot have seen it before.
TEST(ReportedLosses, TheQuietTimeIsARoundTripIfThatIsLonger) {
  Sender sender;
  sender.rtt.sample(10_ms, sender.now);
  sender.write(8);
  sender.ffm(0, 1000, 1002, 1);
  sender.leaves_again(2);
  sender.pass(9_ms);
  sender.ffm(1, 1000, 1002, 1);
  EXPECT_THAT(sender.all_pending(), IsEmpty());
}

// The receiver's newest packet left before the retransmission: the message says nothing of that.
TEST(ReportedLosses, AnFfmOlderThanTheRetransmissionDoesNotRepeatIt) {
  Sender sender;
  sender.write(8);
  sender.pass(100_us);
  sender.ffm(0, 1007, 1002, 1);
  sender.leaves_again(2);
  const Duration quiet = sender.recovery.resend_interval_min;
  sender.pass(quiet * 4 - 1_us);
  sender.ffm(1, 1007, 1002, 1);
  EXPECT_THAT(sender.all_pending(), IsEmpty());
  EXPECT_EQ(sender.count(Counter::kFfmPacketsRecent), 1u);
  sender.pass(1_us);
  sender.ffm(2, 1007, 1002, 1);
  EXPECT_THAT(sender.all_pending(), ElementsAre(2)) << "without new data the newest packet stays the same";
}

TEST(ReportedLosses, AfterASwitchsReportThatRefusalIsCountedApart) {
  Sender sender;
  sender.write(8);
  sender.pass(100_us);
  sender.edn(1002, 1002);
  qp::made(sender.signals).edn_applied_at = sender.now;
  sender.leaves_again(2);
  sender.pass(sender.recovery.resend_interval_min + 1_us);
  sender.ffm(0, 1007, 1002, 1);
  EXPECT_EQ(sender.count(Counter::kFfmPacketsEdn), 1u);
  EXPECT_THAT(sender.all_pending(), IsEmpty());
}

TEST(ReportedLosses, WhoseNewestPacketLeftTwiceSaysNothingOfTheOrder) {
  Sender sender;
  sender.write(8);
  sender.ffm(0, 1007, 1007, 1);
  sender.leaves_again(7);
  sender.pass(100_us);
  sender.ffm(1, 1007, 1002, 1);
  sender.leaves_again(2);
  sender.pass(sender.recovery.resend_interval_min);
  sender.ffm(2, 1007, 1002, 1);
  EXPECT_THAT(sender.all_pending(), ElementsAre(2));
}

TEST(ReportedLosses, ARequestThatHasArrivedIsNotRepeated) {
  Sender sender;
  sender.read(4);
  sender.ffm(0, 1003, 1000, 1);
  EXPECT_EQ(sender.all_pending().size(), 4u) << "one request brings all";
  Sender other;
  other.read(4);
  other.sent().request_arrived(other.messages.front());
  other.ffm(0, 1003, 1000, 1);
  EXPECT_THAT(other.all_pending(), IsEmpty());
  EXPECT_EQ(other.count(Counter::kFfmSuppressed), 1u);
}

TEST(ReportedLosses, TheFirstPendingPacketsWaitToFillABatch) {
  Sender sender;
  sender.recovery.aggregate_delay = 10_us;
  sender.write(8);
  sender.ffm(0, 1007, 1002, 1);
  EXPECT_EQ(sender.loss.held_until(), sender.now + 10_us);
  const Instant until = sender.now + 10_us;
  sender.pass(5_us);
  sender.ffm(1, 1007, 1004, 1);
  EXPECT_EQ(sender.loss.held_until(), until) << "the first decides";
  EXPECT_EQ(sender.count(Counter::kRetransmitHeld), 1u);
}

TEST(ReportedLosses, ABaseBeyondTheRefusedPacketEndsTheCautionAfterAnRnrNak) {
  Sender sender;
  sender.write(8);
  ASSERT_TRUE(sender.rnr.on_nak(2, 7, true, sender.now));
  sender.rnr.on_wait_over();
  sender.ffm(0, 1007, 1002, 1);
  EXPECT_TRUE(sender.rnr.is_recovering()) << "the refused packet is at the base";
  sender.ffm(1, 1007, 1003, 1);
  EXPECT_FALSE(sender.rnr.is_recovering());
}

// --- drops that a switch reports ---

TEST(ReportedLosses, ADroppedPacketBecomesPendingAtOnce) {
  Sender sender;
  sender.write(8);
  EXPECT_EQ(sender.edn(1002, 1003), 2u);
  EXPECT_THAT(sender.all_pending(), ElementsAre(2, 3));
  EXPECT_EQ(sender.edn(1002, 1003), 0u);
  EXPECT_EQ(sender.count(Counter::kEdnPacketsPending), 2u);
}

TEST(ReportedLosses, AReportOfWhatIsDoneOrWasNeverSentIsStale) {
  Sender sender;
  sender.write(8);
  EXPECT_EQ(sender.edn(990, 999), 0u);
  EXPECT_EQ(sender.edn(1008, 1020), 0u);
  EXPECT_EQ(sender.count(Counter::kEdnStale), 2u);
  EXPECT_EQ(sender.edn(998, 1000), 1u);
  EXPECT_EQ(sender.count(Counter::kEdnPacketsAcked), 2u);
  EXPECT_EQ(sender.edn(1007, 1009), 1u);
  EXPECT_EQ(sender.count(Counter::kEdnPacketsUnsent), 2u);
}

TEST(ReportedLosses, TheTimestampOfTheDroppedPacketTellsWhichCopyItWas) {
  Sender sender;
  sender.write(8);
  const Instant first = sender.now;
  sender.edn(1002, 1002);
  sender.pass(1_ms);
  sender.leaves_again(2);
  EXPECT_EQ(sender.edn(1002, 1002, {}, first), 0u) << "of the first copy: the second may have arrived";
  EXPECT_EQ(sender.count(Counter::kEdnPacketsRecent), 1u);
  EXPECT_EQ(sender.edn(1002, 1002, {}, sender.now), 1u);
}

TEST(ReportedLosses, ADroppedRequestIsMarkedAndOneThatArrivedIsNot) {
  Sender sender;
  sender.read(4);
  EXPECT_EQ(sender.edn(1000, 1000), 1u);
  EXPECT_TRUE(sender.messages.front().reported_dropped);
  Sender other;
  other.read(4);
  other.sent().request_arrived(other.messages.front());
  EXPECT_EQ(other.edn(1000, 1000), 0u);
  EXPECT_EQ(other.count(Counter::kEdnPacketsAcked), 1u);
}

// A drop without a full queue (a bad checksum, a fault) is no congestion.
TEST(ReportedLosses, OnlyAFullQueueReducesTheWindow) {
  Sender sender;
  sender.write(8);
  sender.edn(1002, 1002);
  EXPECT_EQ(sender.count(Counter::kEdnReductions), 0u);
  sender.edn(1003, 1003, 20_us);
  EXPECT_EQ(sender.count(Counter::kEdnReductions), 1u);
  sender.recovery.congestion.edn = false;
  sender.edn(1004, 1004, 20_us);
  EXPECT_EQ(sender.count(Counter::kEdnReductions), 1u);
}

// So long that the queue has drained, at most five times as long, and never longer than the setting.
TEST(ReportedLosses, TheSenderWaitsForTheQueueToDrain) {
  Sender sender;
  sender.write(8);
  sender.edn(1002, 1002, 20_us);
  EXPECT_EQ(sender.loss.paused_until(), std::nullopt) << "not by default";
  sender.recovery.edn_pause_max = 1_ms;
  sender.edn(1003, 1003, 20_us);
  ASSERT_TRUE(sender.loss.paused_until());
  const Duration pause = *sender.loss.paused_until() - sender.now;
  EXPECT_GE(pause, 20_us);
  EXPECT_LE(pause, 100_us);
  EXPECT_TRUE(sender.loss.paused(sender.now));
  EXPECT_FALSE(sender.loss.paused(sender.now + pause));
  sender.recovery.edn_pause_max = 30_us;
  sender.pass(1_ms);
  sender.edn(1004, 1004, 1_ms);
  EXPECT_EQ(sender.loss.paused_until(), sender.now + 30_us);
  EXPECT_EQ(sender.count(Counter::kEdnPauses), 1u) << "a pause that goes on";
}

}  // namespace
}  // namespace brdma::test
