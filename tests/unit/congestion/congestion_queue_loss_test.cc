// Random losses and losses of a full queue, distinguished by the waiting times of acknowledgements. tests
// congestion/window/queue_loss.h
#include <gtest/gtest.h>

#include "base/random.h"
#include "congestion/window/queue_loss.h"

namespace brdma::congestion {
namespace {

constexpr std::uint64_t kPacket = 4096;
constexpr Duration kLeast = 4_us;

// Packets over a path, one each 3 us.
class Traffic {
 public:
  void deliver(int packets, Duration queueing) {
    for (; packets > 0; --packets) judge.delivered(kPacket, queueing, window, now = now + 3_us);
  }
  bool lose() { return judge.lost(kPacket, kPacket, kLeast, window, now = now + 3_us); }

  // Over a queue that grows and empties again, 0 to `longest`. `is_lost`: of each packet, by the queue that it met.
  // Returns the number of losses until a queue was found to be full; 0: never.
  template <class Lost>
  int losses_until_full(int packets, Duration longest, Lost is_lost) {
    int losses = 0;
    for (; packets > 0; --packets) {
      const Duration queueing = longest * (step_++ % kSteps) / kSteps;
      if (!is_lost(queueing)) {
        deliver(1, queueing);
        continue;
      }
      ++losses;
      if (lose()) return losses;
    }
    return 0;
  }

  QueueLoss judge;
  WindowAtSend window = WindowAtSend::kCurrent;
  Instant now = Instant{} + 1_s;

 private:
  static constexpr std::int64_t kSteps = 64;
  std::int64_t step_ = 0;
};

TEST(QueueLoss, WhatIsLostWhereTheQueueIsLongestWasDroppedByIt) {
  Traffic path;
  const int losses = path.losses_until_full(20'000, 50_us, [](Duration queueing) { return queueing > 48_us; });
  EXPECT_GT(losses, 0);
  EXPECT_LE(losses, 10) << "but the first few, which prove nothing";
}

// After a test has shown random loss, the next one waits for a while; with much loss, twice a period at most.
TEST(QueueLoss, ChanceLosesAtAllQueues) {
  for (const std::uint32_t ppm : {1'000u, 10'000u, 50'000u, 200'000u}) {
    SCOPED_TRACE(ppm);
    Traffic path;
    Random random{7};
    const auto by_chance = [&](Duration) { return random.chance_per_million(ppm); };
    path.deliver(2'000, 0_us);
    int answers = 0;
    while (path.now < Instant{} + 2_s) {
      if (path.losses_until_full(1'000, 50_us, by_chance) == 0) continue;
      ++answers;
      path.window = WindowAtSend::kReduced;
      for (int round = 0; round < 16 && !path.judge.loses_as_much(kPacket); ++round)
        EXPECT_EQ(path.losses_until_full(100, 50_us, by_chance), 0);
      if (path.judge.loses_as_much(kPacket)) path.judge.was_random();
      path.window = WindowAtSend::kCurrent;
    }
    EXPECT_LE(answers, ppm < 100'000 ? 3 : 2 * 8);
  }
}

// A queue that is always full shows nothing else; the earlier delivered rate is remembered.
TEST(QueueLoss, AQueueThatStaysFullIsKnownFromTheTimeBefore) {
  Traffic path;
  path.deliver(500, 0_us);
  path.deliver(1'000, 50_us);
  int losses = 0;
  for (bool full = false; !full && losses < 100; ++losses) {
    path.deliver(9, 50_us);
    full = path.lose();
  }
  EXPECT_LE(losses, 20);
}

TEST(QueueLoss, PacketsSentBeforeTheReactionAreOfTheSameQueue) {
  Traffic path;
  EXPECT_GT(path.losses_until_full(20'000, 50_us, [](Duration queueing) { return queueing > 48_us; }), 0);
  path.window = WindowAtSend::kBeforeCut;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(path.lose());
  path.window = WindowAtSend::kCurrent;
  EXPECT_FALSE(path.lose()) << "what was answered is not held against the window of now";
}

TEST(QueueLoss, ASmallerWindowThatLosesNoLess) {
  for (const int between : {20, 400}) {
    SCOPED_TRACE(between);
    Traffic path;
    path.deliver(500, 0_us);
    bool full = false;
    for (int i = 0; !full && i < 100; ++i) {
      path.deliver(19, 50_us);
      full = path.lose();
    }
    ASSERT_TRUE(full);
    path.window = WindowAtSend::kReduced;
    for (int i = 0; i < 3; ++i) {
      EXPECT_FALSE(path.judge.loses_as_much(kPacket)) << "two packets prove nothing";
      path.deliver(between, 50_us);
      EXPECT_FALSE(path.lose());
    }
    EXPECT_EQ(path.judge.loses_as_much(kPacket), between == 20);
    path.judge.still_too_large();
    EXPECT_FALSE(path.judge.loses_as_much(kPacket));
  }
}

TEST(QueueLoss, NothingIsReportedOfAnUnknownPath) {
  Traffic path;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(path.lose());
}

TEST(QueueLoss, AQueueOfLessThanAPacketDropsNone) {
  Traffic path;
  EXPECT_EQ(path.losses_until_full(20'000, 3_us, [](Duration queueing) { return queueing > 2'900_ns; }), 0);
}

}  // namespace
}  // namespace brdma::congestion
