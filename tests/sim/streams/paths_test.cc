// Queue pairs over several paths (design BR-29 to BR-31): evidence by path, cross-path reordering, spraying, silence.
#include <gtest/gtest.h>

#include <string>

#include "streams/stream.h"
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

// tests design BR-30. The longest path is 100 us longer than the shortest: nothing is lost, nothing promoted.
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

// Retransmissions equal losses; and goodput follows the loss alone, not the paths.
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

StreamConfig with_silent_path(std::size_t path, bool reads) {
  StreamConfig config = four_paths(20_us);
  config.path_loss_ppm[path] = 1'000'000;
  config.reads = reads;
  return config;
}

// Packets lost there are retransmitted on other paths, and after a few copies a second nothing more is lost to it.
// Acknowledgements and responses take path 0 as long as they are received.
TEST(Paths, ASilentPathIsSetAside) {
  for (const bool reads : {false, true}) {
    for (const std::size_t silent : {std::size_t{0}, std::size_t{2}}) {
      const StreamResult result = run_stream(with_silent_path(silent, reads));
      SCOPED_TRACE("path " + std::to_string(silent) + (reads ? ", READs, " : ", WRITEs, ") + text(result));
      EXPECT_EQ(result.answer_paths_silent, reads ? 1u : 0u);
      EXPECT_EQ(result.answer_paths_returned, 0u);
      EXPECT_LT(result.timeouts, 5u);
      EXPECT_GT(result.share, 0.95);
      ASSERT_EQ(result.paths.size(), 4u);
      const bool used = !reads || silent == 0;  // READ requests keep to one path
      EXPECT_EQ(result.paths_silent, used ? 1u : 0u);
      EXPECT_EQ(result.paths_returned, 0u);
      if (!used) continue;
      EXPECT_FALSE(result.paths[silent].in_use);
      EXPECT_LT(result.paths[silent].sent, 200u);
      EXPECT_EQ(result.paths[silent].acknowledged, 0u);
      EXPECT_GE(result.paths[silent].probes, 1u);
    }
  }
}

// The path of all packets before the agreement is silent from the beginning.
TEST(Paths, AgreementIsFoundOnAnotherPath) {
  for (const bool reads : {false, true}) {
    StreamConfig config = with_silent_path(0, reads);
    config.path_loss_begins_at_once = true;
    const StreamResult result = run_stream(config);
    SCOPED_TRACE((reads ? "READs, " : "WRITEs, ") + text(result));
    ASSERT_EQ(result.paths.size(), 4u);
    EXPECT_FALSE(result.paths[0].in_use);
    EXPECT_GT(result.share, 0.95);
  }
}

