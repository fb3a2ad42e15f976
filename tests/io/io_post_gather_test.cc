// Posts that wait for each other, and their rest that does not fill a batch.
#include <gtest/gtest.h>
#include <poll.h>

#include <memory>

#include "io/poll/post_gather.h"
#include "io/shard/clock.h"
#include "io/shard/shard.h"
#include "shard_side.h"
#include "test_lease.h"

namespace brdma::io {
namespace {

constexpr std::uint32_t kMtu = 4096, kABatch = 15;

const QueuePair* some(std::uintptr_t number) { return reinterpret_cast<const QueuePair*>(number * 64); }
PostGather::Posts long_ones(const QueuePair* from, std::uint64_t packets) {
  return {.from = from, .count = 1, .bytes = packets * kMtu, .packets = packets};
}
PostGather::Posts small_one(const QueuePair* from) { return {.from = from, .count = 1, .bytes = 64}; }

TEST(PostGather, WaitsUntilSomeBatchesAreFull) {
  PostGather gather;
  EXPECT_FALSE(gather.any());
  EXPECT_TRUE(gather.add(long_ones(some(1), 16), 100, 100, Instant{}));
  EXPECT_TRUE(gather.add(long_ones(some(1), 16), 100, 100, Instant{}));
  EXPECT_TRUE(gather.any());
  EXPECT_TRUE(gather.add(long_ones(some(1), 16), 100, 100, Instant{}));
  EXPECT_FALSE(gather.add(long_ones(some(1), 16), 100, 100, Instant{}));
}

TEST(PostGather, WaitsForSoManyPostsAtMost) {
  PostGather gather;
  for (unsigned i = 1; i < PostGather::kPostsMax; ++i)
    EXPECT_TRUE(gather.add(small_one(some(1)), 100, 100, Instant{})) << i;
  EXPECT_FALSE(gather.add(small_one(some(1)), 100, 100, Instant{}));
}

TEST(PostGather, NeedsSomethingOnItsWay) {
  PostGather gather;
  EXPECT_FALSE(gather.add(small_one(some(1)), 1, PostGather::kInFlightMin - 1, Instant{}));
  EXPECT_FALSE(gather.any());
}

TEST(PostGather, WhatOthersHaveOnTheirWayWillDoForAMoment) {
  PostGather gather;
  EXPECT_TRUE(gather.add(small_one(some(1)), 0, 100, Instant{}));
  EXPECT_TRUE(gather.add(small_one(some(2)), 0, 100, Instant{} + PostGather::kOthersMax));
  EXPECT_FALSE(gather.add(small_one(some(3)), 0, 100, Instant{} + PostGather::kOthersMax + 1_us));
}

// Four messages of 16 packets.
class Rest : public testing::Test {
 protected:
  void gather(const QueuePair* from = some(1)) {
    for (int i = 0; i < 4; ++i) (void)posts.add(long_ones(from, 16), 100, 100, Instant{});
  }
  PostGather posts;
};

TEST_F(Rest, IsWhatFillsNoBatch) {
  gather();
  EXPECT_EQ(posts.full(kABatch, 100), 60u);
  EXPECT_FALSE(posts.any_rest());
  posts.sent(60, Instant{});
  EXPECT_TRUE(posts.any_rest());
  // It counts with the next posts.
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(posts.add(long_ones(some(1), 16), 100, 100, Instant{}));
  EXPECT_FALSE(posts.add(long_ones(some(1), 16), 100, 100, Instant{}));
  EXPECT_EQ(posts.full(kABatch, 100), 60u);  // of 68
}

TEST_F(Rest, ThereIsNoneWhereAllIsFull) {
  for (int i = 0; i < 15; ++i) (void)posts.add(long_ones(some(1), 4), 100, 100, Instant{});
  EXPECT_EQ(posts.full(kABatch, 100), 0u);
}

TEST_F(Rest, LeavesWhereLittleIsOnItsWay) {
  gather();
  EXPECT_EQ(posts.full(kABatch, PostGather::kRestInFlightMin - 1), 0u);
  posts.sent(60, Instant{});
  EXPECT_TRUE(posts.rest_waits(PostGather::kRestInFlightMin, Instant{}));
  EXPECT_FALSE(posts.rest_waits(PostGather::kRestInFlightMin - 1, Instant{}));
}

TEST_F(Rest, DoesNotWaitForLong) {
  gather();
  posts.sent(60, Instant{});
  EXPECT_TRUE(posts.rest_waits(1000, Instant{} + PostGather::kRestMax - 1_us));
  EXPECT_FALSE(posts.rest_waits(1000, Instant{} + PostGather::kRestMax));
}

TEST_F(Rest, IsOfOneQueuePairAlone) {
  (void)posts.add(long_ones(some(2), 16), 100, 100, Instant{});
  gather();
  EXPECT_EQ(posts.from(), nullptr);
  EXPECT_EQ(posts.full(kABatch, 100), 0u);
}

TEST_F(Rest, IsOfLongMessagesAlone) {
  (void)posts.add(small_one(some(1)), 100, 100, Instant{});
  gather();
  EXPECT_EQ(posts.full(kABatch, 100), 0u);
}

TEST_F(Rest, TakesASmallMessageWithIt) {
  gather();
  posts.sent(60, Instant{});
  EXPECT_TRUE(posts.add(small_one(some(1)), 100, 100, Instant{}));
  EXPECT_FALSE(posts.any_rest());
}

// Two shards; b receives only on request. Path MTU 1024: batches of 60 packets.
class Gathering : public testing::Test {
 protected:
  static constexpr std::uint32_t kFirst = 65536, kFirstPackets = 64, kMessage = 2048, kMessages = PostGather::kPostsMax;
  static constexpr std::uint64_t kAll = kFirstPackets + 2 * kMessages, kLeft = kFirstPackets + 60;

