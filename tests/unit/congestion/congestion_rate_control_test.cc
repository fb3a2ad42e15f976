// The control that decides the rate, and the effect of drops that a switch reports.
#include <gtest/gtest.h>

#include "congestion/rate_control.h"

namespace brdma::congestion {
namespace {

Instant at(Duration time) { return Instant{} + time; }

CongestionConfig with(CongestionControl control) {
  CongestionConfig config;
  config.control = control;
  config.rate_max_mbps = 100'000;
  return config;
}

TEST(RateControl, TimelyReactsToRttSamplesOnly) {
  RateControl control(with(CongestionControl::kTimely));
  EXPECT_EQ(control.rate().bps(), 10'000'000'000u);
  EXPECT_FALSE(control.on_cnp(at(1_ms)));
  control.on_round_trip(25_us, 20_us, at(1_ms));
  EXPECT_EQ(control.rate().bps(), 10'010'000'000u);
  control.on_round_trip(1_ms, 20_us, at(2_ms));  // beyond high: 10.01 * (1 - 0.8 * (1 - 500/1000))
  EXPECT_NEAR(static_cast<double>(control.rate().bps()), 6.006e9, 1e6);
  EXPECT_FALSE(control.paces_responses());
}

// The limits are meant for a path of 20 us: on a longer one they lie as far above its own round trip.
TEST(RateControl, TimelyMeasuresThePath) {
  RateControl control(with(CongestionControl::kTimely));
  control.on_round_trip(1'020_us, 1'000_us, at(1_ms));
  EXPECT_EQ(control.rate().bps(), 10'010'000'000u);
  CongestionConfig fixed = with(CongestionControl::kTimely);
  fixed.timely_min_rtt = 20_us;
  RateControl published(fixed);
  published.on_round_trip(1'020_us, 1'000_us, at(1_ms));
  EXPECT_LT(published.rate().bps(), 6'000'000'000u);
}

TEST(RateControl, DcqcnReactsToNotificationsOnly) {
  RateControl control(with(CongestionControl::kDcqcn));
  control.on_round_trip(10_ms, 20_us, at(1_ms));
  EXPECT_EQ(control.rate().bps(), 10'000'000'000u);
  EXPECT_TRUE(control.on_cnp(at(1_ms)));
  EXPECT_EQ(control.rate().bps(), 5'000'000'000u);
  EXPECT_TRUE(control.paces_responses());
  // Fast recovery by the timer: it shows at the next request for bytes.
  EXPECT_GT(control.allowance(at(1_ms + 60_us)), 0u);
  EXPECT_EQ(control.rate().bps(), 7'500'000'000u);
}

// The lower of the two; a reduction starts from there, so that no signal is without effect.
TEST(RateControl, BothSignals) {
  RateControl control(with(CongestionControl::kBoth));
  EXPECT_EQ(control.rate().bps(), 10'000'000'000u);
  EXPECT_TRUE(control.on_cnp(at(1_ms)));
  EXPECT_EQ(control.rate().bps(), 5'000'000'000u);
  control.on_round_trip(1_ms, 20_us, at(1_ms));  // beyond high: 5 * (1 - 0.8 * (1 - 500/1000))
  EXPECT_NEAR(static_cast<double>(control.rate().bps()), 3e9, 1e6);
  EXPECT_TRUE(control.on_cnp(at(1_ms)));
  EXPECT_NEAR(static_cast<double>(control.rate().bps()), 1.5e9, 1e7);
  EXPECT_GT(control.allowance(at(20_ms)), 0u);  // notifications stay away: round trips hold it
  EXPECT_NEAR(static_cast<double>(control.rate().bps()), 3e9, 1e6);
}

// 125 KB of the bytes sent in a round trip of 1 ms were dropped: 1 Gbit/s too much.
TEST(RateControl, DropsRevealThePathsCapacity) {
  for (const CongestionControl which :
       {CongestionControl::kTimely, CongestionControl::kDcqcn, CongestionControl::kBoth}) {
    RateControl control(with(which));
    control.on_drops(125'000, 1_ms, at(10_ms));
    EXPECT_EQ(control.rate().bps(), 9'000'000'000u);
    control.on_drops(10'000'000, 1_ms, at(10_ms + 500_us));
    EXPECT_EQ(control.rate().bps(), 5'000'000'000u) << "no less than half in a round trip, whatever is said";
    control.on_drops(10'000'000, 1_ms, at(11_ms));
    EXPECT_NEAR(static_cast<double>(control.rate().bps()), 2.5e9, 1e8);  // DCQCN has grown meanwhile
  }
}

// A port of 1 Gbit/s: both controls begin there (TIMELY at the part of one of three flows and one more) and go no
// higher.
TEST(RateControl, FirstAndHighestRateAreThePorts) {
  CongestionConfig config = with(CongestionControl::kDcqcn);
  config.port_rate_mbps = 1'000;
  config.rate_max_mbps = 0;
  RateControl dcqcn(config);
  EXPECT_EQ(dcqcn.rate().bps(), 1'000'000'000u);
  EXPECT_TRUE(dcqcn.on_cnp(at(1_ms)));
  EXPECT_EQ(dcqcn.rate().bps(), 500'000'000u);
  EXPECT_GT(dcqcn.allowance(at(1_s)), 0u);
  EXPECT_EQ(dcqcn.rate().bps(), 1'000'000'000u) << "grown back, and no further";
  config.control = CongestionControl::kTimely;
  EXPECT_EQ(RateControl(config, 3).rate().bps(), 250'000'000u);
  RateControl timely(config);
  for (int i = 1; i <= 10; ++i) timely.on_round_trip(25_us, 20_us, at(1_ms * i));
  EXPECT_EQ(timely.rate().bps(), 1'000'000'000u);
  config.rate_first_mbps = 200;  // the setting precedes the port's rate
  config.rate_max_mbps = 205;
  RateControl chosen(config);
  EXPECT_EQ(chosen.rate().bps(), 200'000'000u);
  chosen.on_round_trip(25_us, 20_us, at(1_ms));
  EXPECT_EQ(chosen.rate().bps(), 205'000'000u);
}

TEST(RateControl, LimitsThatContradictEachOtherAreNoTrap) {
  CongestionConfig config = with(CongestionControl::kTimely);
  config.rate_min_mbps = 1'000;
  config.rate_max_mbps = 10;
  config.timely_low = 600_us;
  RateControl control(config);
  EXPECT_EQ(control.rate().bps(), 1'000'000'000u);
  control.on_round_trip(5_ms, 20_us, at(1_ms));
  EXPECT_EQ(control.rate().bps(), 1'000'000'000u);
}

}  // namespace
}  // namespace brdma::congestion
