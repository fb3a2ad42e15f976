// qp/receive/unready_requests.h: a request at the base that finds no receive is held for a while; then an RNR NAK
// leaves.
#include <gtest/gtest.h>

#include "qp/queues/shared_receive_queue.h"
#include "support/responder_parts.h"

namespace brdma::qp {
namespace {

using wire::RcOp;

constexpr std::uint32_t kMsn = test::ResponderParts::kMsn;

struct Waiting : test::ResponderParts {
  Waiting() {
    recovery.rnr_hold = 10_ms;
    identity.attributes.min_rnr_timer = 12;
  }
  [[nodiscard]] wire::Packet packet(RcOp op = RcOp::kSendOnly) const {
    wire::Packet packet;
    packet.op = op;
    packet.bitmap = bitmap;
    packet.bth.psn = window.base();
    packet.payload = ConstBytes{bytes}.first(op == RcOp::kReadRequest ? 0 : 100);
    return packet;
  }
  bool keep(RcOp op = RcOp::kSendOnly) { return unready().keep(packet(op), now); }
  [[nodiscard]] std::optional<Instant> until() const { return out_of_order->receive_wait.until; }
  [[nodiscard]] std::size_t naks() const { return resources.size(); }
  [[nodiscard]] wire::Packet behind(bool again = true) const {
    wire::Packet later = packet();
    later.bth.psn = window.base() + 1;
    later.bxth.retransmitted = again;
    return later;
  }
};

TEST(UnreadyRequests, OneThatTakesAReceiveIsHeld) {
  for (const RcOp op : {RcOp::kSendOnly, RcOp::kSendFirst, RcOp::kWriteOnlyImm}) {
    Waiting responder;
    EXPECT_TRUE(responder.keep(op));
    EXPECT_TRUE(responder.window.has(responder.window.base())) << "it is acknowledged as received";
    EXPECT_TRUE(responder.base_packet.is_blocked());
    EXPECT_FALSE(responder.base_packet.is_refused());
    EXPECT_EQ(responder.until(), responder.now + 10_ms);
    EXPECT_EQ(responder.count(Counter::kHeldForReceive), 1U);
    EXPECT_EQ(responder.naks(), 0U);
    ASSERT_NE(find_early(responder.out_of_order.get(), responder.window.base()), nullptr);
  }
}

TEST(UnreadyRequests, OthersAreNot) {
  for (const RcOp op : {RcOp::kReadRequest, RcOp::kFetchAdd, RcOp::kWriteOnly}) {
    Waiting responder;
    EXPECT_FALSE(responder.keep(op)) << "a posted receive would not help";
    EXPECT_FALSE(responder.out_of_order);
    EXPECT_TRUE(responder.window.empty());
  }
}

TEST(UnreadyRequests, NothingIsHeldWhereThatIsOff) {
  Waiting responder;
  responder.recovery.rnr_hold = {};
  EXPECT_FALSE(responder.keep());
  responder.recovery.rnr_hold = 10_ms;
  responder.recovery.mode = RecoveryMode::kGoBackN;
  EXPECT_FALSE(responder.keep());
  EXPECT_FALSE(responder.out_of_order);
}

TEST(UnreadyRequests, AfterARefusalItIsNotHeldAgain) {
  Waiting responder;
  responder.base_packet.refuse();
  EXPECT_FALSE(responder.keep());
}

TEST(UnreadyRequests, WithoutRoomItIsNotHeld) {
  Waiting responder;
  responder.recovery.hold_bytes_max = 0;
  EXPECT_FALSE(responder.keep());
  EXPECT_FALSE(responder.out_of_order) << "nothing is missing";
  Waiting other;
  other.recovery.state_bytes_max = 0;
  other.room().begin();
  wire::Packet held = other.packet();
  held.bth.psn = other.window.base() + 3;
  ASSERT_TRUE(other.out_of_order->early.hold(other.window.base(), held));
  EXPECT_FALSE(other.keep());
}

TEST(UnreadyRequests, AStandardPeersWaitsAMillisecond) {
  Waiting responder;
  responder.bitmap = false;
  EXPECT_TRUE(responder.keep());
  EXPECT_EQ(responder.until(), responder.now + 1_ms);
}

TEST(UnreadyRequests, OfASharedQueueItIsNoted) {
  Waiting responder;
  Ring<SharedReceiveQueue*> low;
  SharedReceiveQueue shared{responder.identity.pd, {.wr_max = 8, .sge_max = 1}, nullptr, low};
  responder.identity.srq = &shared;
  EXPECT_TRUE(responder.keep());
  EXPECT_TRUE(shared.take_waiting());
}

TEST(UnreadyRequests, TheWaitEndsWithAnRnrNak) {
  Waiting responder;
  ASSERT_TRUE(responder.keep());
  responder.pass(10_ms - kTick);
  responder.unready().on_time(responder.now);
  EXPECT_EQ(responder.naks(), 0U);
  responder.pass(kTick);
  responder.unready().on_time(responder.now);
  ASSERT_EQ(responder.naks(), 1U);
  const Response& nak = responder.resources.front();
  EXPECT_EQ(nak.kind, Response::Kind::kNak);
  EXPECT_EQ(nak.syndrome, wire::kSyndromeRnr | 12);
  EXPECT_EQ(nak.psn, responder.window.base());
  EXPECT_EQ(nak.msn, kMsn);
  EXPECT_TRUE(nak.bitmap);
  EXPECT_EQ(responder.count(Counter::kSentRnr), 1U);
  EXPECT_TRUE(responder.base_packet.is_refused());
  EXPECT_FALSE(responder.until());
  responder.pass(1_s);
  responder.unready().on_time(responder.now);
  EXPECT_EQ(responder.naks(), 1U) << "once";
}

TEST(UnreadyRequests, ARetryThatFailsGoesOnWaiting) {
  Waiting responder;
  ASSERT_TRUE(responder.keep());
  const Instant until = *responder.until();
  responder.pass(4_ms);
  responder.unready().wait(responder.packet(), responder.now);
  EXPECT_EQ(responder.until(), until);
  EXPECT_EQ(responder.count(Counter::kHeldForReceive), 1U);
  responder.pass(6_ms);
  responder.unready().on_time(responder.now);
  responder.resources.pop();
  responder.unready().wait(responder.packet(), responder.now);
  EXPECT_EQ(responder.naks(), 1U) << "it waits no more: refused again";
}

TEST(UnreadyRequests, AHeldReadWithoutRoomIsRefusedAtOnce) {
  Waiting responder;
  responder.room().begin();
  responder.unready().wait(responder.packet(RcOp::kReadRequest), responder.now);
  EXPECT_TRUE(responder.base_packet.is_blocked());
  EXPECT_EQ(responder.naks(), 1U);
}

TEST(UnreadyRequests, OneNakThatHasNotLeftSuffices) {
  Waiting responder;
  responder.unready().refuse(responder.packet());
  responder.unready().refuse(responder.packet());
  EXPECT_EQ(responder.naks(), 1U);
  EXPECT_EQ(responder.count(Counter::kSentRnr), 2U);
  responder.resources.pop();
  responder.unready().refuse(responder.packet());
  EXPECT_EQ(responder.naks(), 1U);
}

TEST(UnreadyRequests, WhatIsSentAgainBehindItShowsThatTheNakWasLost) {
  Waiting responder;
  ASSERT_TRUE(responder.keep());
  responder.pass(10_ms);
  responder.unready().on_time(responder.now);
  responder.resources.pop();
  responder.unready().repeat(responder.behind(/*again=*/false));
  EXPECT_EQ(responder.naks(), 0U) << "sent before the NAK arrived";
  responder.unready().repeat(responder.behind());
  ASSERT_EQ(responder.naks(), 1U);
  EXPECT_EQ(responder.resources.front().psn, responder.window.base()) << "not of the packet behind";
}

TEST(UnreadyRequests, WhatIsNotHeldComesAgainByItself) {
  Waiting responder;
  responder.unready().refuse(responder.packet());
  responder.resources.pop();
  responder.unready().repeat(responder.behind());
  EXPECT_EQ(responder.naks(), 0U);
}

}  // namespace
}  // namespace brdma::qp
