// tests design ER-7: a switch finds congestion by the length of a queue, by its delay, or by the occupancy of the
// memory that its ports share. Both sides of each limit, and what distinguishes the three.
#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"
#include "fabric/switch/output_queue.h"

namespace brdma::fabric {
namespace {

constexpr Instant at(Duration since_start) { return Instant::from_ns(1'000'000'000) + since_start; }
constexpr Bandwidth kByteAMicrosecond = Bandwidth::from_bps(8'000'000);

MarkingConfig from(std::uint64_t limit, MarkedBy by) { return {limit, limit, 1'000'000, by}; }

class Marking : public testing::Test {
 protected:
  void configure(const MarkingConfig& marking, const std::vector<std::uint32_t>& weights = {1},
                 Bandwidth rate = kByteAMicrosecond) {
    QueueConfig config{.rate = rate, .bytes = 1 << 20, .marking = marking};
    config.classes.count = static_cast<std::uint32_t>(weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) config.classes.weights[i] = weights[i];
    queue.configure(config);
  }
  bool is_marked(std::uint8_t traffic_class, Duration when = 0_us) {
    while (queue.serve(at(when))) {
    }
    return queue.admit(traffic_class, 1, at(when)).marked;
  }
  bool put(std::uint8_t traffic_class, std::uint32_t bytes, Duration when = 0_us) {
    const bool marked = is_marked(traffic_class, when);
    queue.push(0, traffic_class, bytes, 0, at(when));
    return marked;
  }
  // The delay that a packet of this class finds: the largest limit from which it is marked.
  Duration delay_found(std::uint8_t traffic_class, const std::vector<std::uint32_t>& weights, Duration when) {
    std::int64_t low = 0, high = 1'000'000'000;
    while (low < high) {
      const std::int64_t middle = (low + high + 1) / 2;
      configure(from(static_cast<std::uint64_t>(middle), MarkedBy::kDelay), weights);
      const bool marked = is_marked(traffic_class, when);
      (marked ? low : high) = marked ? middle : middle - 1;
    }
    return Duration::from_ns(low);
  }
  OutputQueue<int> queue{1, "test"};
};

TEST_F(Marking, ByDelayIsTheTimeUntilThePacketLeaves) {
  configure(from(2'000'000, MarkedBy::kDelay));
  EXPECT_FALSE(put(0, 1000));
  EXPECT_FALSE(put(0, 1000));
  EXPECT_TRUE(put(0, 1000)) << "2 ms are before it";
  EXPECT_TRUE(is_marked(0, 1_ms));
  EXPECT_FALSE(is_marked(0, 1_ms + kTick));
}

// The same bytes are a shorter delay behind a faster rate, and the same length.
TEST_F(Marking, ByDelayFollowsTheRateAndByLengthDoesNot) {
  Duration when;
  for (const bool fast : {false, true}) {
    const Bandwidth rate = Bandwidth::from_bps(fast ? 80'000'000 : 8'000'000);
    for (const MarkedBy by : {MarkedBy::kDelay, MarkedBy::kLength}) {
      when = when + 1_s;  // the queue is empty
      configure(from(by == MarkedBy::kDelay ? 2'000'000 : 2'000, by), {1}, rate);
      put(0, 1500, when);
      put(0, 1500, when);
      EXPECT_EQ(is_marked(0, when), by == MarkedBy::kLength || !fast);
    }
  }
}

TEST_F(Marking, BetweenTheLimitsTheChanceGrowsWithTheDelay) {
  configure({1'000'000, 3'000'000, 500'000, MarkedBy::kDelay});
  put(0, 2000);
  int marked = 0;
  for (int i = 0; i < 10'000; ++i) marked += is_marked(0) ? 1 : 0;
  EXPECT_NEAR(marked, 2'500, 200);  // half of the way, of a chance of a half
  put(0, 1000);
  EXPECT_TRUE(is_marked(0));
}

TEST_F(Marking, ByOccupancyEveryPortsBytesCount) {
  SharedBuffer memory;
  memory.configure({100'000, 64'000});
  OutputQueue<int> other{1, "other"};
  queue.share(&memory);
  other.share(&memory);
  configure(from(500'000, MarkedBy::kOccupancy));
  other.configure({.rate = kByteAMicrosecond, .bytes = 1 << 20});
  EXPECT_FALSE(put(0, 1000));
  other.push(0, 0, 48'999, 0, at(0_us));
  EXPECT_FALSE(is_marked(0)) << "a byte less than half of the memory";
  other.push(0, 0, 1, 0, at(0_us));
  EXPECT_TRUE(is_marked(0)) << "its own queue holds 1,000 bytes of them";
  other.clear([](int) {});
  EXPECT_FALSE(is_marked(0));
}

TEST_F(Marking, WithoutASharedMemoryNothingIsOccupied) {
  configure(from(1, MarkedBy::kOccupancy));
  put(0, 100'000);
  EXPECT_FALSE(is_marked(0));
  SharedBuffer off;
  OutputQueue<int> alone{1, "alone"};
  alone.share(&off);
  alone.configure({.rate = kByteAMicrosecond, .bytes = 1 << 20, .marking = from(1, MarkedBy::kOccupancy)});
  alone.push(0, 0, 1000, 0, at(0_us));
  EXPECT_FALSE(alone.admit(0, 1, at(0_us)).marked);
}

// A strict class waits for itself and those before it; one with a weight for its share behind all strict ones.
TEST_F(Marking, TheDelayOfAClassIsWhatLeavesBeforeIt) {
  const std::vector<std::uint32_t> weights{0, 0, 3, 1};
  configure(from(0, MarkedBy::kLength), weights);
  put(3, 500);  // in transmission
  EXPECT_EQ(delay_found(0, weights, 100_us), 400_us);
  put(1, 2000, 100_us);
  put(2, 3000, 100_us);
  put(3, 1000, 100_us);
  EXPECT_EQ(delay_found(0, weights, 100_us), 400_us);
  EXPECT_EQ(delay_found(1, weights, 100_us), 2'400_us);
  EXPECT_EQ(delay_found(2, weights, 100_us), 2'400_us + 4'000_us) << "3,000 bytes at three quarters of the rate";
  EXPECT_EQ(delay_found(3, weights, 100_us), 2'400_us + 4'000_us) << "1,000 bytes at a quarter of it";
}

// A queue with random packets in it, of one class or several strict ones, the same for the same seed.
struct RandomQueue {
  explicit RandomQueue(std::uint64_t seed) {
    Random random{seed};
    config.classes.count = 1 + static_cast<std::uint32_t>(random.below(4));
    if (config.classes.count > 1) config.classes.weights = {};
    queue.configure(config);
    for (int i = 0; i < 20; ++i) {
      now = now + Duration::from_ns(static_cast<std::int64_t>(random.below(2'000'000)));
      while (queue.serve(now)) {
      }
      queue.push(0, static_cast<std::uint8_t>(random.below(config.classes.count)),
                 1 + static_cast<std::uint32_t>(random.below(4000)), 0, now);
    }
    while (queue.serve(now)) {
    }
    last_class = static_cast<std::uint8_t>(random.below(config.classes.count));
  }
  bool marks_last_from(Duration limit) {
    config.marking = from(static_cast<std::uint64_t>(limit.ns()), MarkedBy::kDelay);
    queue.configure(config);
    return queue.admit(last_class, 1000, now).marked;
  }
  // How long the last packet waits.
  Duration delay_of_last() {
    queue.push(1, last_class, 1000, 0, now);
    while (const auto sent = queue.serve(now + 10_s)) {
      if (sent->packet == 1) return sent->at - now - kByteAMicrosecond.time_for(1000);
    }
    return {};
  }
  QueueConfig config{.rate = kByteAMicrosecond, .bytes = 1 << 30};
  OutputQueue<int> queue{1, "test"};
  Instant now = at(0_us);
  std::uint8_t last_class = 0;
};

TEST(MarkingProperty, TheDelayFoundIsTheDelayThatFollows) {
  int waited = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    const Duration delay = RandomQueue{seed}.delay_of_last();
    EXPECT_TRUE(RandomQueue{seed}.marks_last_from(delay)) << "seed " << seed;
    EXPECT_FALSE(RandomQueue{seed}.marks_last_from(delay + kTick)) << "seed " << seed;
    waited += delay > Duration{} ? 1 : 0;
  }
  EXPECT_GT(waited, 400);
}

}  // namespace
}  // namespace brdma::fabric
