// The shortest recent round trips by path: distinguishes queueing from skew, for any return path.
#include <gtest/gtest.h>

#include "qp/paths/path_floors.h"

namespace brdma::qp {
namespace {

constexpr Instant at(Duration since_start) { return Instant::from_ns(1'000'000'000) + since_start; }
// The peer's clock is ahead by this.
constexpr Duration kClock = 1000_s;

// A packet: `there` to arrive, `back` for its acknowledgement.
PathFloors::Sample sample(std::size_t path, std::uint16_t port, Duration there, Duration back) {
  return {.path = path, .back = port, .round_trip = there + back, .one_way = kClock + there};
}

TEST(PathFloors, EachPathHasItsOwn) {
  PathFloors floors{2};
  EXPECT_EQ(floors.skew(), 0_us);
  EXPECT_EQ(floors.shortest(0), std::nullopt);
  EXPECT_EQ(floors.sample(sample(0, 1000, 50_us, 50_us), at(0_us)), 100_us);
  EXPECT_EQ(floors.sample(sample(1, 1000, 80_us, 50_us), at(0_us)), 130_us);
  EXPECT_EQ(floors.sample(sample(0, 1000, 90_us, 50_us), at(10_us)), 100_us);  // waited for 40 us
  EXPECT_EQ(floors.sample(sample(0, 1000, 45_us, 50_us), at(20_us)), 95_us);
  EXPECT_EQ(floors.skew(), 35_us);
  EXPECT_EQ(floors.shortest(0), 95_us);
  EXPECT_EQ(floors.shortest(1), 130_us);
}

// Acknowledgements take another return path from here on, while a queue of 200 us stands on the forward path.
TEST(PathFloors, ANewReturnPathIsMeasuredWithoutTheStandingQueue) {
  PathFloors floors{2};
  (void)floors.sample(sample(0, 1000, 50_us, 50_us), at(0_us));
  (void)floors.sample(sample(1, 1000, 80_us, 50_us), at(0_us));
  EXPECT_EQ(floors.sample(sample(0, 1001, 250_us, 150_us), at(1_ms)), 200_us);
  EXPECT_EQ(floors.sample(sample(0, 1001, 300_us, 150_us), at(2_ms)), 200_us);
  EXPECT_EQ(floors.sample(sample(1, 1001, 280_us, 150_us), at(2_ms)), 230_us);
  EXPECT_EQ(floors.skew(), 30_us);  // of the paths there
  EXPECT_EQ(floors.shortest(0), 100_us);
}

// The first packet of a path lay in both hosts, for 2 ms there and 3 ms here. Taken for the length of the path, that
// would make every later round trip nothing.
TEST(PathFloors, WhatLiesInAHostMakesNoPathLonger) {
  RoundTripSamples samples{2};
  (void)samples.take(sample(0, 1000, 50_us, 50_us), at(0_us));
  PathFloors::Sample late = sample(1, 1000, 2080_us, 3050_us);
  late.waited = 5_ms;
  late.waited_there = 2_ms;
  const auto taken = samples.take(late, at(1_ms));
  EXPECT_EQ(taken.round_trip - taken.base_moved, 100_us + 5_ms);
  EXPECT_EQ(samples.floors().shortest(1), 130_us);
  EXPECT_EQ(samples.floors().skew(), 30_us);
  // A new return path: the waiting time in the peer is in the time of arrival, too.
  late = sample(0, 1001, 2050_us, 150_us);
  late.waited = late.waited_there = 2_ms;
  (void)samples.take(late, at(2_ms));
  EXPECT_EQ(samples.floors().skew(), 30_us);
  PathFloors floors{1};
  (void)floors.sample(sample(0, 1000, 50_us, 50_us), at(0_us));
  EXPECT_EQ(floors.sample(late, at(1_ms)), 200_us);
}

TEST(PathFloors, APathThatHasBecomeLongerIsKnownAfterTwoPeriods) {
  PathFloors floors{1};
  (void)floors.sample(sample(0, 1000, 50_us, 50_us), at(0_us));
  Duration floor;
  for (int i = 0; i < 250; ++i) floor = floors.sample(sample(0, 1000, 90_us, 50_us), at(10_ms * i));
  EXPECT_EQ(floor, 140_us);
}

TEST(PathFloors, MorePortsThanPathsDoNoHarm) {
  PathFloors floors{1};
  for (std::uint16_t port = 1; port < 100; ++port) {
    EXPECT_GT(floors.sample(sample(0, port, 50_us, 50_us), at(0_us)), 0_us);
  }
}

// A peer may claim any time of arrival.
TEST(PathFloors, TimesThatCannotBeAreTaken) {
  constexpr Duration kFar = Duration::from_ns(std::int64_t{1} << 61);
  PathFloors floors{1};
  (void)floors.sample({.path = 0, .back = 1, .round_trip = 100_us, .one_way = Duration{} - kFar}, at(0_us));
  EXPECT_EQ(floors.sample({.path = 0, .back = 2, .round_trip = 100_us, .one_way = kFar}, at(0_us)), kTick);
  EXPECT_EQ(floors.sample({.path = 0, .back = 2, .round_trip = 50_us, .one_way = kFar}, at(0_us)), kTick);
}

}  // namespace
}  // namespace brdma::qp
