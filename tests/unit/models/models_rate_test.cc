// Congestion control of RoCE: DCQCN's and Swift's worked numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "by_hand.h"
#include "models/rdma/dcqcn.h"
#include "models/rdma/swift.h"

namespace brdma::models::rdma {
namespace {

using by_hand::at;

constexpr double kGbps = 1e9;
const Bandwidth k100G = Bandwidth::from_bps(100'000'000'000);

TEST(Dcqcn, ParametersOfBothSets) {
  const DcqcnSettings nic = dcqcn_nic(k100G);
  EXPECT_EQ(nic.additive, 20e6);
  EXPECT_EQ(nic.hyper, 200e6);
  EXPECT_EQ(nic.minimum, 1e9);
  EXPECT_EQ(nic.alpha_interval, 1_us);
  EXPECT_EQ(nic.decrease_interval, 4_us);
  EXPECT_EQ(nic.increase_interval, 300_us);
  const DcqcnSettings paper = dcqcn_paper(k100G);
  EXPECT_EQ(paper.alpha_interval, 50_us);
  EXPECT_EQ(paper.decrease_interval, 50_us);
  EXPECT_EQ(paper.increase_interval, 55_us);
}

TEST(Dcqcn, FirstCnpHalvesThenHalfTheWayBackEachTime) {
  Dcqcn control{dcqcn_nic(k100G)};
  EXPECT_EQ(control.bits_per_second(), 100 * kGbps);
  control.on_cnp(at(10_us));
  EXPECT_EQ(control.bits_per_second(), 50 * kGbps);
  control.advance(at(309'999_ns));
  EXPECT_EQ(control.bits_per_second(), 50 * kGbps);
  control.advance(at(310_us));
  EXPECT_EQ(control.bits_per_second(), 75 * kGbps);
  control.advance(at(610_us));
  EXPECT_EQ(control.bits_per_second(), 87.5 * kGbps);
  control.advance(at(910_us));
  EXPECT_EQ(control.bits_per_second(), 93.75 * kGbps);
}

TEST(Dcqcn, AlphaAgesWithoutCnps) {
  Dcqcn control{dcqcn_nic(k100G)};
  control.on_cnp(at(0_us));
  EXPECT_EQ(control.alpha(), 1);
  for (const int n : {1, 2, 100, 1000}) {
    control.advance(at(1_us * n));
    EXPECT_NEAR(control.alpha(), std::pow(255.0 / 256, n), 1e-12);
  }
  control.on_cnp(at(1000_us));  // counts at the end of its interval
  EXPECT_NEAR(control.alpha(), std::pow(255.0 / 256, 1000), 1e-12);
  control.advance(at(1001_us));
  EXPECT_NEAR(control.alpha(), std::pow(255.0 / 256, 1001) + 1.0 / 256, 1e-12);
}

TEST(Dcqcn, OneCutPerDecreaseInterval) {
  Dcqcn control{dcqcn_nic(k100G)};
  control.on_cnp(at(0_us));
  control.on_cnp(at(1_us));
  control.on_cnp(at(2_us));
  EXPECT_EQ(control.reductions(), 1u);
  control.advance(at(3'999_ns));
  EXPECT_EQ(control.bits_per_second(), 50 * kGbps);
  control.advance(at(4_us));  // what came meanwhile is one cut
  EXPECT_EQ(control.reductions(), 2u);
  EXPECT_NEAR(control.bits_per_second(), 50 * kGbps * (1 - control.alpha() / 2), 1);
  control.advance(at(8_us));
  EXPECT_EQ(control.reductions(), 2u);
}

TEST(Dcqcn, TargetFallsOnlyAfterAnIncreaseUnlessClamped) {
  for (const bool clamp : {false, true}) {
    DcqcnSettings settings = dcqcn_nic(k100G);
    settings.clamp_target = clamp;
    Dcqcn control{settings};
    control.on_cnp(at(0_us));
    control.on_cnp(at(4_us));
    const double low = control.bits_per_second();
    const double target = clamp ? 50 * kGbps : 100 * kGbps;
    control.advance(at(304_us));
    EXPECT_NEAR(control.bits_per_second(), (low + target) / 2, 1);
  }
}

TEST(Dcqcn, AdditiveThenHyperIncrease) {
  Dcqcn control{dcqcn_nic(k100G)};
  control.on_cnp(at(0_us));
  control.advance(at(300_us));  // 75, target 100
  control.on_cnp(at(300_us));   // target 75
  const double low = control.bits_per_second();
  control.advance(at(600_us));
  const double fast = (low + 75 * kGbps) / 2;
  EXPECT_NEAR(control.bits_per_second(), fast, 1);
  control.advance(at(900_us));
  const double additive = (fast + 75.02 * kGbps) / 2;
  EXPECT_NEAR(control.bits_per_second(), additive, 1);
  control.advance(at(1200_us));
  EXPECT_NEAR(control.bits_per_second(), (additive + 75.22 * kGbps) / 2, 1);
}

TEST(Dcqcn, NeverBelowTheMinimumNorAboveTheLine) {
  Dcqcn control{dcqcn_nic(k100G)};
  for (int i = 0; i < 1000; ++i) control.on_cnp(at(4_us * i));
  EXPECT_EQ(control.bits_per_second(), 1 * kGbps);
  control.advance(at(10_s));
  EXPECT_EQ(control.bits_per_second(), 100 * kGbps);
}

TEST(Dcqcn, IdleTimeLeavesTheSameStateHoweverItIsAskedFor) {
  Dcqcn often{dcqcn_nic(k100G)};
  Dcqcn once{dcqcn_nic(k100G)};
  often.on_cnp(at(0_us));
  once.on_cnp(at(0_us));
  for (int i = 1; i <= 5000; ++i) often.advance(at(1'100_ns * i));
  once.advance(at(1'100_ns * 5000));
  EXPECT_EQ(often.bits_per_second(), once.bits_per_second());
  EXPECT_EQ(often.alpha(), once.alpha());
}

TEST(Dcqcn, PacesByItsRate) {
  Dcqcn control{dcqcn_nic(k100G)};
  EXPECT_EQ(control.gap_ps(1048, at(0_us)), 0);  // the link paces
  control.on_cnp(at(1_us));
  EXPECT_EQ(control.gap_ps(1048, at(1_us)), 167'680);
}

Settings swift_settings() {
  Settings settings = by_hand::rdma_of("swift");
  settings.swift = SwiftSettings{};
  settings.swift.window_start = 16;
  return settings;
}

TEST(Swift, TargetFallsWithTheWindow) {
  Settings settings = swift_settings();
  settings.swift.window_start = 256;
  EXPECT_EQ(Swift{settings}.target(), 31_us);  // 25 and 6 hops of 1
  settings.swift.window_start = 0.1;
  EXPECT_EQ(Swift{settings}.target(), 131_us);
  settings.swift.window_start = 0.01;
  EXPECT_EQ(Swift{settings}.target(), 131_us);  // clamped
  settings.swift.window_start = 1;
  // 100 us (1 - 1/16) / (sqrt(10) - 1/16) = 30.244 us
  EXPECT_NEAR(static_cast<double>(Swift{settings}.target().ns()), 61'244, 1);
}

TEST(Swift, AddsOnePacketARoundTripBelowTheTarget) {
  Swift control{swift_settings()};
  control.on_ack({1000, 20_us}, at(0_us));
  EXPECT_DOUBLE_EQ(control.packets(), 16 + 1.0 / 16);
}

TEST(Swift, CutsByTheExcessOnceARoundTrip) {
  Swift control{swift_settings()};
  const double target = static_cast<double>(control.target().ns());
  control.on_ack({1000, 40_us}, at(100_us));
  const double factor = 1 - 0.8 * (40'000 - target) / 40'000;
  EXPECT_NEAR(control.packets(), 16 * factor, 1e-9);
  control.on_ack({1000, 40_us}, at(139_us));
  EXPECT_EQ(control.reductions(), 1u);
  control.on_ack({1000, 1000_us}, at(1200_us));
  EXPECT_NEAR(control.packets(), 16 * factor / 2, 1e-9);  // by half at most
  EXPECT_EQ(control.reductions(), 2u);
}

TEST(Swift, ThreeTimeoutsLeaveTheSmallestWindow) {
  Swift control{swift_settings()};
  control.on_timeout(at(1_ms));
  EXPECT_DOUBLE_EQ(control.packets(), 8);
  control.on_timeout(at(2_ms));
  EXPECT_DOUBLE_EQ(control.packets(), 4);
  control.on_timeout(at(3_ms));
  EXPECT_DOUBLE_EQ(control.packets(), 0.01);
}

TEST(Swift, PacesAWindowBelowOnePacket) {
  Settings settings = swift_settings();
  settings.swift.window_start = 0.5;
  Swift control{settings};
  control.on_ack({0, 50_us}, at(0_us));  // below the target of a small window
  EXPECT_EQ(control.gap_ps(1048, at(0_us)), 100'000'000);
  EXPECT_EQ(control.window(), 1000u);
  control.on_ack({1000, 20_us}, at(10_us));  // + 1 packet
  EXPECT_DOUBLE_EQ(control.packets(), 1.5);
  EXPECT_EQ(control.gap_ps(1048, at(10_us)), 0);
}

}  // namespace
}  // namespace brdma::models::rdma
