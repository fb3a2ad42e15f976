#include <gtest/gtest.h>

#include "recovery/rtt_estimator.h"

namespace brdma::recovery {
namespace {

TEST(RttEstimator, FollowsRfc6298) {
  const Instant now;
  RttEstimator rtt;
  EXPECT_FALSE(rtt.has_sample());
  rtt.sample(100_us, now);
  EXPECT_EQ(rtt.smoothed(), 100_us);
  EXPECT_EQ(rtt.variation(), 50_us);
  rtt.sample(180_us, now);  // variation 3/4 * 50 + 1/4 * 80, smoothed 7/8 * 100 + 1/8 * 180
  EXPECT_EQ(rtt.variation(), Duration::from_ns(57'500));
  EXPECT_EQ(rtt.smoothed(), 110_us);
  EXPECT_EQ(rtt.minimum(), 100_us);
  rtt.sample(20_us, now);
  EXPECT_EQ(rtt.minimum(), 20_us);
  rtt.sample(Duration::from_ns(-5), now);  // a peer's echo of the future
  EXPECT_EQ(rtt.minimum(), 0_us);
}

TEST(RttEstimator, TimeoutsHaveFloorAndCeiling) {
  const Instant now;
  RttEstimator rtt;
  EXPECT_EQ(rtt.retransmit_timeout(1_ms, 67_ms, 0), 1_ms) << "no sample: the floor";
  EXPECT_EQ(rtt.retransmit_timeout(1_ms, 67_ms, 3), 8_ms);
  rtt.sample(1_ms, now);  // SRTT + 4 RTTVAR = 3 ms
  EXPECT_EQ(rtt.retransmit_timeout(1_ms, 67_ms, 0), 3_ms);
  EXPECT_EQ(rtt.retransmit_timeout(1_ms, 67_ms, 1), 6_ms);
  EXPECT_EQ(rtt.retransmit_timeout(1_ms, 67_ms, 5), 67_ms);
  EXPECT_EQ(rtt.retransmit_timeout(1_ms, 67_ms, 4'000'000'000u), 67_ms);
  EXPECT_EQ(rtt.retransmit_timeout(1_ms, 2_ms, 0), 2_ms);
  EXPECT_EQ(rtt.probe_timeout(250_us), 2_ms);
  EXPECT_EQ(rtt.probe_timeout(5_ms), 5_ms);
}

// One packet in a thousand met a host without a core.
TEST(RttEstimator, TheLongestOfLateIsRememberedAndForgotten) {
  Instant now;
  RttEstimator rtt;
  rtt.sample(4_ms, now);
  for (int i = 0; i < 1000; ++i) rtt.sample(100_us, now = now + 100_us);
  EXPECT_LT(rtt.smoothed() + rtt.variation() * 4, 200_us) << "they have forgotten it";
  EXPECT_EQ(rtt.peak(), 4_ms);
  EXPECT_EQ(rtt.retransmit_timeout(1_ms, 67_ms, 0), 6_ms);
  EXPECT_EQ(rtt.probe_timeout(250_us), 5_ms);
  for (int i = 0; i < 10; ++i) rtt.sample(100_us, now = now + RttEstimator::kPeakHalfLife);
  EXPECT_EQ(rtt.peak(), 100_us);
  EXPECT_EQ(rtt.retransmit_timeout(1_ms, 67_ms, 0), 1_ms);
}

}  // namespace
}  // namespace brdma::recovery
