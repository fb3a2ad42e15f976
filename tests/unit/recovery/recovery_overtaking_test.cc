// Detection of lost retransmissions by the order in which packets left.
#include <gtest/gtest.h>

#include "recovery/overtaking.h"

namespace brdma::recovery {
namespace {

constexpr Instant kStart = Instant::from_ns(1'000'000'000);
constexpr Duration kNone{};

TEST(Overtaking, WhatLeftLaterAndArrivedPasses) {
  Overtaking order;
  EXPECT_FALSE(order.passed(kStart)) << "nothing was received";
  order.on_echo(kStart);
  EXPECT_FALSE(order.passed(kStart));
  order.on_echo(kStart + Overtaking::kGrain);
  EXPECT_FALSE(order.passed(kStart)) << "may have left at once";
  order.on_echo(kStart + Overtaking::kGrain + kTick);
  EXPECT_TRUE(order.passed(kStart));
  order.on_echo(kStart);  // an older acknowledgement comes later
  EXPECT_TRUE(order.passed(kStart));
}

TEST(Overtaking, ToleratesAQuarterMoreThanWasSeenUpToTheCeiling) {
  Overtaking order;
  order.on_echo(kStart + 20_us);
  order.came_late(kStart, 50_us);
  EXPECT_EQ(order.tolerance(), 25_us);
  order.came_late(kStart + 12_us, 50_us);
  EXPECT_EQ(order.tolerance(), 25_us);
  order.came_late(kStart + 30_us, 50_us);  // not late
  EXPECT_EQ(order.tolerance(), 25_us);
  EXPECT_FALSE(order.passed(kStart - 5_us));
  EXPECT_TRUE(order.passed(kStart - 6_us));
  order.came_late(kStart - 60_us, 50_us);
  EXPECT_EQ(order.tolerance(), 50_us);
}

TEST(Overtaking, ForgetsByHalves) {
  Overtaking order;
  order.on_echo(kStart);
  order.came_late(kStart - 32_us, 50_us);
  EXPECT_EQ(order.tolerance(), 40_us);
  order.on_echo(kStart + Duration::from_ns(1 << 27));
  EXPECT_EQ(order.tolerance(), 20_us);
  order.on_echo(kStart + Duration::from_ns(5 << 27));
  EXPECT_EQ(order.tolerance(), Duration::from_ns(1250));
  EXPECT_FALSE(order.at_rest());
  order.elapse(kStart + 100_s);
  EXPECT_EQ(order.tolerance(), kNone);
  EXPECT_TRUE(order.at_rest());
}

}  // namespace
}  // namespace brdma::recovery
