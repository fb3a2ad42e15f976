// Queue pairs over several paths (spec 1: multipath): evidence by path, cross-path reordering, spraying, silence.
#include <gtest/gtest.h>

#include <string>

#include "stream.h"
#include "support/engine_pair.h"

namespace brdma::test {
namespace {

StreamConfig four_paths(Duration skew) {
  StreamConfig config;
  config.paths = 4;
  config.skew = skew;
  config.queue_bytes = 8u << 20;
  config.requests_posted = 64;
  config.measured = 100_ms;
  return config;
}

std::string text(const StreamResult& r) {
  std::string text = "share " + std::to_string(r.share) + ", packets " + std::to_string(r.packets) + ", lost " +
                     std::to_string(r.lost) + ", again " + std::to_string(r.retransmitted) + ", promoted " +
                     std::to_string(r.promoted) + " (" + std::to_string(r.promoted_by_path) + " by path), misjudged " +
                     std::to_string(r.misjudged) + ", cross-path waits " + std::to_string(r.cross_path_waits) +
                     ", timeouts " + std::to_string(r.timeouts) + "\n";
  for (const qp::PathStatus& path : r.paths) {
    text += "  sent " + std::to_string(path.sent) + ", acknowledged " + std::to_string(path.acknowledged) + ", lost " +
            std::to_string(path.lost) + ", in flight " + std::to_string(path.in_flight) + ", rtt " +
            std::to_string(path.round_trip.ns() / 1000) + " us, min " +
            std::to_string(path.round_trip_min.ns() / 1000) + " us\n";
  }
  return text;
}

// tests spec 1: multipath. The longest path is 100 us longer than the shortest: nothing is lost, nothing promoted.
TEST(Paths, DifferenceOfPathsIsNotLoss) {
  const StreamResult one = run_stream([] {
    StreamConfig config = four_paths(0_us);
    config.paths = 1;
    return config;
  }());
  for (const Duration skew : {0_us, 20_us, 100_us}) {
    const StreamResult result = run_stream(four_paths(skew));
    SCOPED_TRACE(text(result));
    EXPECT_EQ(result.promoted, 0u);
    EXPECT_EQ(result.retransmitted, 0u);
    EXPECT_EQ(result.paths.size(), 4u);
    EXPECT_GT(result.share, 0.99 * one.share);
    if (skew > 20_us) {
      EXPECT_GT(result.cross_path_waits, 0u);
    }
  }
}

TEST(Paths, LossIsFoundByThePathOfThePacket) {
  StreamConfig config = four_paths(100_us);
  config.loss_ppm = 10'000;
  const StreamResult result = run_stream(config);
  SCOPED_TRACE(text(result));
  EXPECT_EQ(result.misjudged, 0u);
  EXPECT_GT(result.promoted_by_path * 10, result.promoted * 9);
  EXPECT_LE(result.retransmitted, result.lost + result.lost / 20);
}

// What is sent again is what was lost, once each time it was; and goodput follows the loss alone, not the paths.
TEST(Paths, GoodputAndSpuriousCopiesHoldOverLossAndSkew) {
  for (const Duration skew : {0_us, 20_us, 50_us, 100_us}) {
    const double lossless = run_stream(four_paths(skew)).share;
    struct Point {
      std::uint32_t loss_ppm;
      double share_min;
    };
    for (const Point point : {Point{10'000, 0.97 * 0.99}, Point{50'000, 0.93 * 0.95}}) {
      StreamConfig config = four_paths(skew);
      config.loss_ppm = point.loss_ppm;
      config.flight_log = true;
      const StreamResult result = run_stream(config);
      SCOPED_TRACE("skew " + std::to_string(skew.ns() / 1000) + " us, " + text(result));
      EXPECT_GE(result.share, point.share_min * lossless);
      EXPECT_EQ(result.misjudged, 0u);
      EXPECT_LE(result.spurious * 200, result.lost);
      EXPECT_EQ(result.paths_silent, 0u);
    }
  }
}

}  // namespace
}  // namespace brdma::test
