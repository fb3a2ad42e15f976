// Chances are within statistical bounds, one seed replays, and one fault's setting does not change another's draws.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "fabric/impairments.h"

namespace brdma::fabric {
namespace {

constexpr int kPackets = 400'000;

struct Tally {
  int lost = 0, burst_lost = 0, held = 0, duplicated = 0, corrupted = 0, bursts = 0;
};

Tally tally(const ImpairmentConfig& config, std::uint64_t seed = 7) {
  Impairments impairments{config, seed, "h1"};
  Tally sum;
  bool before = false;
  for (int i = 0; i < kPackets; ++i) {
    const Verdict verdict = impairments.judge();
    const bool in_burst = verdict.fate == Fate::kBurstLost;
    sum.lost += verdict.fate == Fate::kLost;
    sum.burst_lost += in_burst;
    sum.bursts += in_burst && !before;
    sum.held += verdict.hold_for_packets != 0;
    sum.duplicated += verdict.duplicate;
    sum.corrupted += verdict.corruption.has_value();
    before = in_burst;
  }
  return sum;
}

// Five standard deviations of a binomial count: a sound generator fails once in two million seeds, and seeds are fixed.
void expect_chance(int count, double chance) {
  const double mean = kPackets * chance;
  EXPECT_NEAR(count, mean, 5 * std::sqrt(mean * (1 - chance)) + 0.5);
}

TEST(FabricImpairments, NothingHappensByDefault) {
  const Tally sum = tally({});
  EXPECT_EQ(sum.lost + sum.burst_lost + sum.held + sum.duplicated + sum.corrupted, 0);
}

TEST(FabricImpairments, EachChanceIsKept) {
  for (const std::uint32_t ppm : {100u, 10'000u, 250'000u}) {
    const Tally sum = tally({.loss_ppm = ppm, .reorder_ppm = ppm, .duplicate_ppm = ppm, .corrupt_ppm = ppm});
    expect_chance(sum.lost, ppm / 1e6);
    expect_chance(sum.held, ppm / 1e6);
    expect_chance(sum.duplicated, ppm / 1e6);
    expect_chance(sum.corrupted, ppm / 1e6);
  }
}

TEST(FabricImpairments, CertainFaultsAlwaysHappen) {
  const Tally sum = tally({.loss_ppm = 1'000'000, .reorder_ppm = 1'000'000, .duplicate_ppm = 1'000'000});
  EXPECT_EQ(sum.lost, kPackets);
  EXPECT_EQ(sum.held, kPackets);
  EXPECT_EQ(sum.duplicated, kPackets);
}

TEST(FabricImpairments, BurstsHaveTheirMeanLength) {
  const Tally sum = tally({.burst_loss_ppm = 2'000, .burst_length_mean = 8});
  ASSERT_GT(sum.bursts, 0);
  // About 790 bursts of geometric length: the mean's standard deviation is 7.5 / sqrt(790) = 0.27.
  EXPECT_NEAR(static_cast<double>(sum.burst_lost) / sum.bursts, 8.0, 1.4);
  EXPECT_NEAR(sum.bursts, kPackets * 0.002, 150);
}

TEST(FabricImpairments, BurstOfMeanOneIsSingleLosses) {
  const Tally sum = tally({.burst_loss_ppm = 1'000, .burst_length_mean = 1});
  expect_chance(sum.burst_lost, 0.001);
}

std::vector<int> lost_packets(const ImpairmentConfig& config, std::uint64_t seed, std::string_view link) {
  Impairments impairments{config, seed, link};
  std::vector<int> lost;
  for (int i = 0; i < 2'000; ++i) {
    if (impairments.judge().fate == Fate::kLost) lost.push_back(i);
  }
  return lost;
}

TEST(FabricImpairments, SeedAndLinkDecideAndOtherFaultsDoNot) {
  const ImpairmentConfig config{.loss_ppm = 20'000};
  const auto first = lost_packets(config, 1, "h1");
  ASSERT_FALSE(first.empty());
  EXPECT_EQ(lost_packets(config, 1, "h1"), first);
  EXPECT_NE(lost_packets(config, 2, "h1"), first);
  EXPECT_NE(lost_packets(config, 1, "h2"), first);
  ImpairmentConfig more = config;
  more.burst_loss_ppm = 1;
  more.reorder_ppm = 100'000;
  more.duplicate_ppm = 100'000;
  more.corrupt_ppm = 100'000;
  EXPECT_EQ(lost_packets(more, 1, "h1"), first);
}

TEST(FabricJitter, StaysInItsRangeAndNeverReorders) {
  Jitter jitter{3, "h1"};
  Random gaps{5};
  Instant now = Instant::from_ns(1'000'000);
  Instant last_due = now;
  Duration low = 1_s, high;
  for (int i = 0; i < 200'000; ++i) {
    const Duration extra = jitter.extra_delay(10_us, now);
    ASSERT_GE(extra, 0_ns);
    ASSERT_LE(extra, 10_us);
    ASSERT_GE(now + extra, last_due) << "packet " << i << " would overtake";
    last_due = now + extra;
    low = std::min(low, extra);
    high = std::max(high, extra);
    now = now + Duration::from_ns(static_cast<std::int64_t>(gaps.below(i % 100 == 0 ? 100'000 : 3'000)));
  }
  EXPECT_LT(low, 1_us);  // the whole range is used
  EXPECT_GT(high, 9_us);
}

TEST(FabricJitter, ZeroIsNoDelay) {
  Jitter jitter{3, "h1"};
  EXPECT_EQ(jitter.extra_delay(0_ns, Instant::from_ns(5)), 0_ns);
}

TEST(FabricJitter, StaysInItsRangeWhenTimeGoesBackALittle) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Jitter jitter{seed, "h1"};
    (void)jitter.extra_delay(5_us, Instant::from_ns(1'000'000));
    const Duration extra = jitter.extra_delay(5_us, Instant::from_ns(950'000));
    EXPECT_GE(extra, 0_ns);
    EXPECT_LE(extra, 5_us);
  }
}

TEST(FabricJitter, FollowsANewSetting) {
  Jitter jitter{3, "h1"};
  Instant now = Instant::from_ns(0);
  EXPECT_LE(jitter.extra_delay(1_s, now), 1_s);
  for (int i = 0; i < 100; ++i) {
    now = now + 1_us;
    EXPECT_LE(jitter.extra_delay(5_us, now), 5_us);
  }
}

}  // namespace
}  // namespace brdma::fabric