  void SetUp() override {
    auto leases = test::make_leases(2);
    a = std::make_unique<Side>(std::move(leases[0]), kFirst, kMessages + 2);
    b = std::make_unique<Side>(std::move(leases[1]), kFirst);
    a->connect(*b);
    b->connect(*a);
    a->write(*b, Side::kTokenBytes);  // bitmap mode is agreed
    wait_for([&] { return a->completed == 1; });
    a->shard->progress_owner().set_thread(ProgressOwner::Thread::kParked);
    sent_ = a->lease.statistics->get(Counter::kSentDataPackets);
    a->write(*b, kFirst);  // nothing else is in flight: it leaves
    for (std::uint32_t i = 1; i < kMessages; ++i) a->write(*b, kMessage);
    ASSERT_EQ(sent(), kFirstPackets);
  }
  void TearDown() override {
    wait_for([&] { return a->completed == kMessages + 2; });
    EXPECT_EQ(sent(), kAll);
  }
  void post_the_last() { a->write(*b, kMessage); }
  [[nodiscard]] std::uint64_t sent() const { return a->lease.statistics->get(Counter::kSentDataPackets) - sent_; }
  template <class Condition>
  void wait_for(Condition condition) {
    const Instant end = monotonic_now() + 20_s;
    while (!condition() && monotonic_now() < end) {
      (void)b->poll();
      (void)a->poll();
    }
    ASSERT_TRUE(condition());
  }

  std::unique_ptr<Side> a, b;
  std::uint64_t sent_ = 0;
};

TEST_F(Gathering, LeavesInFullBatches) {
  post_the_last();
  EXPECT_EQ(sent(), kLeft);
}

TEST_F(Gathering, ThePollThatFindsNothingLeavesTheRestForAMoment) {
  const Instant posted = monotonic_now();
  post_the_last();
  const bool found = a->poll();
  if (monotonic_now() - posted < PostGather::kRestMax) {  // unless our core was lost meanwhile
    EXPECT_FALSE(found);
    EXPECT_EQ(sent(), kLeft);
  }
  // b does not receive, so only time lets it go.
  const Instant end = monotonic_now() + 20_s;
  while (sent() == kLeft && monotonic_now() < end) (void)a->poll();
  EXPECT_GE(monotonic_now() - posted, PostGather::kRestMax);
  EXPECT_EQ(sent(), kAll);
}

TEST_F(Gathering, TheThreadSendsTheRestOfAProgramThatDoesNotCall) {
  post_the_last();
  (void)a->shard->make_progress();
  EXPECT_EQ(sent(), kAll);
}

TEST_F(Gathering, AProgramThatGoesToSleepLeavesNoRest) {
  post_the_last();
  a->shard->request_notify(a->cq, false);
  EXPECT_EQ(sent(), kAll);
}

}  // namespace
}  // namespace brdma::io
