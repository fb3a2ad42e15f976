// qp/send/local_operation.h and passed_messages.h: local operations in their turn, and completions of passed messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "qp/send/local_operation.h"
#include "qp/send/passed_messages.h"
#include "support/sender_parts.h"

namespace brdma::qp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Finishing : test::SendingParts {
  bool execute() { return LocalOperations{{environment, identity, queue, fault}}.execute(now); }
  [[nodiscard]] PassedMessages passed() {
    return PassedMessages{
        {scoreboard, messages, segments, loss, responses, receiver, {environment, identity, queue, fault}}};
  }
  void advance() {
    if (passed().advance(now)) passed().complete(now);
  }
  void executed(Sequence before) {
    sent().acknowledge_before(before, now);
    scoreboard.set_cumulative(before, now);
  }
  std::vector<std::uint64_t> completed() {
    std::vector<std::uint64_t> all;
    Completion completion;
    while (cq.poll({&completion, 1}) == 1) all.push_back(completion.wr_id);
    return all;
  }
};

// --- local operations ---

TEST(LocalOperations, AKeyThatNamesNoWindowIsAFault) {
  Finishing parts;
  parts.post(WorkOpcode::kLocalInvalidate, 0, kSendSignaled);
  EXPECT_FALSE(parts.execute());
  EXPECT_EQ(parts.fault.due(0), CompletionStatus::kLocalQpOperationError);
  EXPECT_EQ(parts.queue.next(), 0U) << "nothing continues behind it";
}

TEST(LocalOperations, AWindowThatCannotBeBoundIsAFault) {
  Finishing parts;
  parts.post(WorkOpcode::kBindMw, 0);
  EXPECT_FALSE(parts.execute());
  EXPECT_EQ(parts.fault.due(0), CompletionStatus::kWindowBindError);
}

// --- completions ---

TEST(PassedMessages, AWorkRequestCompletesWhenTheBaseHasPassedItsLastPacket) {
  Finishing parts;
  parts.send(2, kSendSignaled);
  parts.send(1, kSendSignaled);
  parts.executed(1);
  parts.advance();
  EXPECT_THAT(parts.completed(), IsEmpty());
  parts.executed(2);
  parts.advance();
  EXPECT_THAT(parts.completed(), ElementsAre(0U));
  EXPECT_EQ(parts.messages.size(), 1U);
  parts.executed(3);
  parts.advance();
  EXPECT_THAT(parts.completed(), ElementsAre(1U));
}

TEST(PassedMessages, AReadCompletesWithItsLastRequest) {
  Finishing parts;
  parts.ask(2);
  parts.messages.back().last_of_wqe = false;
  parts.identity.signal_all = true;
  parts.executed(2);
  parts.acknowledge(0);
  parts.acknowledge(1);
  parts.advance();
  EXPECT_THAT(parts.completed(), IsEmpty());
  EXPECT_TRUE(parts.messages.empty());
  EXPECT_EQ(parts.responses.messages(), 0U) << "that request is done";
}

TEST(PassedMessages, NothingChangesWhileTheBaseStands) {
  Finishing parts;
  parts.send(2);
  EXPECT_FALSE(parts.passed().advance(parts.now));
}

TEST(PassedMessages, TheStateOfLossesEndsWithThem) {
  Finishing parts;
  parts.send(3);
  parts.lose(0);
  parts.leaves_again(0);
  (void)parts.sent().repairing();
  parts.executed(3);
  parts.advance();
  EXPECT_FALSE(parts.loss);
}

TEST(PassedMessages, SendsAreCounted) {
  Finishing parts;
  parts.send(1);
  parts.messages.back().kind = MessageKind::kSend;
  parts.executed(1);
  parts.advance();
  EXPECT_EQ(parts.count(Counter::kSends), 1U);
}

}  // namespace
}  // namespace brdma::qp
