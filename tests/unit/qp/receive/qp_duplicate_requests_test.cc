// qp/receive/duplicate_requests.h: what becomes of requests that have come before.
#include <gtest/gtest.h>

#include <optional>

#include "support/responder_parts.h"
#include "wire/read_copy.h"

namespace brdma::qp {
namespace {

using wire::RcOp;

struct Repeating : test::ResponderParts {
  [[nodiscard]] wire::Packet packet(RcOp op, std::uint32_t psn, bool again = true) const {
    wire::Packet packet;
    packet.op = op;
    packet.bitmap = bitmap;
    packet.bth.psn = Psn{psn};
    packet.bxth.retransmitted = again;
    return packet;
  }
  // Of a packet before the base. Why it is dropped.
  std::optional<DropReason> executed(const wire::Packet& packet) {
    const auto answer = [this](const wire::Packet&) {
      ++answered;
      return refusal;
    };
    return duplicates().on_executed(packet, answer, now);
  }
  std::optional<DropReason> refusal;  // of an answer
  int answered = 0;
};

TEST(DuplicateRequests, WritesAndSendsAreAcknowledgedAgain) {
  for (const RcOp op : {RcOp::kWriteOnly, RcOp::kSendMiddle}) {
    for (const bool again : {true, false}) {
      Repeating responder;
      EXPECT_EQ(responder.executed(responder.packet(op, 1005, again)), DropReason::kDuplicate);
      EXPECT_TRUE(responder.ack.forced());
      EXPECT_EQ(responder.answered, 0);
      EXPECT_EQ(responder.count(Counter::kDuplicateRequest), 1U);
    }
  }
}

TEST(DuplicateRequests, OthersAreAnsweredAgain) {
  for (const RcOp op : {RcOp::kReadRequest, RcOp::kFetchAdd, RcOp::kAtomicWrite, RcOp::kFlush}) {
    Repeating responder;
    EXPECT_EQ(responder.executed(responder.packet(op, 1005)), std::nullopt);
    EXPECT_EQ(responder.answered, 1);
    EXPECT_FALSE(responder.ack.pending()) << "the response acknowledges it";
    responder.refusal = DropReason::kOutOfWindow;
    EXPECT_EQ(responder.executed(responder.packet(op, 1005)), DropReason::kOutOfWindow);
  }
}

TEST(DuplicateRequests, ACopyOfAReadHasOneAnswer) {
  Repeating responder;
  EXPECT_EQ(responder.executed(responder.packet(RcOp::kReadRequest, 1005, /*again=*/false)), DropReason::kDuplicate);
  EXPECT_EQ(responder.answered, 0);
  wire::Packet marked = responder.packet(RcOp::kReadRequest, 1005);
  wire::mark_copy(marked);
  EXPECT_EQ(responder.executed(marked), DropReason::kDuplicate);
  EXPECT_EQ(responder.answered, 0);
  EXPECT_EQ(responder.executed(responder.packet(RcOp::kFetchAdd, 1005, /*again=*/false)), std::nullopt);
  EXPECT_EQ(responder.answered, 1) << "only READs leave twice";
}

TEST(DuplicateRequests, AStandardPeersReadDoesNotShowThatItIsOne) {
  Repeating responder;
  responder.bitmap = false;
  EXPECT_EQ(responder.executed(responder.packet(RcOp::kReadRequest, 1005, /*again=*/false)), std::nullopt);
  EXPECT_EQ(responder.answered, 1);
}

TEST(DuplicateRequests, TheyAreSignsOfLostAcknowledgements) {
  Repeating responder;
  for (int i = 0; i < 2; ++i) (void)responder.executed(responder.packet(RcOp::kWriteOnly, 1005));
  EXPECT_EQ(responder.ack_loss.changes(), 1U);
}

TEST(DuplicateRequests, AReRequestIsNoSignIfResponsesTakeSeveralPaths) {
  for (const std::uint32_t paths : {1u, 2u}) {
    Repeating responder;
    responder.identity.sending_paths = paths;
    for (int i = 0; i < 2; ++i) (void)responder.executed(responder.packet(RcOp::kReadRequest, 1005));
    EXPECT_EQ(responder.ack_loss.changes(), paths == 1 ? 1U : 0U);
  }
}

TEST(DuplicateRequests, TheLogShowsWhichWereExecuted) {
  Repeating responder;
  (void)responder.executed(responder.packet(RcOp::kWriteOnly, 1005));
  responder.duplicates().on_early(responder.packet(RcOp::kWriteOnly, 1015), /*bitmap=*/true, responder.now);
  EXPECT_EQ(responder.count(Counter::kDuplicateRequest), 2U);
  const DuplicateLog& log_of_all = responder.environment.duplicates;
  ASSERT_EQ(log_of_all.size(), 2U);
  EXPECT_EQ(log_of_all[1].psn, Psn{1005});
  EXPECT_TRUE(log_of_all[1].before_base);
  EXPECT_EQ(log_of_all[0].psn, Psn{1015});
  EXPECT_FALSE(log_of_all[0].before_base);
}

TEST(DuplicateRequests, ThoseBeyondTheBaseAreAcknowledgedInBitmapMode) {
  Repeating responder;
  responder.duplicates().on_early(responder.packet(RcOp::kWriteOnly, 1015), /*bitmap=*/false, responder.now);
  EXPECT_FALSE(responder.ack.pending()) << "a standard acknowledgement could not report it";
  responder.duplicates().on_early(responder.packet(RcOp::kWriteOnly, 1015), /*bitmap=*/true, responder.now);
  EXPECT_TRUE(responder.ack.forced());
  EXPECT_EQ(responder.ack_loss.changes(), 0U);
}

TEST(DuplicateRequests, ACopyThatAsksKeepsItsEcho) {
  for (const bool asked : {true, false}) {
    Repeating responder;
    responder.identity.receiving_paths = 2;
    responder.echo.note(1, 500, {}, responder.now);
    wire::Packet packet = responder.packet(RcOp::kWriteOnly, 1005);
    packet.bth.ack_request = asked;
    (void)responder.executed(packet);
    EXPECT_EQ(responder.echo.kept(), asked);
  }
}

TEST(DuplicateRequests, AnExpectedRepetitionMeasuresARoundTrip) {
  Repeating responder;
  responder.identity.receiving_paths = 2;
  responder.tolerance.on_path(0, responder.environment, responder.identity, responder.now);
  responder.tolerance.paths()->expect_repetition(Psn{1005}, responder.now);
  responder.pass(300_us);
  (void)responder.executed(responder.packet(RcOp::kWriteOnly, 1005, /*again=*/false));
  EXPECT_EQ(responder.feedback.round_trip(), Duration{}) << "the original";
  (void)responder.executed(responder.packet(RcOp::kWriteOnly, 1005));
  EXPECT_EQ(responder.feedback.round_trip(), 300_us);
}

}  // namespace
}  // namespace brdma::qp
