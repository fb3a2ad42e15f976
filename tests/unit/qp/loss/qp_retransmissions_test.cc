// qp/loss/retransmissions.h: which pending packet leaves next, what holds it back, and what it looks like.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "qp/loss/retransmissions.h"
#include "support/sender_parts.h"
#include "wire/read_copy.h"

namespace brdma::qp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using wire::RcOp;

struct Resending : test::SendingParts {
  std::vector<wire::Packet> poll() {
    return batch_of([&](TransmitBatch& batch) { return retransmissions().poll(batch, now); });
  }
  [[nodiscard]] bool may_leave() { return retransmissions().may_leave(now); }
};

// --- order and form ---

TEST(Retransmissions, TheLowestPsnLeavesFirst) {
  Resending parts;
  parts.send(6);
  parts.lose(4);
  parts.lose(1);
  parts.lose(2);
  EXPECT_THAT(parts.psns(parts.poll()), ElementsAre(1001U, 1002U, 1004U));
  EXPECT_EQ(parts.count(Counter::kRetransmitAggregated), 1U);
  EXPECT_EQ(parts.scoreboard.pending(), 0U);
}

TEST(Retransmissions, OnePacketAndOneRunAreCountedApart) {
  Resending parts;
  parts.send(6);
  parts.lose(1);
  (void)parts.poll();
  EXPECT_EQ(parts.count(Counter::kRetransmitSingle), 1U);
  parts.lose(3);
  parts.lose(4);
  (void)parts.poll();
  EXPECT_EQ(parts.count(Counter::kRetransmitInterval), 1U);
}

TEST(Retransmissions, APacketLeavesAsItDidAtFirstMarkedAsSentAgain) {
  Resending parts;
  parts.send(3);
  parts.lose(1);
  const auto packets = parts.poll();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].op, RcOp::kWriteMiddle);
  EXPECT_TRUE(packets[0].bitmap);
  EXPECT_TRUE(packets[0].bxth.retransmitted);
  EXPECT_EQ(packets[0].bxth.packet_index, 1U);
  EXPECT_EQ(packets[0].bxth.source_qpn, parts.identity.qpn);
  EXPECT_EQ(packets[0].bxth.token, parts.identity.peer_token);
  EXPECT_EQ(packets[0].payload.size(), parts.kMtu);
  EXPECT_TRUE(parts.carries(packets[0], parts.kMtu));
  EXPECT_EQ(parts.scoreboard.entry(1).transmissions, 2U);
}

TEST(Retransmissions, MemoryThatIsGoneIsAFaultOfItsWorkRequest) {
  Resending parts;
  parts.send(3);
  parts.lose(1);
  parts.remove_region();
  EXPECT_THAT(parts.poll(), IsEmpty());
  EXPECT_FALSE(parts.added);
  EXPECT_EQ(parts.fault.due(0), CompletionStatus::kLocalProtectionError);
  EXPECT_TRUE(parts.pending(1));
}

// --- held back ---

TEST(Retransmissions, OneWaitsForOthersOfItsBatch) {
  Resending parts;
  parts.send(20);
  parts.lose(1);
  parts.sent().repairing().held_until = parts.now + 10_us;
  EXPECT_FALSE(parts.may_leave());
  EXPECT_THAT(parts.poll(), IsEmpty());
  parts.pass(10_us);
  EXPECT_TRUE(parts.may_leave());
  EXPECT_EQ(parts.poll().size(), 1U);
  EXPECT_FALSE(parts.loss.held_until()) << "the next one waits for itself";
}

TEST(Retransmissions, AFullBatchDoesNotWait) {
  Resending parts;
  parts.send(20);
  for (Sequence at = 0; at < 15; ++at) parts.lose(at);
  parts.sent().repairing().held_until = parts.now + 10_us;
  EXPECT_FALSE(parts.may_leave());
  parts.lose(15);
  EXPECT_TRUE(parts.may_leave());
}

TEST(Retransmissions, TheRetransmissionWindowBoundsThem) {
  Resending parts;
  parts.recovery.resend_window = 2;
  parts.send(6);
  for (Sequence at = 0; at < 4; ++at) parts.lose(at);
  const auto packets = parts.poll();
  EXPECT_THAT(parts.psns(packets), ElementsAre(1000U, 1001U));
  EXPECT_FALSE(packets[0].bth.ack_request);
  EXPECT_TRUE(packets[1].bth.ack_request) << "the last that the window admits";
  EXPECT_EQ(parts.count(Counter::kResendWindowFull), 1U);
  EXPECT_FALSE(parts.may_leave());
  parts.acknowledge(0);
  EXPECT_TRUE(parts.may_leave());
}

