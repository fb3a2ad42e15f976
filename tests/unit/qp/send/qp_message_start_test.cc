// qp/send/message_start.h: which message begins next, what holds it back, where a READ is cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "qp/send/message_start.h"
#include "support/sender_parts.h"

namespace brdma::qp {
namespace {

struct Starting : test::SendingParts {
  [[nodiscard]] bool ready() { return start().ready(now); }
  Message& begin() {
    EXPECT_TRUE(ready());
    start().begin();
    return messages.back();
  }
  // All packets of the newest message leave.
  void leave() {
    const Message& message = messages.back();
    for (Sequence at = message.first; !message.answered() && at < message.end(); ++at)
      scoreboard.sent(message.payload_at(at, kMtu), 0, now);
    if (message.answered()) scoreboard.sent_request(message.packets, 0, now);
  }
};

// --- numbers ---

TEST(MessageStart, MessagesAreNumberedAndSendsToo) {
  Starting parts;
  parts.post(WorkOpcode::kSend, 10);
  parts.post(WorkOpcode::kRdmaWrite, 3 * parts.kMtu + 1);
  parts.post(WorkOpcode::kRdmaWriteWithImm, 10);
  parts.post(WorkOpcode::kSend, 0);
  struct Expected {
    std::uint32_t msn, rsn, packets;
    MessageKind kind;
  };
  const Expected all[] = {{0, 0, 1, MessageKind::kSend},
                          {1, 1, 4, MessageKind::kWrite},
                          {2, 1, 1, MessageKind::kWrite},
                          {3, 2, 1, MessageKind::kSend}};
  for (std::uint64_t i = 0; i < 4; ++i) {
    const Message& message = parts.begin();
    EXPECT_EQ(message.wqe, i);
    EXPECT_EQ(message.msn, all[i].msn) << i;
    EXPECT_EQ(message.rsn, all[i].rsn) << i;
    EXPECT_EQ(message.packets, all[i].packets) << i;
    EXPECT_EQ(message.kind, all[i].kind) << i;
    EXPECT_EQ(message.first, parts.scoreboard.next());
    parts.leave();
  }
  EXPECT_EQ(parts.queue.next(), parts.queue.tail());
  EXPECT_FALSE(parts.ready());
}

TEST(MessageStart, NumbersHave24Bits) {
  NextMessage next{.msn = 0xFF'FFFF, .rsn = 0xFF'FFFF};
  next.pass(true);
  EXPECT_EQ(next.msn, 0U);
  EXPECT_EQ(next.rsn, 0U);
}

// --- held back ---

TEST(MessageStart, ABegunMessageComesFirst) {
  Starting parts;
  parts.post(WorkOpcode::kRdmaWrite, 2 * parts.kMtu);
  parts.post(WorkOpcode::kRdmaRead, parts.kMtu, kSendFence);
  parts.begin();
  EXPECT_TRUE(parts.ready());
  EXPECT_FALSE(parts.start().next_is_answered()) << "its next packet, not the READ";
  parts.leave();
  EXPECT_TRUE(parts.start().next_is_answered());
}

TEST(MessageStart, AFenceWaitsForResponses) {
  Starting parts;
  parts.post(WorkOpcode::kRdmaRead, parts.kMtu);
  parts.post(WorkOpcode::kRdmaWrite, 10, kSendFence);
  parts.begin();
  parts.leave();
  EXPECT_FALSE(parts.ready());
  parts.responses.on_message_done();
  EXPECT_TRUE(parts.ready());
}

TEST(MessageStart, ReadsAndAtomicsAreLimitedInNumberOthersAreNot) {
  Starting parts;
  parts.identity.attributes.max_rd_atomic = 1;
  parts.post(WorkOpcode::kRdmaRead, parts.kMtu);
  parts.post(WorkOpcode::kAtomicFetchAdd, 8);
  parts.begin();
  parts.leave();
  EXPECT_FALSE(parts.ready());
  parts.responses.on_message_done();
  EXPECT_TRUE(parts.ready());
  Starting other;
  other.identity.attributes.max_rd_atomic = 0;
  other.post(WorkOpcode::kRdmaWrite, 8);
  EXPECT_TRUE(other.ready());
}

TEST(MessageStart, InSqdOnlyAReadThatHasBegunGoesOn) {
  Starting parts;
  parts.config.receive_bytes = 4 * parts.kMtu;
  parts.post(WorkOpcode::kRdmaRead, 64 * parts.kMtu);
  parts.post(WorkOpcode::kRdmaWrite, 8);
  parts.begin();
  parts.leave();
  ASSERT_NE(parts.next.cut, 0U);
  parts.identity.state = QpState::kSqd;
  parts.responses = ResponseAdmission{};  // there is room for more
  EXPECT_TRUE(parts.ready());
  parts.next.cut = 0;
  EXPECT_FALSE(parts.ready());
}

TEST(MessageStart, NothingBeginsBehindAFault) {
  Starting parts;
  parts.post(WorkOpcode::kRdmaWrite, 8);
  parts.fault.set(0, CompletionStatus::kLocalProtectionError);
  EXPECT_FALSE(parts.ready());
}

TEST(MessageStart, CreditHoldsTheNextPacketBackAndTheStallIsCountedOnce) {
  Starting parts;
  parts.send(2);
  parts.identity.peer_credit = {2, 1u << 30};
  parts.post(WorkOpcode::kRdmaWrite, 8);
  EXPECT_FALSE(parts.ready());
  EXPECT_FALSE(parts.ready());
  EXPECT_EQ(parts.count(Counter::kCreditStalls), 1U);
  parts.identity.peer_credit = {3, 1u << 30};
  EXPECT_TRUE(parts.ready());
}

TEST(MessageStart, AReceiverThatIsNotReadyGetsAFew) {
  Starting parts;
  parts.send(2);
  EXPECT_TRUE(parts.rnr.on_nak(1, 7, true, parts.now));
  parts.post(WorkOpcode::kRdmaWrite, 8);
  EXPECT_FALSE(parts.ready());
  parts.rnr.on_taken();
  EXPECT_TRUE(parts.ready());
}

TEST(MessageStart, ALocalOperationNeedsNoRoom) {
  Starting parts;
  parts.send(2);
  parts.identity.peer_credit = {};
  parts.post(WorkOpcode::kLocalInvalidate, 0);
  EXPECT_TRUE(parts.ready());
}

// --- READ ---

// Each request fits this side's credit; together they are the READ.
TEST(MessageStart, AReadIsCutIntoRequests) {
  Starting parts;
  parts.config.receive_bytes = 16 * parts.kMtu;
  parts.post(WorkOpcode::kRdmaRead, 40 * parts.kMtu + 1);
  std::uint32_t expected = 0;
  std::size_t requests = 0;
  while (parts.queue.next() != parts.queue.tail()) {
    const Message& message = parts.begin();
    ++requests;
    EXPECT_EQ(message.offset, expected);
    EXPECT_EQ(message.kind, MessageKind::kRead);
    EXPECT_EQ(message.msn, requests - 1) << "each is a message on the wire";
    expected += message.length;
    EXPECT_EQ(message.last_of_wqe, expected == 40 * parts.kMtu + 1);
    EXPECT_TRUE(message.last_of_wqe || message.length % parts.kMtu == 0);
    EXPECT_EQ(parts.next.cut, message.last_of_wqe ? 0 : expected);
    parts.leave();
    parts.responses = ResponseAdmission{};  // all have come
  }
  EXPECT_EQ(expected, 40 * parts.kMtu + 1);
  EXPECT_GT(requests, 2U);
}

TEST(MessageStart, ReadsWaitForTheirOwnCredit) {
  Starting parts;
  parts.config.receive_bytes = 8 * parts.kMtu;
  parts.config.receive_packets = 8;
  parts.post(WorkOpcode::kRdmaRead, 64 * parts.kMtu);
  std::uint32_t asked = 0;
  while (parts.ready()) {
    asked += parts.begin().length;
    parts.leave();
  }
  EXPECT_GT(asked, 0U);
  EXPECT_LT(asked, 64 * parts.kMtu);
}

TEST(MessageStart, MemoryThatAReadCannotWriteIsAFault) {
  Starting parts;
  parts.post(WorkOpcode::kRdmaRead, parts.kMtu);
  parts.remove_region();
  (void)parts.begin();
  EXPECT_EQ(parts.fault.due(0), CompletionStatus::kLocalProtectionError);
}

TEST(MessageStart, APacedReadWaitsForItsRate) {
  Starting parts;
  parts.recovery.congestion.control = CongestionControl::kTimely;
  choose_response_pace(parts.environment, parts.identity, parts.signals);
  ASSERT_NE(parts.pace(), nullptr);
  parts.post(WorkOpcode::kRdmaRead, 64 * parts.kMtu);
  const Message& first = parts.begin();
  EXPECT_LT(first.length, 64 * parts.kMtu) << "its responses are one burst";
  parts.leave();
  ASSERT_TRUE(parts.ready());
  while (parts.pace()->rate.allowance(parts.now) > 0) parts.pace()->rate.on_sent(1u << 20, parts.now);
  EXPECT_FALSE(parts.ready());
}

TEST(MessageStart, ResponsesOfOtherKindsHaveNoData) {
  Starting parts;
  parts.post(WorkOpcode::kAtomicWrite, 8);
  parts.post(WorkOpcode::kAtomicCmpSwap, 8);
  const Message confirmed = parts.begin();
  parts.leave();
  const Message atomic = parts.begin();
  EXPECT_EQ(confirmed.kind, MessageKind::kConfirmed);
  EXPECT_EQ(confirmed.length, 0U);
  EXPECT_EQ(confirmed.packets, 1U);
  EXPECT_EQ(atomic.kind, MessageKind::kAtomic);
  EXPECT_EQ(atomic.packets, 1U);
  EXPECT_EQ(parts.responses.messages(), 2U);
}

// --- large commands ---

TEST(MessageStart, ALargeCommandLeavesInSegments) {
  Starting parts;
  parts.config.transfer.threshold_bytes = 16 * parts.kMtu;
  parts.config.transfer.segment_bytes = 8 * parts.kMtu;
  parts.identity.peer_reads_operations = true;
  parts.post(WorkOpcode::kRdmaWrite, 64 * parts.kMtu);
  parts.post(WorkOpcode::kRdmaWrite, 8);
  EXPECT_TRUE(parts.start().next_is_large());
  EXPECT_FALSE(parts.start().begins_small());
  const Message& message = parts.begin();
  EXPECT_EQ(message.segment_packets, 8U);
  EXPECT_TRUE(parts.start().next_is_large()) << "the rest of it";
  parts.leave();
  EXPECT_FALSE(parts.start().next_is_large());
  EXPECT_FALSE(parts.start().begins_small()) << "a message is in progress";
}

TEST(MessageStart, AQueuePairThatBeginsASmallOne) {
  Starting parts;
  parts.config.transfer.threshold_bytes = 16 * parts.kMtu;
  EXPECT_FALSE(parts.start().begins_small());
  parts.post(WorkOpcode::kRdmaWrite, 8);
  EXPECT_TRUE(parts.start().begins_small());
}

TEST(MessageStart, APendingPacketDecidesWhetherTheNextIsLarge) {
  Starting parts;
  parts.config.transfer.threshold_bytes = 16 * parts.kMtu;
  parts.send(16);
  parts.post(WorkOpcode::kRdmaWrite, 8);
  EXPECT_FALSE(parts.start().next_is_large());
  parts.lose(2);
  EXPECT_TRUE(parts.start().next_is_large());
}

// --- the peer's process ---

TEST(MessageStart, ALargeMessageAsksWhetherThePeerIsLocal) {
  Starting parts;
  parts.config.transfer.local = true;
  parts.config.transfer.local_threshold_bytes = 2 * parts.kMtu;
  parts.identity.local_state = LocalState::kNotAsked;
  parts.post(WorkOpcode::kRdmaWrite, parts.kMtu);
  parts.post(WorkOpcode::kRdmaWrite, 2 * parts.kMtu);
  parts.begin();
  EXPECT_FALSE(parts.next.wants_local);
  parts.leave();
  parts.begin();
  EXPECT_TRUE(parts.next.wants_local);
}

}  // namespace
}  // namespace brdma::qp
