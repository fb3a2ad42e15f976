// congestion/window/additive.h: how much is added to a window, by the queue and after a loss.
#include <gtest/gtest.h>

#include <cstdint>

#include "congestion/window/additive.h"

namespace brdma::congestion {
namespace {

constexpr Duration kAllowed = 200_us;  // base and target, 100 us each
constexpr std::uint64_t kBytes = AdditiveConfig{}.bytes;
constexpr int kCalm = AdditiveConfig{}.calm_rounds;

TEST(Additive, UpToTheTargetItIsWhole) {
  const Additive additive;
  EXPECT_EQ(additive.bytes(kAllowed, 100_us), kBytes);
  EXPECT_EQ(additive.bytes(kAllowed, 200_us), kBytes);
  EXPECT_EQ(additive.bytes(kAllowed, {}), kBytes) << "nothing is measured";
}

// 8192 * (200 / 250) ^ 12 = 562.9; * (200 / 300) ^ 12 = 63.1; * (1 / 2) ^ 12 = 2
TEST(Additive, BeyondItDecreasesWithTheTwelfthPower) {
  const Additive additive;
  EXPECT_NEAR(static_cast<double>(additive.bytes(kAllowed, 250_us)), 563, 2);
  EXPECT_NEAR(static_cast<double>(additive.bytes(kAllowed, 300_us)), 63, 1);
  EXPECT_EQ(additive.bytes(kAllowed, 400_us), 2u);
}

// Left out for 16 rounds, then a 64th comes back with each.
TEST(Additive, AfterALossInALongQueueItComesBackLinearly) {
  Additive additive;
  additive.on_loss();
  EXPECT_TRUE(additive.on_round(76_us, 100_us));
  for (int i = 0; i < kCalm / 4; ++i) {
    EXPECT_EQ(additive.bytes(kAllowed, 200_us), 0u) << i;
    EXPECT_FALSE(additive.on_round(76_us, 100_us)) << "the loss belongs to one round";
  }
  for (int i = 0; i < kCalm; ++i) {
    EXPECT_EQ(additive.bytes(kAllowed, 200_us), kBytes / kCalm * static_cast<unsigned>(i));
    EXPECT_EQ(additive.bytes_reported(), AdditiveConfig{}.bytes_reported / kCalm * static_cast<unsigned>(i));
    EXPECT_FALSE(additive.on_round(76_us, 100_us));
  }
  EXPECT_EQ(additive.bytes(kAllowed, 200_us), kBytes);
}

TEST(Additive, ALossInAShortQueueIsRandom) {
  Additive additive;
  additive.on_loss();
  EXPECT_FALSE(additive.on_round(75_us, 100_us));
  EXPECT_EQ(additive.bytes(kAllowed, 200_us), kBytes);
  EXPECT_FALSE(additive.on_round(200_us, 100_us)) << "nor does it count later";
}

}  // namespace
}  // namespace brdma::congestion
