// DCQCN by hand: the effect of a CNP, the stages of recovery, both counters, the receiver's limit on CNPs.
#include <gtest/gtest.h>

#include "congestion/dcqcn.h"

namespace brdma::congestion {
namespace {

constexpr Bandwidth mbit(std::uint64_t n) { return Bandwidth::from_bps(n * 1'000'000); }
constexpr Instant at(Duration since_start) { return Instant::from_ns(1'000'000'000) + since_start; }
double of(Bandwidth rate) { return static_cast<double>(rate.bps()) / 1e6; }

TEST(Dcqcn, SendsAtLineRateUntilTheFirstCnp) {
  Dcqcn dcqcn{{}, mbit(10'000), at(0_us)};
  dcqcn.on_sent(1u << 30, at(10_ms));
  EXPECT_EQ(dcqcn.rate(at(1_s)), mbit(10'000));
  EXPECT_FALSE(dcqcn.next_change());
}

TEST(Dcqcn, ACnpCutsByHalfOfAlpha) {
  Dcqcn dcqcn{{}, mbit(10'000), at(0_us)};
  dcqcn.on_cnp(at(0_us));
  EXPECT_EQ(dcqcn.rate(at(0_us)), mbit(5000));
  dcqcn.on_cnp(at(1_us));  // alpha is still 1
  EXPECT_EQ(dcqcn.rate(at(1_us)), mbit(2500));
}

TEST(Dcqcn, AlphaFallsWhileNoCnpComes) {
  Dcqcn dcqcn{{.additive = mbit(1), .hyper = mbit(1), .rate_max = mbit(10'000)}, mbit(10'000), at(0_us)};
  dcqcn.on_cnp(at(0_us));
  // After 100 periods: (255/256)^100 = 0.676. The rate is back; the next CNP takes half of that.
  const Instant later = at(55_us * 100);
  EXPECT_NEAR(of(dcqcn.rate(later)), 10'000, 1);
  dcqcn.on_cnp(later);
  EXPECT_NEAR(of(dcqcn.rate(later)), 10'000 * (1 - 0.676 / 2), 5);
}

TEST(Dcqcn, RecoversFastThenAddsThenHyper) {
  Dcqcn dcqcn{{}, mbit(10'000), at(0_us)};
  dcqcn.on_cnp(at(0_us));
  dcqcn.on_cnp(at(0_us));  // target 5000, rate 2500
  double rate = 2500, target = 5000;
  for (int i = 1; i <= 5; ++i) {
    rate = (rate + target) / 2;
    EXPECT_NEAR(of(dcqcn.rate(at(55_us * i))), rate, 0.01) << i;
  }
  for (int i = 6; i <= 8; ++i) {  // one counter beyond 5
    target += 40;
    rate = (rate + target) / 2;
    EXPECT_NEAR(of(dcqcn.rate(at(55_us * i))), rate, 0.01) << i;
  }
  dcqcn.on_sent(50'000'000, at(55_us * 8));  // five events of the other: still additive
  for (int i = 0; i < 5; ++i) {
    target += 40;
    rate = (rate + target) / 2;
  }
  EXPECT_NEAR(of(dcqcn.rate(at(55_us * 8))), rate, 0.01);
  dcqcn.on_sent(10'000'000, at(55_us * 8));  // six: hyper, by one step
  target += 400;
  rate = (rate + target) / 2;
  EXPECT_NEAR(of(dcqcn.rate(at(55_us * 8))), rate, 0.01);
}

TEST(Dcqcn, ReachesItsMaximumAndStops) {
  Dcqcn dcqcn{{.rate_max = mbit(10'000)}, mbit(10'000), at(0_us)};
  dcqcn.on_cnp(at(0_us));
  ASSERT_TRUE(dcqcn.next_change());
  EXPECT_EQ(*dcqcn.next_change(), at(55_us));
  EXPECT_EQ(dcqcn.rate(at(10_s)), mbit(10'000));
  EXPECT_FALSE(dcqcn.next_change());
}

TEST(Dcqcn, NeverBelowItsMinimum) {
  Dcqcn dcqcn{{.rate_min = mbit(100)}, mbit(10'000), at(0_us)};
  for (int i = 0; i < 100; ++i) dcqcn.on_cnp(at(1_us * i));
  EXPECT_EQ(dcqcn.rate(at(99_us)), mbit(100));
}

TEST(CnpLimiter, OneInFiftyMicroseconds) {
  CnpLimiter limiter;
  EXPECT_TRUE(limiter.on_marked(at(0_us)));
  EXPECT_FALSE(limiter.on_marked(at(49_us)));
  EXPECT_TRUE(limiter.on_marked(at(50_us)));
  EXPECT_FALSE(limiter.on_marked(at(99_us)));
  EXPECT_TRUE(limiter.on_marked(at(10_ms)));
}

}  // namespace
}  // namespace brdma::congestion
