// Shared receive queues: the order in which queue pairs take receives, flushes, and events.
#include <gmock/gmock.h>

#include <cerrno>

#include "qp/queues/shared_receive_queue.h"
#include "support/two_engines.h"

namespace brdma::test {
namespace {

using testing::ElementsAre;

// Side 1 has two queue pairs on one shared receive queue, connected to two of side 0.
class SharedReceives : public testing::TestWithParam<RecoveryMode> {
 protected:
  static constexpr std::uint32_t kBytes = 4096;

  struct Options {
    std::uint32_t entries = 64;
    std::uint8_t rnr_retry = 7;
  };
  SharedReceives() { make(Options{}); }

  void make(Options options) {
    PairOptions pair_options;
    pair_options.mode[0] = pair_options.mode[1] = GetParam();
    pair_options.connect = false;
    pair_options.rnr_retry = options.rnr_retry;
    pair = std::make_unique<TwoEngines>(pair_options);
    Engine& engine = *pair->side[1].engine;
    SrqAttributes wanted{.wr_max = options.entries, .sge_max = 2};
    srq = engine.create_srq(pair->side[1].pd, wanted, &srq).value();
    ASSERT_TRUE(engine.destroy_qp(pair->side[1].qp).ok());
    for (int k = 0; k < 2; ++k) {
      receiver[k] = make_receiver(k);
      sender[k] = k == 0 ? pair->side[0].qp : make_qp(0, nullptr, &sender[k]);
      pair->side[0].qp = sender[k];
      pair->side[1].qp = receiver[k];
      pair->connect(0);
      pair->connect(1);
    }
    pair->run_for(2_ms);
    pair->wire.clear();
    use(0);
  }
  QueuePair* make_qp(int side, SharedReceiveQueue* shared, void* user) {
    TwoEngines::Side& me = pair->side[side];
    QpCreate create{.pd = me.pd,
                    .send_cq = me.send_cq,
                    .receive_cq = me.receive_cq,
                    .srq = shared,
                    .capabilities = {.send_wr_max = 256, .receive_wr_max = 7, .send_sge_max = 4, .receive_sge_max = 9},
                    .user = user};
    QueuePair* const qp = me.engine->create_qp(create).value();
    if (shared != nullptr) {
      EXPECT_EQ(create.capabilities.receive_wr_max, 0u);
      EXPECT_EQ(create.capabilities.receive_sge_max, 0u);
    }
    return qp;
  }
  QueuePair* make_receiver(int k) { return make_qp(1, srq, &receiver[k]); }
  void use(int k) {
    pair->side[0].qp = sender[k];
    pair->side[1].qp = receiver[k];
  }
  std::uint32_t number(int k) { return pair->side[1].engine->qp_num(receiver[k]); }

  Status post_shared(std::uint64_t wr_id, std::uint32_t bytes = kBytes) {
    const Sge sge{pair->side[1].at(wr_id * kBytes), bytes, pair->side[1].key};
    return pair->side[1].engine->post_receive(srq, {wr_id, std::span<const Sge>{&sge, 1}}, pair->now);
  }
  Status send(int k, std::uint64_t wr_id, std::uint32_t bytes = 100) {
    use(k);
    return pair->post(0, pair->request(0, WorkOpcode::kSend, wr_id * kBytes, bytes, wr_id));
  }
  std::vector<std::uint64_t> received() {
    std::vector<std::uint64_t> ids;
    for (const Completion& each : pair->poll_receives(1)) {
      EXPECT_EQ(each.status, CompletionStatus::kSuccess);
      ids.push_back(each.wr_id);
    }
    return ids;
  }
  std::size_t reported(Notification::Kind kind) const {
    std::size_t n = 0;
    for (const Notification& each : pair->side[1].notifications) n += each.kind == kind ? 1 : 0;
    return n;
  }