TEST(Retransmissions, TheCongestionWindowBoundsThemUnlessTheyEndASilence) {
  Resending parts;
  parts.send(static_cast<std::uint32_t>(parts.congestion.bytes() / parts.kMtu));
  parts.lose(1);
  parts.write(1);  // in its place
  EXPECT_FALSE(parts.may_leave());
  EXPECT_THAT(parts.poll(), IsEmpty());
  EXPECT_TRUE(parts.admission.congestion_limited());
  parts.timers.grant(1);
  EXPECT_TRUE(parts.may_leave());
  EXPECT_EQ(parts.poll().size(), 1U);
  EXPECT_FALSE(parts.timers.has_grant()) << "used";
}

TEST(Retransmissions, AReceiverThatIsNotReadyGetsAFew) {
  Resending parts;
  parts.send(6);
  EXPECT_TRUE(parts.rnr.on_nak(1, 7, true, parts.now));
  parts.rnr.on_wait_over();
  for (Sequence at = 1; at < 4; ++at) parts.lose(at);
  const auto packets = parts.poll();
  EXPECT_THAT(parts.psns(packets), ElementsAre(1001U));
  EXPECT_TRUE(packets[0].bth.ack_request) << "the last that may leave";
  EXPECT_FALSE(parts.may_leave());
}

TEST(Retransmissions, NothingLeavesFromAWorkRequestAtFaultOn) {
  Resending parts;
  parts.send(2);
  parts.send(2);
  parts.lose(1);
  parts.lose(2);
  parts.fault.set(1, CompletionStatus::kLocalProtectionError);
  EXPECT_THAT(parts.psns(parts.poll()), ElementsAre(1001U));
}

// --- requests for acknowledgements ---

TEST(Retransmissions, TheLastPendingPacketAsksForAnAcknowledgement) {
  Resending parts;
  parts.send(8);
  parts.lose(1);
  parts.lose(3);
  const auto packets = parts.poll();
  ASSERT_EQ(packets.size(), 2U);
  EXPECT_FALSE(packets[0].bth.ack_request);
  EXPECT_TRUE(packets[1].bth.ack_request);
  EXPECT_EQ(parts.admission.since_request(), 0U) << "the next interval begins with it";
}

// --- READ requests ---

TEST(Retransmissions, MissingResponsesAreRequestedRunByRun) {
  Resending parts;
  parts.ask(8);
  for (const Sequence at : {2, 3, 5}) parts.lose(at);
  const auto packets = parts.poll();
  EXPECT_THAT(parts.psns(packets), ElementsAre(1002U, 1005U));
  EXPECT_EQ(packets[0].op, RcOp::kReadRequest);
  EXPECT_EQ(packets[0].reth.address, parts.kRemote + 2 * parts.kMtu);
  EXPECT_EQ(packets[0].reth.length, 2 * parts.kMtu);
  EXPECT_EQ(packets[1].reth.length, parts.kMtu);
  EXPECT_EQ(parts.count(Counter::kReadsReissued), 2U);
}

// Linux's responder takes the newest repetition's start for the start of the READ.
TEST(Retransmissions, AStandardPeerIsAskedOnceForAllFromTheOldestOn) {
  Resending parts;
  parts.identity.bitmap_agreed = false;
  parts.ask(8);
  parts.acknowledge(0);
  for (const Sequence at : {2, 5}) parts.lose(at);
  const auto packets = parts.poll();
  EXPECT_THAT(parts.psns(packets), ElementsAre(1001U));
  EXPECT_EQ(packets[0].reth.length, 5 * parts.kMtu) << "to the last pending one";
  EXPECT_EQ(parts.scoreboard.pending(), 0U);
}

TEST(Retransmissions, GoBackNAsksToTheEnd) {
  Resending parts;
  parts.recovery.mode = RecoveryMode::kGoBackN;
  parts.ask(8);
  parts.lose(2);
  const auto packets = parts.poll();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].reth.length, 8 * parts.kMtu);
}

TEST(Retransmissions, ARequestThatASwitchReportedDroppedLeavesAsACopy) {
  for (const bool arrived : {false, true}) {
    Resending parts;
    parts.identity.peer_knows_copies = true;
    parts.ask(2);
    parts.messages.front().reported_dropped = true;
    parts.messages.front().request_received = arrived;
    parts.lose(0);
    parts.lose(1);
    const auto packets = parts.poll();
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(wire::is_copy(packets[0]), !arrived);
    EXPECT_FALSE(parts.messages.front().reported_dropped) << "once";
  }
}

// --- several paths ---

TEST(Retransmissions, ThePathIsNamedAndNothingIsSaidOfEarlierPacketsThere) {
  Resending parts;
  parts.identity.sending_paths = 2;
  parts.paths = std::make_unique<SendPaths>(2, Spraying::kRoundRobin);
  parts.send(3);
  parts.lose(1);
  const auto packets =
      parts.batch_of([&](TransmitBatch& batch) { return parts.retransmissions().poll(batch, parts.now); }, 1);
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].bxth.path, 1U);
  EXPECT_EQ(packets[0].bxth.before.distance, 0U);
  EXPECT_EQ(parts.scoreboard.entry(1).path, 1U);
}

}  // namespace
}  // namespace brdma::qp
