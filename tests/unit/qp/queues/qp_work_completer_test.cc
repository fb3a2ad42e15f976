// qp/queues/work_completer.h: work requests complete in posting order, each once; a local fault waits its turn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "qp/queues/work_completer.h"

namespace brdma::qp {
namespace {

using testing::ElementsAre;

struct Made {
  std::uint64_t wr_id;
  CompletionStatus status;
  bool operator==(const Made&) const = default;
};

struct Poster {
  Poster() {
    identity.send_cq = &cq;
    identity.qpn = 9;
  }
  void post(std::uint64_t wr_id, WorkOpcode opcode = WorkOpcode::kRdmaWrite, std::uint32_t flags = kSendSignaled) {
    SendRequest request;
    request.wr_id = wr_id;
    request.opcode = opcode;
    request.flags = flags;
    ASSERT_TRUE(queue.push(request, 100));
  }
  void begin(int count = 1) {
    while (count-- > 0) queue.begin_next();
  }
  std::vector<Made> made() {
    std::vector<Made> all;
    Completion completion;
    while (cq.poll({&completion, 1}) == 1) all.push_back({completion.wr_id, completion.status});
    return all;
  }

  EngineConfig config;
  memory::MemoryTable memory{SecretRandom{1, "keys"}};
  Statistics statistics;
  Environment environment{.config = config, .memory = memory, .telemetry = {.statistics = statistics}};
  Identity identity;
  CompletionQueue cq{16, nullptr};
  SendQueue queue{QpCapabilities{.send_wr_max = 16, .send_sge_max = 1}};
  SendFault fault;
  WorkCompleter completer{environment, identity, queue, fault};
  Instant now = Instant{} + 1_s;
};

constexpr auto kSuccess = CompletionStatus::kSuccess;
constexpr auto kFlushed = CompletionStatus::kFlushed;
constexpr auto kBadKey = CompletionStatus::kLocalProtectionError;

TEST(WorkCompleter, UnsignaledOnesAreSilentUnlessTheyFail) {
  Poster poster;
  poster.post(1, WorkOpcode::kRdmaWrite, 0);
  poster.post(2);
  poster.post(3, WorkOpcode::kRdmaWrite, 0);
  poster.begin(3);
  poster.completer.complete(kSuccess, poster.now);
  poster.completer.complete(kSuccess, poster.now);
  poster.completer.complete(kFlushed, poster.now);
  EXPECT_THAT(poster.made(), ElementsAre(Made{2, kSuccess}, Made{3, kFlushed}));
  EXPECT_TRUE(poster.queue.empty());
}

TEST(WorkCompleter, LocalOperationsBehindCompleteWithIt) {
  Poster poster;
  poster.post(1);
  poster.post(2, WorkOpcode::kLocalInvalidate);
  poster.post(3, WorkOpcode::kBindMw);
  poster.post(4);
  poster.begin(2);  // the third has not begun
  poster.completer.complete(kSuccess, poster.now);
  EXPECT_THAT(poster.made(), ElementsAre(Made{1, kSuccess}, Made{2, kSuccess}));
}

TEST(WorkCompleter, AFailureFlushesWhatIsBeforeIt) {
  Poster poster;
  for (std::uint64_t id = 1; id <= 4; ++id) poster.post(id, WorkOpcode::kRdmaWrite, 0);
  poster.begin(4);
  const Outcome outcome = poster.completer.fail(2, CompletionStatus::kRemoteAccessError, poster.now);
  EXPECT_TRUE(outcome.to_error);
  EXPECT_THAT(poster.made(),
              ElementsAre(Made{1, kFlushed}, Made{2, kFlushed}, Made{3, CompletionStatus::kRemoteAccessError}));
  EXPECT_EQ(poster.queue.head(), 3U) << "the queue pair flushes the rest";
}

TEST(WorkCompleter, ALocalFaultWaitsUntilWhatWasPostedBeforeIsDone) {
  Poster poster;
  for (std::uint64_t id = 1; id <= 4; ++id) poster.post(id);
  poster.begin(4);
  poster.fault.set(3, CompletionStatus::kWindowBindError);
  poster.fault.set(2, kBadKey);
  poster.fault.set(3, CompletionStatus::kWindowBindError);
  EXPECT_TRUE(poster.fault.is_set());
  EXPECT_FALSE(poster.fault.is_set_at(1)) << "it still leaves";
  EXPECT_TRUE(poster.fault.is_set_at(2));
  EXPECT_TRUE(poster.fault.is_set_at(3));
  EXPECT_FALSE(poster.completer.outcome(poster.now).asks_something());
  poster.completer.complete(kSuccess, poster.now);
  EXPECT_FALSE(poster.completer.outcome(poster.now).asks_something());
  poster.completer.complete(kSuccess, poster.now);
  EXPECT_TRUE(poster.completer.outcome(poster.now).to_error);
  EXPECT_THAT(poster.made(), ElementsAre(Made{1, kSuccess}, Made{2, kSuccess}, Made{3, kBadKey}));
}

TEST(WorkCompleter, ALostCompletionEndsTheQueuePair) {
  Poster poster;
  for (std::uint64_t id = 1; id <= 17; ++id) {
    ASSERT_NO_FATAL_FAILURE(poster.post(id));
    poster.begin();
    poster.completer.complete(kSuccess, poster.now);
    ASSERT_EQ(poster.fault.lost(), id > 16) << id;
  }
  const Outcome outcome = poster.completer.outcome(poster.now);
  EXPECT_TRUE(outcome.to_error);
  EXPECT_EQ(outcome.async_event, kEventQpFatal);
}

}  // namespace
}  // namespace brdma::qp
