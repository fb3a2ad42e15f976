// qp/execute/received_messages.h: the message in progress, and the counts of complete ones; qp/execute/used_receives.h:
// the completions of receives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "qp/queues/shared_receive_queue.h"
#include "support/responder_parts.h"

namespace brdma::qp {
namespace {

using Kind = ReceivedMessages::Kind;
using testing::ElementsAre;
using wire::RcOp;

constexpr wire::Reth kReth{.address = 0x1000, .rkey = 7, .length = 3000};

TEST(ReceivedMessages, AFirstPacketBeginsAMessageAndOthersContinueIt) {
  ReceivedMessages messages;
  EXPECT_TRUE(messages.takes(Kind::kSend, /*first=*/true));
  EXPECT_FALSE(messages.takes(Kind::kSend, /*first=*/false)) << "nothing has begun";
  messages.go_on(Kind::kSend, 1024);
  EXPECT_TRUE(messages.in_progress());
  EXPECT_TRUE(messages.is_inside(Kind::kSend));
  EXPECT_FALSE(messages.takes(Kind::kSend, true)) << "the last packet is missing";
  EXPECT_FALSE(messages.takes(Kind::kWrite, false)) << "another kind";
  EXPECT_TRUE(messages.takes(Kind::kSend, false));
  messages.go_on(Kind::kSend, 2048);
  EXPECT_EQ(messages.bytes(), 2048U);
  EXPECT_EQ(messages.packets(), 2U);
}

TEST(ReceivedMessages, ACompleteOneIsForgottenAndCounted) {
  ReceivedMessages messages;
  messages.go_on(Kind::kSend, 1024);
  messages.complete();
  EXPECT_FALSE(messages.in_progress());
  EXPECT_EQ(messages.bytes(), 0U);
  EXPECT_EQ(messages.packets(), 0U);
  EXPECT_EQ(messages.msn(), 1U);
  messages.go_on(Kind::kSend, 1024);
  messages.abandon();
  EXPECT_FALSE(messages.in_progress());
  EXPECT_EQ(messages.msn(), 1U) << "it does not count";
  messages.count_receive();
  EXPECT_EQ(messages.rsn(), 1U);
}

TEST(ReceivedMessages, CountsHave24Bits) {
  ReceivedMessages messages;
  for (std::uint32_t i = 0; i < 1u << 24; ++i) {
    messages.count();
    messages.count_receive();
  }
  EXPECT_EQ(messages.msn(), 0U);
  EXPECT_EQ(messages.rsn(), 0U);
}

TEST(ReceivedMessages, ABitmapPacketStatesTheWholeWriteAndItsOwnPlace) {
  ReceivedMessages messages;
  messages.set_reth(kReth);
  messages.go_on(Kind::kWrite, 1024);
  EXPECT_EQ(messages.next_address(), 0x1000U + 1024);
  const wire::Reth next{.address = 0x1000 + 1024, .rkey = 7, .length = 3000};
  EXPECT_TRUE(messages.is_next_of_write(next));
  wire::Reth other = next;
  other.address += 1024;
  EXPECT_FALSE(messages.is_next_of_write(other));
  other = next;
  other.rkey = 8;
  EXPECT_FALSE(messages.is_next_of_write(other));
  other = next;
  other.length = 3001;
  EXPECT_FALSE(messages.is_next_of_write(other));
}

struct Receiving : test::ResponderParts {
  Receiving() {
    for (const std::uint64_t wr_id : {1u, 2u, 3u}) post(wr_id, 100);
  }
  static wire::Packet packet(RcOp op) {
    wire::Packet packet;
    packet.op = op;
    packet.immediate_be = 0x0102'0304;
    packet.invalidate_rkey = 0x55;
    return packet;
  }
  Completion complete(RcOp op, CompletionStatus status = CompletionStatus::kSuccess) {
    used_receives().complete(packet(op), status, 42, outcome, now);
    const auto all = completions();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? Completion{} : all.front();
  }
  std::vector<std::uint64_t> flushed() {
    used_receives().flush(now);
    std::vector<std::uint64_t> all;
    for (const Completion& one : completions()) {
      EXPECT_EQ(one.status, CompletionStatus::kFlushed);
      EXPECT_EQ(one.opcode, CompletionOpcode::kReceive);
      EXPECT_EQ(one.qp_num, 17U);
      all.push_back(one.wr_id);
    }
    return all;
  }
  Outcome outcome;
};

TEST(UsedReceives, AMessageUsesTheOldestOne) {
  Receiving receiver;
  const Completion made = receiver.complete(RcOp::kSendOnly);
  EXPECT_EQ(made.wr_id, 1U);
  EXPECT_EQ(made.status, CompletionStatus::kSuccess);
  EXPECT_EQ(made.opcode, CompletionOpcode::kReceive);
  EXPECT_EQ(made.byte_length, 42U);
  EXPECT_EQ(made.qp_num, 17U);
  EXPECT_EQ(made.source_qp, 18U);
  EXPECT_EQ(made.flags, 0U);
  EXPECT_EQ(receiver.receives.size(), 2U);
  EXPECT_EQ(receiver.messages.rsn(), 1U);
  EXPECT_EQ(receiver.count(Counter::kReceives), 1U);
  EXPECT_FALSE(receiver.outcome.asks_something());
}

TEST(UsedReceives, ImmediateDataAndInvalidatedKeysAreReported) {
  Receiving receiver;
  Completion made = receiver.complete(RcOp::kWriteOnlyImm);
  EXPECT_EQ(made.opcode, CompletionOpcode::kReceiveRdmaWithImm);
  EXPECT_EQ(made.flags, kCompletionWithImm);
  EXPECT_EQ(made.immediate_be, 0x0102'0304U);
  made = receiver.complete(RcOp::kSendLastInvalidate);
  EXPECT_EQ(made.opcode, CompletionOpcode::kReceive);
  EXPECT_EQ(made.flags, kCompletionWithInvalidate);
  EXPECT_EQ(made.immediate_be, 0x55U);
}

TEST(UsedReceives, OneAtFaultReportsNoImmediateAndEndsItsMessage) {
  Receiving receiver;
  receiver.messages.go_on(Kind::kSend, 1024);
  const Completion made = receiver.complete(RcOp::kSendLastImm, CompletionStatus::kLocalLengthError);
  EXPECT_EQ(made.status, CompletionStatus::kLocalLengthError);
  EXPECT_EQ(made.flags, 0U);
  EXPECT_FALSE(receiver.messages.in_progress());
  EXPECT_EQ(receiver.messages.rsn(), 1U);
  EXPECT_EQ(receiver.count(Counter::kReceives), 0U);
}

TEST(UsedReceives, AnOverrunCompletionQueueEndsTheQueuePair) {
  Receiving receiver;
  for (int i = 0; i < 16; ++i) receiver.cq.push(Completion{}, false, receiver.now);
  receiver.used_receives().complete(Receiving::packet(RcOp::kSendOnly), CompletionStatus::kSuccess, 1, receiver.outcome,
                                    receiver.now);
  EXPECT_TRUE(receiver.outcome.to_error);
  EXPECT_EQ(receiver.outcome.async_event, kEventQpFatal);
}

TEST(UsedReceives, OwnOnesAreFlushedInOrder) {
  Receiving receiver;
  EXPECT_THAT(receiver.flushed(), ElementsAre(1, 2, 3));
  EXPECT_TRUE(receiver.receives.empty());
}

TEST(UsedReceives, OfASharedQueuesOnlyTheBegunOneIs) {
  for (const bool begun : {false, true}) {
    Receiving receiver;
    Ring<SharedReceiveQueue*> low;
    SharedReceiveQueue shared{receiver.identity.pd, {.wr_max = 8, .sge_max = 1}, nullptr, low};
    const Sge sge{test::ResponderParts::kStart, 100, receiver.region->key};
    for (const std::uint64_t wr_id : {4u, 5u}) ASSERT_TRUE(shared.post({wr_id, {&sge, 1}}).ok());
    receiver.identity.srq = &shared;
    receiver.receives = ReceiveQueue{receiver.identity};
    ASSERT_TRUE(receiver.receives.has(1));
    EXPECT_EQ(shared.size(), 0U);
    if (begun) receiver.messages.go_on(Kind::kSend, 50);
    EXPECT_EQ(receiver.flushed(), begun ? std::vector<std::uint64_t>{4} : std::vector<std::uint64_t>{});
    EXPECT_TRUE(receiver.receives.empty());
    EXPECT_EQ(shared.size(), begun ? 1U : 2U) << "the others went back";
  }
}

}  // namespace
}  // namespace brdma::qp