  std::unique_ptr<TwoEngines> pair;
  SharedReceiveQueue* srq = nullptr;
  QueuePair *sender[2] = {}, *receiver[2] = {};
};

TEST_P(SharedReceives, AreTakenInTheOrderOfArrivalAndCompletionsNameTheQueuePair) {
  for (std::uint64_t id = 0; id < 4; ++id) ASSERT_TRUE(post_shared(id).ok());
  pair->fill(0, 1);
  for (std::uint64_t id = 0; id < 4; ++id) {
    ASSERT_TRUE(send(static_cast<int>(id % 2), id, 3000).ok());
    ASSERT_TRUE(pair->run_until_idle());
  }
  const auto completions = pair->poll_receives(1);
  ASSERT_EQ(completions.size(), 4u);
  for (std::uint64_t id = 0; id < 4; ++id) {
    EXPECT_EQ(completions[id].wr_id, id);
    EXPECT_EQ(completions[id].byte_length, 3000u);
    EXPECT_EQ(completions[id].qp_num, number(static_cast<int>(id % 2)));
    EXPECT_TRUE(pair->same(id * kBytes, 3000));
  }
  EXPECT_EQ(srq->size(), 0u);
}

TEST_P(SharedReceives, AQueuePairOfItTakesNoReceivesOfItsOwn) {
  EXPECT_EQ(pair->post_receive(1, 0, 16, 1).error(), EINVAL);
}

TEST_P(SharedReceives, TheReceiverIsNotReadyUntilOneIsPosted) {
  ASSERT_TRUE(send(0, 1).ok());
  ASSERT_TRUE(send(1, 2).ok());
  pair->run_for(12_ms);
  EXPECT_GT(pair->side[1].count(Counter::kSentRnr), 0u);
  EXPECT_TRUE(received().empty());
  ASSERT_TRUE(post_shared(3).ok());
  ASSERT_TRUE(post_shared(4).ok());
  ASSERT_TRUE(pair->run_until_idle());
  EXPECT_THAT(received(), ElementsAre(3, 4));
  EXPECT_EQ(pair->poll(0).size(), 2u);
}

// The order of messages decides, not the order of arrival.
TEST_P(SharedReceives, EarlyMessagesLeaveTheReceivesOfThoseBeforeThem) {
  for (std::uint64_t id = 0; id < 20; ++id) ASSERT_TRUE(post_shared(id).ok());
  pair->fill(0, 1);
  pair->drop = [](const Sent& sent) { return sent.data() && sent.psn() == 1001 && sent.copy == 1; };
  for (std::uint64_t id = 0; id < 20; ++id) ASSERT_TRUE(send(0, id, 2500).ok());
  ASSERT_TRUE(pair->run_until_idle());
  std::vector<std::uint64_t> expected;
  for (std::uint64_t id = 0; id < 20; ++id) expected.push_back(id);
  EXPECT_EQ(received(), expected);
  for (std::uint64_t id = 0; id < 20; ++id) EXPECT_TRUE(pair->same(id * kBytes, 2500));
}

TEST_P(SharedReceives, FewerReceivesThanMessagesUnderLossAreEnough) {
  pair->drop = [random = Random{1, "loss"}](const Sent& sent) mutable { return sent.data() && random.below(20) == 0; };
  std::uint64_t sent[2] = {}, done = 0, posted = 0;
  while (posted < 8) ASSERT_TRUE(post_shared(posted++).ok());
  for (int round = 0; round < 200'000 && done < 120; ++round) {
    for (int k = 0; k < 2; ++k) {
      if (sent[k] < 60 && send(k, sent[k] % 16, 1500).ok()) ++sent[k];
    }
    pair->run_for(20_us);
    for (const Completion& each : pair->poll_receives(1)) {
      ASSERT_EQ(each.status, CompletionStatus::kSuccess);
      ++done;
      ASSERT_TRUE(post_shared(posted++ % 16).ok());
    }
    for (const Completion& each : pair->poll(0)) ASSERT_EQ(each.status, CompletionStatus::kSuccess);
  }
  EXPECT_EQ(done, 120u);
  ASSERT_TRUE(pair->run_until_idle());
  EXPECT_EQ(srq->size(), 8u);
}

TEST_P(SharedReceives, TheLimitIsReportedOncePerArming) {
  Engine& engine = *pair->side[1].engine;
  for (std::uint64_t id = 0; id < 5; ++id) ASSERT_TRUE(post_shared(id).ok());
  ASSERT_TRUE(engine.modify_srq(srq, {.limit = 4}, kSrqAttrLimit).ok());
  ASSERT_TRUE(send(0, 0).ok());
  ASSERT_TRUE(pair->run_until_idle());
  EXPECT_EQ(reported(Notification::Kind::kSrqLimitReached), 0u) << "four are left, and that is the limit";
  ASSERT_TRUE(send(1, 1).ok());
  ASSERT_TRUE(pair->run_until_idle());
  EXPECT_EQ(reported(Notification::Kind::kSrqLimitReached), 1u);
  EXPECT_EQ(pair->side[1].notifications.back().user, &srq);
  EXPECT_EQ(engine.query_srq(srq).limit, 0u);
  ASSERT_TRUE(send(1, 2).ok());
  ASSERT_TRUE(pair->run_until_idle());
  EXPECT_EQ(reported(Notification::Kind::kSrqLimitReached), 1u);
  ASSERT_TRUE(engine.modify_srq(srq, {.limit = 3}, kSrqAttrLimit).ok());
  pair->run_for(1_us);
  EXPECT_EQ(reported(Notification::Kind::kSrqLimitReached), 2u) << "two are left: below the limit already";
}

TEST_P(SharedReceives, ChangesAreCheckedAndNothingChangesWhereTheyAreWrong) {
  Engine& engine = *pair->side[1].engine;
  for (std::uint64_t id = 0; id < 5; ++id) ASSERT_TRUE(post_shared(id).ok());
  EXPECT_EQ(engine.modify_srq(srq, {.wr_max = 4}, kSrqAttrWrMax).error(), EINVAL);
  EXPECT_EQ(engine.modify_srq(srq, {.wr_max = 1u << 20}, kSrqAttrWrMax).error(), EINVAL);
  EXPECT_EQ(engine.modify_srq(srq, {.wr_max = 5, .limit = 6}, kSrqAttrWrMax | kSrqAttrLimit).error(), EINVAL);
  EXPECT_EQ(engine.modify_srq(srq, {.limit = 1}, 4).error(), EINVAL);
  EXPECT_EQ(engine.query_srq(srq).wr_max, 64u);
  EXPECT_EQ(engine.query_srq(srq).limit, 0u);
  EXPECT_TRUE(engine.modify_srq(srq, {.wr_max = 5}, kSrqAttrWrMax).ok());
  EXPECT_EQ(post_shared(6).error(), ENOMEM);
  EXPECT_EQ(engine.query_srq(srq).sge_max, 2u);
}

// A receive that a message has begun to fill is used up; the others continue to serve the other queue pair.
TEST_P(SharedReceives, OnErrorTheBegunOneIsFlushedAndTheOthersStay) {
  for (std::uint64_t id = 0; id < 3; ++id) ASSERT_TRUE(post_shared(id).ok());
  pair->drop = [](const Sent& sent) { return sent.data() && sent.psn() == 1002; };
  ASSERT_TRUE(send(0, 0, 4000).ok());
  ASSERT_TRUE(send(0, 1, 4000).ok());
  pair->run_for(100_us);
  ASSERT_TRUE(pair->modify(1, QpState::kErr, kQpAttrState).ok());
  const auto completions = pair->poll_receives(1);
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].wr_id, 0u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kFlushed);
  EXPECT_EQ(completions[0].qp_num, number(0));
  EXPECT_EQ(srq->size(), 2u);
  pair->run_for(1_us);
  EXPECT_EQ(reported(Notification::Kind::kLastWqeReached), 1u);
  pair->drop = nullptr;
  ASSERT_TRUE(send(1, 2).ok());
  ASSERT_TRUE(send(1, 2).ok());
  pair->run_for(1_ms);
  EXPECT_THAT(received(), ElementsAre(1, 2));
}

