// recovery/tolerance.h: limits that learn, fast up and slowly down, within bounds.
#include <gtest/gtest.h>

#include "recovery/tolerance.h"

namespace brdma::recovery {
namespace {

constexpr Instant kStart = Instant::from_ns(1'000'000);

constexpr Lateness late(std::uint32_t depth, Duration age) { return {.depth = depth, .age = age, .stall = age}; }

TEST(Tolerance, BeginsWithTheReferenceAndStaysThereOnAPathInOrder) {
  Tolerance tolerance{ToleranceConfig{}};
  for (int i = 0; i < 100; ++i) tolerance.elapse(kStart + 64_ms * i);
  EXPECT_EQ(tolerance.limits().depth_max, 8u);
  EXPECT_EQ(tolerance.limits().age_max, 50_us);
  EXPECT_EQ(tolerance.limits().stall_max, 80_us);
}

TEST(Tolerance, WhatTheLimitsCoverWithAQuarterToSpareChangesNothing) {
  Tolerance tolerance{ToleranceConfig{}};
  EXPECT_FALSE(tolerance.came_late(late(6, 40_us), kStart));
  EXPECT_EQ(tolerance.limits().depth_max, 8u);
}

TEST(Tolerance, RisesAtOnceToFiveQuartersOfWhatWasLate) {
  Tolerance tolerance{ToleranceConfig{}};
  EXPECT_TRUE(tolerance.came_late(late(8, 10_us), kStart));  // at the limit: no room to spare
  EXPECT_EQ(tolerance.limits().depth_max, 10u);
  EXPECT_EQ(tolerance.limits().age_max, 50_us);
  EXPECT_TRUE(tolerance.came_late(late(40, 200_us), kStart));  // a misjudgement
  EXPECT_EQ(tolerance.limits().depth_max, 50u);
  EXPECT_EQ(tolerance.limits().age_max, 250_us);
  EXPECT_EQ(tolerance.limits().stall_max, 250_us);
}

TEST(Tolerance, TheSameLatenessIsNotMisjudgedTwice) {
  Tolerance tolerance{ToleranceConfig{}};
  for (std::uint32_t depth = 1; depth <= 1000; depth += 37) {
    const Duration age = 1_us * depth;
    tolerance.came_late(late(depth, age), kStart);
    const GapFacts again{depth, false, kStart, kStart};
    EXPECT_TRUE(std::holds_alternative<WaitUntil>(judge(again, tolerance.limits(), kStart + age))) << depth;
  }
}

// If a new request takes longer than the ceiling, waiting so long is no slower.
TEST(Tolerance, TheCeilingOfTimesIsAtLeastWhatARepairTakes) {
  Tolerance tolerance{ToleranceConfig{}};
  EXPECT_TRUE(tolerance.came_late(late(1, 5_ms), kStart, 10_ms));
  EXPECT_EQ(tolerance.limits().age_max, 6'250_us);
  EXPECT_TRUE(tolerance.came_late(late(1, 30_ms), kStart, 10_ms));
  EXPECT_EQ(tolerance.limits().age_max, 10_ms);
  EXPECT_FALSE(tolerance.came_late(late(1, 30_ms), kStart, 0_us));
  Tolerance fixed{ToleranceConfig{.time_ceiling = 0_us}};
  (void)fixed.came_late(late(1, 5_ms), kStart, 10_ms);
  EXPECT_EQ(fixed.limits().age_max, 50_us);
}

// The base may have stood before the gap was seen.
TEST(Tolerance, TheStallIsLearntApartFromTheAge) {
  Tolerance tolerance{ToleranceConfig{}};
  EXPECT_TRUE(tolerance.came_late({.depth = 1, .age = 40_us, .stall = 90_us}, kStart));
  EXPECT_EQ(tolerance.limits().age_max, 50_us);
  EXPECT_EQ(tolerance.limits().stall_max, 112'500_ns);
  EXPECT_TRUE(tolerance.came_late({.depth = 1, .age = 200_us, .stall = {}}, kStart)) << "not at the base";
  EXPECT_EQ(tolerance.limits().stall_max, 250_us);
}

TEST(Tolerance, TheStallInPacketsIsLearntWhereItCounts) {
  Tolerance tolerance{ToleranceConfig{.reference = {.stall_packets = 4}}};
  EXPECT_TRUE(tolerance.came_late(late(8, 10_us), kStart));
  EXPECT_EQ(tolerance.limits().stall_packets, 10u);
  tolerance.elapse(kStart + 3600_s);
  EXPECT_EQ(tolerance.limits().stall_packets, 4u);
  (void)tolerance.came_late(late(8, 10_us), kStart + 3601_s);
  tolerance.configure(ToleranceConfig{});
  EXPECT_EQ(tolerance.limits().stall_packets, 0u);
  EXPECT_TRUE(tolerance.came_late(late(40, 10_us), kStart + 3602_s));
  EXPECT_EQ(tolerance.limits().stall_packets, 0u) << "not counted";
}

TEST(Tolerance, NeverBeyondTheCeilings) {
  Tolerance tolerance{ToleranceConfig{}};
  tolerance.came_late(late(1u << 23, 30_s), kStart);
  EXPECT_EQ(tolerance.limits().depth_max, 1024u);
  EXPECT_EQ(tolerance.limits().age_max, 1_ms);
  EXPECT_EQ(tolerance.limits().stall_max, 1_ms);
}

TEST(Tolerance, ComesDownSlowlyAndWholly) {
  Tolerance tolerance{ToleranceConfig{}};
  tolerance.came_late(late(80, 400_us), kStart);
  ASSERT_EQ(tolerance.limits().depth_max, 100u);
  // The period that it came in, and the one after: still wanted.
  tolerance.elapse(kStart + 64_ms);
  tolerance.elapse(kStart + 128_ms);
  EXPECT_EQ(tolerance.limits().depth_max, 100u);
  std::uint32_t before = tolerance.limits().depth_max;
  tolerance.elapse(kStart + 192_ms);
  EXPECT_EQ(tolerance.limits().depth_max, before - (before - 8) / 8);
  for (int i = 4; i < 80; ++i) {
    before = tolerance.limits().depth_max;
    tolerance.elapse(kStart + 64_ms * i);
    EXPECT_LE(tolerance.limits().depth_max, before);
    EXPECT_GE(tolerance.limits().depth_max, 8u);
  }
  EXPECT_EQ(tolerance.limits().depth_max, 8u);
  EXPECT_EQ(tolerance.limits().age_max, 50_us);
  EXPECT_EQ(tolerance.limits().stall_max, 80_us);
}

TEST(Tolerance, StaysUpWhileThePathGoesOnReordering) {
  Tolerance tolerance{ToleranceConfig{}};
  for (int i = 0; i < 200; ++i) tolerance.came_late(late(32, 120_us), kStart + 50_ms * i);
  EXPECT_EQ(tolerance.limits().depth_max, 40u);
  EXPECT_EQ(tolerance.limits().age_max, 150_us);
}

TEST(Tolerance, ComesDownAlsoWhenNobodyCalledForLong) {
  Tolerance tolerance{ToleranceConfig{}};
  tolerance.came_late(late(1000, 900_us), kStart);
  tolerance.elapse(kStart + 3600_s);
  EXPECT_EQ(tolerance.limits().depth_max, 8u);
  EXPECT_EQ(tolerance.limits().age_max, 50_us);
}

TEST(Tolerance, CanBeSwitchedOff) {
  Tolerance tolerance{ToleranceConfig{.adaptive = false}};
  EXPECT_FALSE(tolerance.came_late(late(500, 1_ms), kStart));
  EXPECT_EQ(tolerance.limits().depth_max, 8u);
}

TEST(Tolerance, AReferenceAboveTheCeilingIsKept) {
  Tolerance tolerance{ToleranceConfig{.reference = {.depth_max = 2000, .age_max = 5_ms, .stall_max = 5_ms}}};
  tolerance.came_late(late(5000, 10_ms), kStart);
  EXPECT_GE(tolerance.limits().depth_max, 2000u);
  EXPECT_EQ(tolerance.limits().age_max, 5_ms);
}

TEST(Tolerance, AnotherReferenceKeepsWhatWasLearntBeyondTheOldOne) {
  Tolerance tolerance{ToleranceConfig{}};
  tolerance.came_late(late(40, 10_us), kStart);
  ASSERT_EQ(tolerance.limits().depth_max, 50u);
  ToleranceConfig other;
  other.reference = {.depth_max = 20, .age_max = 5_us, .stall_max = 100_us};
  tolerance.configure(other);
  EXPECT_EQ(tolerance.limits().depth_max, 50u);
  EXPECT_EQ(tolerance.limits().age_max, 5_us);  // was never beyond the old reference
  EXPECT_EQ(tolerance.limits().stall_max, 100_us);
  other.depth_ceiling = 30;
  tolerance.configure(other);
  EXPECT_EQ(tolerance.limits().depth_max, 30u);
  other.adaptive = false;
  tolerance.configure(other);
  EXPECT_EQ(tolerance.limits().depth_max, 20u);
}

}  // namespace
}  // namespace brdma::recovery