// READ requests keep to one path, so that on other paths only retransmissions are acknowledged. Few of them go to the
// silent path, for any READs. (A window of them per timeout would be thousands.)
TEST(Paths, FewRequestsAreLostToASilentPath) {
  struct Case {
    std::uint32_t bytes, posted;
    Duration delay;
    PathMtu mtu;
  };
  for (const Case& reads : {Case{65536, 8, 2_us, PathMtu::k1024}, Case{65536, 16, 2_us, PathMtu::k1024},
                            Case{512, 16, 2_us, PathMtu::k1024}, Case{512, 128, 2_us, PathMtu::k1024},
                            Case{4096, 64, 20_us, PathMtu::k4096}, Case{262'144, 2, 50_us, PathMtu::k4096}}) {
    for (const bool at_once : {false, true}) {
      StreamConfig config = with_silent_path(0, true);
      config.path_loss_begins_at_once = at_once;
      config.request_bytes = reads.bytes;
      config.requests_posted = reads.posted;
      config.delay = reads.delay;
      config.mtu = reads.mtu;
      const StreamResult result = run_stream(config);
      SCOPED_TRACE(std::to_string(reads.posted) + " READs of " + std::to_string(reads.bytes) + ", " + text(result));
      ASSERT_EQ(result.paths.size(), 4u);
      EXPECT_FALSE(result.paths[0].in_use);
      EXPECT_LT(result.paths[0].sent, 200u);
      EXPECT_LT(result.timeouts, 10u);
    }
  }
}

// A peer without a core for a while causes retransmissions as well. No path is set aside for that: a copy there is
// acknowledged, even late, and even if responses overtake its acknowledgement.
TEST(Paths, APeerThatSleepsIsNoSilentPath) {
  struct Case {
    std::uint32_t bytes, posted, loss_ppm;
    Duration delay, skew, asleep_max;
    PathMtu mtu;
  };
  for (const Case& reads : {Case{65536, 16, 0, 50_us, 20_us, 8_ms, PathMtu::k1024},
                            Case{262'144, 64, 0, 20_us, 100_us, 4_ms, PathMtu::k1024},
                            Case{512, 16, 1000, 50_us, 20_us, 8_ms, PathMtu::k4096}}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      StreamConfig config = four_paths(reads.skew);
      config.reads = true;
      config.request_bytes = reads.bytes;
      config.requests_posted = reads.posted;
      config.loss_ppm = reads.loss_ppm;
      config.delay = reads.delay;
      config.mtu = reads.mtu;
      config.sender_stalls = {.every = 5_ms, .length_max = 1_ms};
      config.receiver_stalls = {.every = 5_ms, .length_max = reads.asleep_max};
      config.seed = seed;
      const StreamResult result = run_stream(config);
      SCOPED_TRACE(std::to_string(reads.posted) + " READs of " + std::to_string(reads.bytes) + ", seed " +
                   std::to_string(seed) + ", " + text(result));
      EXPECT_EQ(result.paths_silent, 0u);
      for (const qp::PathStatus& path : result.paths) EXPECT_TRUE(path.in_use);
    }
  }
}

// Earlier packets were on paths that the peer does not distinguish.
TEST(Paths, AgreementOnFewerPathsThanWereTried) {
  StreamConfig config = with_silent_path(0, false);
  config.paths = 8;
  config.path_bitmaps = 2;
  config.path_loss_ppm = {1'000'000, 1'000'000, 1'000'000, 0, 1'000'000, 1'000'000, 1'000'000};
  config.path_loss_begins_at_once = true;
  config.path_loss_ends = 5_ms;
  const StreamResult result = run_stream(config);
  SCOPED_TRACE(text(result));
  ASSERT_EQ(result.paths.size(), 2u);
  EXPECT_GT(result.share, 0.7);  // both were silent for the first 5 ms
}

TEST(Paths, ASilentPathThatIsAcknowledgedAgainIsTakenBack) {
  for (const bool reads : {false, true}) {
    StreamConfig config = with_silent_path(reads ? 0 : 2, reads);
    config.path_loss_ends = 30_ms;
    config.measured = 200_ms;
    const StreamResult result = run_stream(config);
    SCOPED_TRACE((reads ? "READs, " : "WRITEs, ") + text(result));
    EXPECT_EQ(result.answer_paths_silent, reads ? 1u : 0u);
    EXPECT_EQ(result.answer_paths_returned, reads ? 1u : 0u);
    EXPECT_EQ(result.paths_silent, 1u);
    EXPECT_EQ(result.paths_returned, 1u);
    for (const qp::PathStatus& path : result.paths) EXPECT_TRUE(path.in_use);
    EXPECT_GT(result.paths[reads ? 0 : 2].acknowledged, reads ? 1000 : result.packets / 16);
  }
}

// READ responses are sprayed, and judged by path, as WRITEs are.
TEST(Paths, ReadsHoldTheirGoodputOverLossAndSkew) {
  for (const Duration skew : {0_us, 20_us, 100_us}) {
    StreamConfig config = four_paths(skew);
    config.reads = true;
    const StreamResult lossless = run_stream(config);
    SCOPED_TRACE("skew " + std::to_string(skew.ns() / 1000) + " us, " + text(lossless));
    EXPECT_EQ(lossless.retransmitted, 0u);
    EXPECT_GT(lossless.share, 0.97);
    struct Point {
      std::uint32_t loss_ppm;
      double share_min;
    };
    for (const Point point : {Point{10'000, 0.97 * 0.99}, Point{50'000, 0.93 * 0.95}}) {
      config.loss_ppm = point.loss_ppm;
      const StreamResult result = run_stream(config);
      SCOPED_TRACE(text(result));
      EXPECT_GE(result.share, point.share_min * lossless.share);
      EXPECT_LE(result.answer_paths_silent, point.loss_ppm > 10'000 ? 1u : 0u);  // in one of ten worlds
    }
  }
}

// tests design BR-31. A peer that distinguishes no paths: one path, the global bitmap alone.
TEST(Paths, WithoutPathBitmapsThereIsOnePath) {
  StreamConfig config = four_paths(100_us);
  config.path_bitmaps = 1;
  config.loss_ppm = 10'000;
  const StreamResult result = run_stream(config);
  SCOPED_TRACE(text(result));
  EXPECT_EQ(result.paths.size(), 1u);
  EXPECT_GT(result.promoted, 0u);
  EXPECT_EQ(result.promoted_by_path, 0u);
  EXPECT_GT(result.share, 0.95);
}

// Fewer than the sender has: it sends on as many as the peer distinguishes.
TEST(Paths, NoMorePathsAreUsedThanThePeerDistinguishes) {
  StreamConfig config = four_paths(100_us);
  config.path_bitmaps = 3;
  EXPECT_EQ(run_stream(config).paths.size(), 3u);
}

// Packets of one path overtake each other as well. The tolerance is learnt, path by path.
TEST(Paths, ReorderingWithinPathsIsLearnt) {
  StreamConfig config = four_paths(50_us);
  config.reorder_ppm = 10'000;
  config.reorder_depth = 4;
  const StreamResult result = run_stream(config);
  SCOPED_TRACE(text(result));
  EXPECT_GT(result.packets, 30'000u);
  EXPECT_LT(result.misjudged, 40u);  // of 350 that were held back
  EXPECT_GT(result.share, 0.95);
  config.adaptive = false;
  EXPECT_GT(run_stream(config).misjudged, 200u);
}

double sent_share(const StreamResult& result, std::size_t path) {
  std::uint64_t all = 0;
  for (const qp::PathStatus& status : result.paths) all += status.sent;
  return static_cast<double>(result.paths[path].sent) / static_cast<double>(all);
}

// 0.7 to 0.95, depending on the seed.
TEST(Paths, TheShortestRoundTripGetsMost) {
  constexpr int kWorlds = 8;
  StreamConfig config = four_paths(300_us);
  config.path_loss_ppm[1] = 50'000;
  config.spraying = Spraying::kLeastRtt;
  double share = 0;
  for (config.seed = 1; config.seed <= kWorlds; ++config.seed) share += sent_share(run_stream(config), 0) / kWorlds;
  EXPECT_GT(share, 0.8);
}

TEST(Paths, PoliciesShareThePathsAsTheySay) {
  StreamConfig config = four_paths(300_us);
  config.path_loss_ppm[1] = 50'000;
  const StreamResult round_robin = run_stream(config);
  config.spraying = Spraying::kWeighted;
  const StreamResult weighted = run_stream(config);
  for (std::size_t path = 0; path < 4; ++path) EXPECT_NEAR(sent_share(round_robin, path), 0.25, 0.05) << path;
  SCOPED_TRACE(text(weighted));
  // Round trips of some 200, 300, 400, 500 us, and 5 % lost on the second: 0.43, 0.11, 0.22, 0.17 parts of 0.93.
  EXPECT_GT(sent_share(weighted, 0), 0.3);
  EXPECT_LT(sent_share(weighted, 1), 0.2);
  EXPECT_GT(sent_share(weighted, 2), sent_share(weighted, 1));
  EXPECT_GT(sent_share(weighted, 2), sent_share(weighted, 3));
}

}  // namespace
}  // namespace brdma::test