TEST_P(SharedReceives, DestroyingAQueuePairGivesBackWhatItHadTaken) {
  Engine& engine = *pair->side[1].engine;
  for (std::uint64_t id = 0; id < 3; ++id) ASSERT_TRUE(post_shared(id).ok());
  pair->drop = [](const Sent& sent) { return sent.data() && sent.psn() == 1001; };
  ASSERT_TRUE(send(0, 0, 4000).ok());
  ASSERT_TRUE(send(0, 1, 4000).ok());
  pair->run_for(100_us);
  EXPECT_LT(srq->size(), 3u);
  EXPECT_EQ(engine.destroy_srq(srq).error(), EBUSY);
  EXPECT_EQ(engine.dealloc_pd(pair->side[1].pd).error(), EBUSY);
  ASSERT_TRUE(engine.destroy_qp(receiver[0]).ok());
  EXPECT_EQ(srq->size(), 3u);
  ASSERT_TRUE(engine.destroy_qp(receiver[1]).ok());
  EXPECT_TRUE(engine.destroy_srq(srq).ok());
}

TEST_P(SharedReceives, AnEngineMayGoWithEverythingInUse) {
  for (std::uint64_t id = 0; id < 3; ++id) ASSERT_TRUE(post_shared(id).ok());
  pair->drop = [](const Sent& sent) { return sent.data() && sent.psn() == 1001; };
  ASSERT_TRUE(send(0, 0, 4000).ok());
  pair->run_for(100_us);
  pair.reset();
}

// IBTA: the local keys of a shared queue's receives belong to its protection domain, whichever the queue pair's is.
TEST_P(SharedReceives, KeysAreOfTheSharedQueuesDomain) {
  TwoEngines::Side& me = pair->side[1];
  ASSERT_TRUE(me.engine->destroy_qp(receiver[0]).ok());
  me.pd = me.engine->alloc_pd();
  receiver[0] = make_receiver(0);
  ASSERT_TRUE(pair->side[0].engine->destroy_qp(sender[0]).ok());
  sender[0] = make_qp(0, nullptr, &sender[0]);
  use(0);
  pair->connect(0);
  pair->connect(1);
  ASSERT_TRUE(post_shared(5).ok());
  ASSERT_TRUE(send(0, 5).ok());
  ASSERT_TRUE(pair->run_until_idle());
  EXPECT_THAT(received(), ElementsAre(5));
}

TEST_P(SharedReceives, AMessageThatIsTooLongUsesUpItsReceive) {
  ASSERT_TRUE(post_shared(0, 1500).ok());
  ASSERT_TRUE(post_shared(1).ok());
  ASSERT_TRUE(send(0, 0, 4000).ok());
  pair->run_for(5_ms);
  const auto completions = pair->poll_receives(1);
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kLocalLengthError);
  EXPECT_EQ(srq->size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Modes, SharedReceives,
                         testing::Values(RecoveryMode::kBitmap, RecoveryMode::kStandard, RecoveryMode::kGoBackN),
                         [](const auto& info) {
                           return info.param == RecoveryMode::kBitmap     ? "Bitmap"
                                  : info.param == RecoveryMode::kStandard ? "Standard"
                                                                          : "GoBackN";
                         });

}  // namespace
}  // namespace brdma::test
