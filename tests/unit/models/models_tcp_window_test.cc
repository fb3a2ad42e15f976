// Congestion windows of TCP: RFC 5681 section 3.1, RFC 9438 section 4. Segments of 1000 bytes.
#include <gtest/gtest.h>

#include "models/tcp/window.h"

namespace brdma::models::tcp {
namespace {

Settings settings() {
  Settings result;
  result.sizes.payload = 1000;
  return result;
}

const Instant kStart = Instant::from_ns(1'000'000);

TEST(RenoWindow, SlowStartAddsWhatIsAcknowledgedUpToOneSegment) {
  RenoWindow window{settings()};
  EXPECT_EQ(window.bytes(), 10'000u);
  window.on_ack(1000, 10_us, kStart);
  EXPECT_EQ(window.bytes(), 11'000u);
  window.on_ack(400, 10_us, kStart);
  EXPECT_EQ(window.bytes(), 11'400u);
  window.on_ack(2000, 10_us, kStart);
  EXPECT_EQ(window.bytes(), 12'400u);
}

TEST(RenoWindow, LossHalvesTheFlightAndAvoidanceAddsOneSegmentARoundTrip) {
  RenoWindow window{settings()};
  window.on_loss(20'000, kStart);
  EXPECT_EQ(window.bytes(), 10'000u);
  EXPECT_EQ(window.ssthresh(), 10'000u);
  window.on_ack(1000, 10_us, kStart);
  EXPECT_EQ(window.bytes(), 10'100u);  // 1000 * 1000 / 10,000
  for (int i = 1; i < 10; ++i) window.on_ack(1000, 10_us, kStart);
  EXPECT_NEAR(static_cast<double>(window.bytes()), 11'000, 50);
}

TEST(RenoWindow, TwoSegmentsAreTheSmallestThreshold) {
  RenoWindow window{settings()};
  window.on_loss(3999, kStart);
  EXPECT_EQ(window.ssthresh(), 2000u);
  window.on_loss(4002, kStart);
  EXPECT_EQ(window.ssthresh(), 2001u);
}

TEST(RenoWindow, TimeoutLeavesOneSegmentAndARepeatedOneKeepsTheThreshold) {
  RenoWindow window{settings()};
  window.on_timeout(20'000, false);
  EXPECT_EQ(window.bytes(), 1000u);
  EXPECT_EQ(window.ssthresh(), 10'000u);
  window.on_timeout(1000, true);
  EXPECT_EQ(window.ssthresh(), 10'000u);
}

// A window of 100 segments that lost one, and its first ACK afterwards.
CubicWindow cubic_after_loss_at_100() {
  Settings large = settings();
  large.initial_window = 100;
  CubicWindow window{large};
  window.on_loss(100'000, kStart);
  return window;
}

TEST(CubicWindow, WorkedEpoch) {
  CubicWindow window = cubic_after_loss_at_100();
  EXPECT_EQ(window.bytes(), 70'000u);
  window.on_ack(1000, 100_ms, kStart);
  EXPECT_DOUBLE_EQ(window.w_max(), 100);
  EXPECT_NEAR(window.k(), 4.2172, 0.0001);  // cbrt(30 / 0.4)
  EXPECT_NEAR(window.cubic(0), 70, 1e-9);
  EXPECT_NEAR(window.cubic(window.k()), 100, 1e-9);
  EXPECT_NEAR(window.cubic(2 * window.k()), 130, 1e-9);
}

TEST(CubicWindow, FollowsTheCubicWhereRoundTripsAreLong) {
  CubicWindow window = cubic_after_loss_at_100();
  Instant now = kStart;
  for (int round = 0; round < 42; ++round) {  // 4.2 s of 100 ms
    for (std::uint64_t left = window.bytes() / 1000; left > 0; --left) window.on_ack(1000, 100_ms, now);
    now = now + 100_ms;
  }
  EXPECT_NEAR(static_cast<double>(window.bytes()), 100'000, 2000);  // Wmax at K = 4.2 s
}

TEST(CubicWindow, IsRenoFriendlyWhereRoundTripsAreShort) {
  CubicWindow window = cubic_after_loss_at_100();
  Instant now = kStart;
  for (int round = 0; round < 20; ++round) {
    for (std::uint64_t left = window.bytes() / 1000; left > 0; --left) window.on_ack(1000, 12_us, now);
    now = now + 12_us;
  }
  EXPECT_NEAR(CubicWindow::kAlpha, 0.529, 0.001);
  EXPECT_NEAR(static_cast<double>(window.bytes()), 70'000 + 20 * 529, 500);
}

TEST(CubicWindow, GrowsAsRenoOnceItsEstimateIsAtTheWindowBeforeTheLoss) {
  CubicWindow window = cubic_after_loss_at_100();
  Instant now = kStart;
  const auto rounds = [&](int count) {
    for (int round = 0; round < count; ++round) {
      for (std::uint64_t left = window.bytes() / 1000; left > 0; --left) window.on_ack(1000, 12_us, now);
      now = now + 12_us;
    }
  };
  while (window.bytes() < 100'000) rounds(1);
  const std::uint64_t before = window.bytes();
  rounds(10);
  EXPECT_NEAR(static_cast<double>(window.bytes() - before), 10'000, 300);
}

TEST(CubicWindow, FastConvergenceRemembersLess) {
  CubicWindow window = cubic_after_loss_at_100();
  window.on_ack(1000, 12_us, kStart);
  window.on_loss(70'000, kStart);  // at 70 < Wmax = 100
  window.on_ack(1000, 12_us, kStart);
  EXPECT_NEAR(window.w_max(), 70 * 0.85, 0.01);
  EXPECT_NEAR(static_cast<double>(window.bytes()), 49'000, 100);
}

TEST(CubicWindow, TimeoutBeginsAtOneSegment) {
  CubicWindow window = cubic_after_loss_at_100();
  window.on_timeout(70'000, false);
  EXPECT_EQ(window.bytes(), 1000u);
  for (int i = 0; i < 60; ++i) window.on_ack(1000, 12_us, kStart);  // slow start to 49
  EXPECT_NEAR(static_cast<double>(window.bytes()), 49'000, 1000);
  EXPECT_EQ(window.k(), 0);  // section 4.8: Wmax is the window where avoidance begins
  EXPECT_NEAR(window.w_max(), 49, 1);
}

}  // namespace
}  // namespace brdma::models::tcp
