// Posts that wait for each other, and their rest that does not fill a batch.
#include <gtest/gtest.h>

#include "io/poll/post_gather.h"

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

}  // namespace
}  // namespace brdma::io
