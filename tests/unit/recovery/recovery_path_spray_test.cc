// The path of the next batch: each policy by its table, and common rules.
// tests docs/explanation/recovery.md: several paths
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "recovery/path_spray.h"

namespace brdma::recovery {
namespace {

using testing::ElementsAre;

// The paths of `count` batches.
std::vector<std::uint8_t> run(Spray& spray, std::span<const PathFacts> paths, std::size_t count,
                              std::optional<std::uint8_t> avoid = {}) {
  std::vector<std::uint8_t> taken;
  for (std::size_t i = 0; i < count; ++i) {
    taken.push_back(spray.choose(paths, avoid));
    EXPECT_EQ(spray.choose(paths, avoid), taken.back());  // a query changes nothing
    spray.took(paths, taken.back());
  }
  return taken;
}
std::vector<int> shares(Spray& spray, std::span<const PathFacts> paths, std::size_t count) {
  std::vector<int> shares(paths.size());
  for (const std::uint8_t path : run(spray, paths, count)) ++shares[path];
  return shares;
}

TEST(Spray, RoundRobinTakesOneAfterTheOther) {
  const std::array paths{PathFacts{true, 300_us}, PathFacts{true, 100_us, 500'000}, PathFacts{true, 200_us}};
  Spray spray{Spraying::kRoundRobin};
  EXPECT_THAT(run(spray, paths, 7), ElementsAre(1, 2, 0, 1, 2, 0, 1));
}

TEST(Spray, LeastRttTakesTheShortestAndNowAndThenAnother) {
  const std::array paths{PathFacts{true, 300_us}, PathFacts{true, 100_us}, PathFacts{true, 200_us}};
  Spray spray{Spraying::kLeastRtt};
  const std::vector<int> taken = shares(spray, paths, 32 * 30);
  EXPECT_GE(taken[1], 32 * 30 - 30);
  EXPECT_GE(taken[2], 1);  // the next in turn behind the shortest
}

TEST(Spray, LeastRttTriesWhatIsNotMeasured) {
  std::array paths{PathFacts{true, 100_us}, PathFacts{true, {}}};
  Spray spray{Spraying::kLeastRtt};
  (void)run(spray, paths, 1);
  EXPECT_THAT(run(spray, paths, 3), ElementsAre(1, 1, 1));
  paths[1].round_trip = 50_us;
  EXPECT_THAT(run(spray, paths, 3), ElementsAre(1, 1, 1));
  paths[1].round_trip = 150_us;
  EXPECT_THAT(run(spray, paths, 3), ElementsAre(0, 0, 0));
}

TEST(Spray, WeightedGoesByRoundTripAndLoss) {
  Spray spray{Spraying::kWeighted};
  // 1 / (round trip * (1 + 32 * loss)): 6 : 3 : 3 (1/32 lost) : 2
  const std::array paths{PathFacts{true, 100_us}, PathFacts{true, 200_us}, PathFacts{true, 100_us, 31'250},
                         PathFacts{true, 300_us}};
  const std::vector<int> taken = shares(spray, paths, 1400);
  EXPECT_NEAR(taken[0], 600, 2);
  EXPECT_NEAR(taken[1], 300, 2);
  EXPECT_NEAR(taken[2], 300, 2);
  EXPECT_NEAR(taken[3], 200, 2);
}

TEST(Spray, NoneTakesWhatIsSetAsideWhileAnotherIsThere) {
  for (const Spraying policy : {Spraying::kRoundRobin, Spraying::kLeastRtt, Spraying::kWeighted}) {
    std::array paths{PathFacts{true, 100_us}, PathFacts{false, 10_us}, PathFacts{true, 200_us}};
    Spray spray{policy};
    const std::vector<int> taken = shares(spray, paths, 640);
    EXPECT_EQ(taken[1], 0);
    EXPECT_GT(taken[0], 0);
    EXPECT_GT(taken[2], 0);
    paths[1].usable = true;
    EXPECT_GT(shares(spray, paths, 640)[1], 0);
  }
}

TEST(Spray, WhatWasLostIsSentOnAnotherPathWhereThereIsOne) {
  for (const Spraying policy : {Spraying::kRoundRobin, Spraying::kLeastRtt, Spraying::kWeighted}) {
    std::array paths{PathFacts{true, 100_us}, PathFacts{true, 200_us}, PathFacts{true, 300_us}};
    Spray spray{policy};
    for (const std::uint8_t path : run(spray, paths, 100, std::uint8_t{0})) EXPECT_NE(path, 0);
    paths[1].usable = paths[2].usable = false;
    for (const std::uint8_t path : run(spray, paths, 10, std::uint8_t{0})) EXPECT_EQ(path, 0);
  }
}

}  // namespace
}  // namespace brdma::recovery
