// TIMELY by hand: each branch of algorithm 1 with its numbers, and a closed loop over a modelled bottleneck.
#include <gtest/gtest.h>

#include <cmath>

#include "congestion/timely.h"

namespace brdma::congestion {
namespace {

constexpr Bandwidth mbit(std::uint64_t n) { return Bandwidth::from_bps(n * 1'000'000); }
double of(const Timely& timely) { return static_cast<double>(timely.rate().bps()) / 1e6; }

TEST(Timely, GrowsBelowTheLowThreshold) {
  Timely timely{{}, mbit(5000)};
  timely.on_rtt(30_us);
  EXPECT_EQ(timely.rate(), mbit(5010));
  timely.on_rtt(49_us);  // a steep gradient does not count there
  EXPECT_EQ(timely.rate(), mbit(5020));
}

TEST(Timely, ShrinksAboveTheHighThresholdByTheExcess) {
  Timely timely{{}, mbit(5000)};
  timely.on_rtt(600_us);
  EXPECT_NEAR(of(timely), 5000 * (1 - 0.8 * (1 - 500.0 / 600)), 0.5);
}

TEST(Timely, ShrinksByTheGradientBetweenThem) {
  Timely timely{{}, mbit(5000)};
  timely.on_rtt(100_us);  // the first has no gradient
  EXPECT_EQ(timely.rate(), mbit(5010));
  timely.on_rtt(110_us);  // 0.875 * 10 us / 20 us
  EXPECT_NEAR(static_cast<double>(timely.gradient()) / kOne, 0.4375, 0.001);
  EXPECT_NEAR(of(timely), 5010 * (1 - 0.8 * 0.4375), 2);
  timely.on_rtt(110_us);  // an eighth of it is left
  EXPECT_NEAR(static_cast<double>(timely.gradient()) / kOne, 0.4375 / 8, 0.001);
}

TEST(Timely, GrowsFasterWhenTheGradientHasNotRisenForFiveSamples) {
  Timely timely{{}, mbit(1000)};
  for (int i = 0; i < 4; ++i) timely.on_rtt(100_us);
  EXPECT_EQ(timely.rate(), mbit(1040));
  timely.on_rtt(100_us);
  EXPECT_EQ(timely.rate(), mbit(1090));
  timely.on_rtt(100_us);
  EXPECT_EQ(timely.rate(), mbit(1140));
  timely.on_rtt(120_us);
  const double shrunk = of(timely);
  EXPECT_LT(shrunk, 1140);
  for (int i = 0; i < 20 && timely.gradient() > 0; ++i) timely.on_rtt(119_us);
  const Bandwidth before = timely.rate();
  timely.on_rtt(119_us);
  EXPECT_EQ(timely.rate().bps() - before.bps(), 10'000'000u) << "the count restarted";
}

TEST(Timely, StaysWithinItsBounds) {
  Timely timely{{.rate_min = mbit(10), .rate_max = mbit(100)}, mbit(5000)};
  EXPECT_EQ(timely.rate(), mbit(100));
  for (int i = 0; i < 1000; ++i) timely.on_rtt(10_ms);
  EXPECT_EQ(timely.rate(), mbit(10));
  for (int i = 0; i < 1000; ++i) timely.on_rtt(10_us);
  EXPECT_EQ(timely.rate(), mbit(100));
  timely.on_rtt(Duration{});  // no sample
  EXPECT_EQ(timely.rate(), mbit(100));
}

TEST(Timely, ForAnotherPathKeepsTheDistances) {
  const TimelyConfig config = TimelyConfig{}.for_path(10_ms, mbit(1000));
  EXPECT_EQ(config.low, 10_ms + 30_us);
  EXPECT_EQ(config.high, 10_ms + 480_us);
  EXPECT_EQ(config.min_rtt, 10_ms);
  EXPECT_EQ(config.add, mbit(1));
  EXPECT_EQ(config.rate_max, mbit(1000));
}

// One sender, a bottleneck of 10 Gbit/s behind 20 us of path, a sample each 64 KB: the queue stays within the high
// threshold and the link is used.
TEST(Timely, HoldsAQueueAtABottleneck) {
  Timely timely{{.rate_max = mbit(20'000)}, mbit(10'000)};
  constexpr double kCapacity = 10e9, kSegment = 64 * 1024 * 8;
  double queue_bits = 0, sent_bits = 0, time = 0, longest = 0;
  for (int i = 0; i < 20'000; ++i) {
    const double rate = static_cast<double>(timely.rate().bps());
    const double step = kSegment / rate;
    queue_bits = std::max(0.0, queue_bits + (rate - kCapacity) * step);
    time += step;
    sent_bits += kSegment;
    if (i >= 2000) longest = std::max(longest, queue_bits / kCapacity);
    timely.on_rtt(20_us + Duration::from_ns(std::llround(queue_bits / kCapacity * 1e9)));
  }
  EXPECT_LT(longest, 600e-6);
  EXPECT_GT((sent_bits - queue_bits) / time, 0.9 * kCapacity);
}

}  // namespace
}  // namespace brdma::congestion
