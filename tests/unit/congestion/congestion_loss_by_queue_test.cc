// congestion/window/loss_by_queue.h: when a crowded flow's losses are random.
#include <gtest/gtest.h>

#include <cstdint>

#include "congestion/window/loss_by_queue.h"

namespace brdma::congestion {
namespace {

constexpr LossByQueueConfig kConfig;
constexpr std::uint64_t kPacket = 4096;
constexpr Duration kBase = 100_us, kFull = 200_us;

// A crowded flow that has been one for long enough, and has lost a packet behind a queue of kFull. One acknowledgement
// of a packet comes each 100 us.
struct Flow {
  Flow() {
    loss.on_delivered(kPacket, kFull, kBase, now);
    wait(kConfig.start_time);
    deliver(1, kFull);
  }
  Instant wait(Duration by) { return now = now + by; }
  // A span later nothing is recent but `queue`.
  void deliver(int packets, Duration queue) {
    wait(kConfig.span * 3);
    for (int i = 0; i < packets; ++i) loss.on_delivered(kPacket, queue, kBase, wait(100_us));
  }
  bool lose(int packets = 1) {
    bool random = false;
    for (int i = 0; i < packets; ++i) random = loss.on_loss(kPacket, kPacket, now) || random;
    return random;
  }
  LossByQueue loss;
  Instant now = Instant{} + 1_s;
};

TEST(LossByQueue, SixPacketsAtShortQueuesAreRandom) {
  Flow flow;
  EXPECT_FALSE(flow.lose());
  flow.deliver(10, kFull / 2 - 1_us);
  flow.deliver(10, kFull / 2 - 1_us);
  EXPECT_FALSE(flow.lose(5));
  EXPECT_TRUE(flow.lose());
}

TEST(LossByQueue, AQueueOfHalfTheLongestIsNotShort) {
  Flow flow;
  EXPECT_FALSE(flow.lose());
  flow.deliver(20, kFull / 2);
  flow.deliver(20, kFull / 2);
  EXPECT_FALSE(flow.lose(20));
}

// A loss is found some time after it: a queue counts for one to two spans.
TEST(LossByQueue, TheQueueOfALossIsTheLongestOfTheLastSpans) {
  Flow flow;
  EXPECT_FALSE(flow.lose());
  flow.deliver(20, 10_us);
  flow.deliver(1, kFull);
  for (int i = 0; i < 4; ++i) flow.loss.on_delivered(kPacket, 10_us, kBase, flow.wait(50_us));
  EXPECT_FALSE(flow.lose(20)) << "200 us later";
  for (int i = 0; i < 8; ++i) flow.loss.on_delivered(kPacket, 10_us, kBase, flow.wait(50_us));
  EXPECT_FALSE(flow.lose(5));
  EXPECT_TRUE(flow.lose(1)) << "600 us later";
}

// One of 16,384: what a few stray packets of a burst may be.
TEST(LossByQueue, FewOfManyPacketsAreNotRandom) {
  Flow flow;
  EXPECT_FALSE(flow.lose());
  flow.deliver(200, kFull);
  flow.loss.on_delivered(8000 * kPacket, kFull, kBase, flow.wait(100_us));
  flow.deliver(1, 10_us);
  flow.deliver(1, 10_us);  // the first of them that is short
  flow.loss.on_delivered((6 * 16'384 - 6) * kPacket, 10_us, kBase, flow.wait(100_us));
  EXPECT_FALSE(flow.lose(6));
  EXPECT_TRUE(flow.lose(1));
}

TEST(LossByQueue, FourTimesAsMuchLostAtLongQueuesIsTheQueues) {
  const auto verdict = [](int lost_at_long_queues) {
    Flow flow;
    EXPECT_FALSE(flow.lose());
    flow.deliver(400 - 2 - lost_at_long_queues, kFull);  // one was delivered and one lost before
    EXPECT_FALSE(flow.lose(lost_at_long_queues));
    flow.deliver(1, 10_us);
    flow.deliver(393, 10_us);
    return flow.lose(6);  // of 400
  };
  EXPECT_TRUE(verdict(23));
  EXPECT_FALSE(verdict(30));
}

TEST(LossByQueue, NothingCountsAtTheStart) {
  LossByQueue loss;
  Instant now = Instant{} + 1_s;
  EXPECT_FALSE(loss.on_loss(kPacket, kPacket, now)) << "before the first acknowledgement";
  loss.on_delivered(kPacket, kFull, kBase, now);
  const Instant start = now + kConfig.start_time;
  EXPECT_FALSE(loss.on_loss(kPacket, kPacket, start - 1_us));
  loss.on_delivered(kPacket, 10_us, kBase, start - 1_us);
  loss.on_delivered(kPacket, 10_us, kBase, start + 1_ms);
  loss.on_delivered(kPacket, 10_us, kBase, start + 2_ms);
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(loss.on_loss(kPacket, kPacket, start + 2_ms)) << "10 us is the longest";
}

TEST(LossByQueue, TheStartIsLongerOnALongPath) {
  LossByQueue loss;
  const Instant now = Instant{} + 1_s;
  loss.on_delivered(kPacket, kFull, 10_ms, now);
  const Instant start = now + 10_ms * kConfig.start_rounds;
  EXPECT_FALSE(loss.on_loss(kPacket, kPacket, start - 1_us));
  loss.on_delivered(kPacket, 10_us, 10_ms, start - 1_us);
  loss.on_delivered(kPacket, 10_us, 10_ms, start + 21_ms);
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(loss.on_loss(kPacket, kPacket, start + 21_ms));
}

TEST(LossByQueue, AFlowIsExcusedForSomeTime) {
  Flow flow;
  EXPECT_FALSE(flow.loss.is_excused(flow.now));
  EXPECT_FALSE(flow.lose());
  flow.deliver(10, 10_us);
  flow.deliver(10, 10_us);
  ASSERT_TRUE(flow.lose(6));
  EXPECT_TRUE(flow.loss.is_excused(flow.now + kConfig.excused - 1_us));
  flow.loss.forget();
  EXPECT_TRUE(flow.loss.is_excused(flow.now + kConfig.excused - 1_us)) << "also once it is no longer crowded";
  EXPECT_FALSE(flow.loss.is_excused(flow.now + kConfig.excused));
}

// Half of the counts, and a sixteenth of the longest queue.
TEST(LossByQueue, CountsAgeByPeriods) {
  Flow flow;
  EXPECT_FALSE(flow.lose());
  flow.deliver(20, 10_us);
  EXPECT_FALSE(flow.lose(5));
  flow.wait(kConfig.period);
  flow.deliver(1, 10_us);
  EXPECT_FALSE(flow.lose(3)) << "5.5 of 6";
  EXPECT_TRUE(flow.lose(1));
}

TEST(LossByQueue, TheLongestQueueShrinks) {
  Flow flow;
  EXPECT_FALSE(flow.lose());
  flow.wait(kConfig.period);
  const Duration half = (kFull - kFull / 16) / 2;
  flow.deliver(20, half);
  flow.deliver(20, half);
  EXPECT_FALSE(flow.lose(20)) << "short before";
}

}  // namespace
}  // namespace brdma::congestion
