// Received packets are not retransmitted: the same bound for WRITEs and READs, on networks that only reorder, that
// lose, and between hosts that lose their cores; in segments also where the sender judges losses. Both directions are
// tested together, so that one cannot be worse unnoticed.
#include <gtest/gtest.h>

#include <string>

#include "streams/stream.h"

namespace brdma::test {
namespace {

struct Network {
  const char* name;
  std::uint64_t mbit;
  Duration delay;
  std::uint32_t loss_ppm, reorder_ppm, reorder_depth;
  PathMtu mtu = PathMtu::k4096;
  sim::Stalls stalls{};
  std::uint32_t paths = 1;  // each so much longer than the previous one:
  double share_min = 0.8;   // of the link's rate; a host without a core sends nothing
  Duration skew = 100_us;
  std::uint32_t segment_bytes = 0;
  std::uint64_t learning = 0;  // packets of the first round trips, before delays and paths are known
  RecoveryMode mode = RecoveryMode::kBitmap;
};

constexpr sim::Stalls kBusy{5_ms, 3_ms}, kAway{20_ms, 40_ms};

// The sender judges losses: 1 % of 10 Gbit/s.
constexpr Network in_segments(const char* name, Duration delay, RecoveryMode mode) {
  Network network{name, 10'000, delay, 10'000, 0, 0};
  network.segment_bytes = 65'536;
  network.mode = mode;
  if (mode != RecoveryMode::kSelective) {
    network.share_min = 0.05;  // the start of a long path takes most of the time
    network.learning = 20;
  }
  return network;
}

constexpr Network kNetworks[] = {
    {"1 Gbit/s, 2 % come 4 late", 1000, 50_us, 0, 20'000, 4},
    {"1 Gbit/s, 10 % come 32 late", 1000, 50_us, 0, 100'000, 32, PathMtu::k1024},
    {"10 Gbit/s, 5 % come 16 late", 10'000, 50_us, 0, 50'000, 16},
    {"10 Gbit/s, short, 5 % come 16 late", 10'000, 5_us, 0, 50'000, 16},
    {"1 Gbit/s, 2 % come 4 late, busy", 1000, 50_us, 0, 20'000, 4, PathMtu::k4096, kBusy, 1, 0.5},
    {"10 Gbit/s, 5 % come 16 late, busy", 10'000, 50_us, 0, 50'000, 16, PathMtu::k4096, kBusy, 1, 0.5},
    {"10 Gbit/s, 1 % lost", 10'000, 50_us, 10'000, 0, 0},
    {"10 Gbit/s, 1 % lost, 2 % come 8 late", 10'000, 50_us, 10'000, 20'000, 8},
    {"1 Gbit/s, 1 % lost, busy", 1000, 50_us, 10'000, 0, 0, PathMtu::k4096, kBusy, 1, 0.5},
    {"10 Gbit/s, 1 % lost, 2 % come 8 late, busy", 10'000, 50_us, 10'000, 20'000, 8, PathMtu::k4096, kBusy, 1, 0.5},
    {"segments, 1 % lost", 10'000, 50_us, 10'000, 0, 0, PathMtu::k4096, {}, 1, 0.8, {}, 65'536},
    {"segments, 2 % come 8 late", 10'000, 50_us, 0, 20'000, 8, PathMtu::k4096, {}, 1, 0.8, {}, 65'536},
    {"segments, 1 % lost, 2 % come 8 late, busy",
     10'000,
     50_us,
     10'000,
     20'000,
     8,
     PathMtu::k4096,
     kBusy,
     1,
     0.5,
     {},
     65'536},
    {"segments, 1 % lost, busy", 1000, 50_us, 10'000, 0, 0, PathMtu::k4096, kBusy, 1, 0.5, {}, 16'384},
    in_segments("segments over 5 ms, by delays", 5_ms, RecoveryMode::kWan),
    in_segments("segments over 5 ms, by delays and feedback", 5_ms, RecoveryMode::kWanFeedback),
    in_segments("segments, 1 % lost, as TCP judges", 50_us, RecoveryMode::kSelective),
    {"four paths", 10'000, 50_us, 0, 0, 0, PathMtu::k4096, {}, 4},
    {"four paths, 1 % lost", 10'000, 50_us, 10'000, 0, 0, PathMtu::k4096, {}, 4},
    {"four paths, busy", 10'000, 50_us, 0, 0, 0, PathMtu::k4096, kBusy, 4, 0.5},
    {"four paths, 1 % lost, busy", 10'000, 50_us, 10'000, 0, 0, PathMtu::k4096, kBusy, 4, 0.5},
    {"four paths, 1 % lost, away for long", 10'000, 50_us, 10'000, 0, 0, PathMtu::k4096, kAway, 4, 0.05},
    {"four paths, 3 ms apart", 1000, 5_ms, 0, 0, 0, PathMtu::k4096, {}, 4, 0.3, 3_ms, 0, 40},
    {"four paths, 3 ms apart, 1 % lost", 1000, 5_ms, 10'000, 0, 0, PathMtu::k4096, {}, 4, 0.1, 3_ms, 0, 40},
};

StreamConfig stream_over(const Network& network, bool reads, std::uint64_t seed) {
  StreamConfig config;
  config.reads = reads;
  config.mode = network.mode;
  config.rate_bps = network.mbit * 1'000'000;
  config.delay = network.delay;
  config.queue_bytes = 1u << 20;
  config.mtu = network.mtu;
  config.loss_ppm = network.loss_ppm;
  config.reorder_ppm = network.reorder_ppm;
  config.reorder_depth = network.reorder_depth;
  config.sender_stalls = config.receiver_stalls = network.stalls;
  config.paths = network.paths;
  if (network.paths > 1) config.skew = network.skew;
  config.segment_bytes = network.segment_bytes;
  if (network.segment_bytes != 0) config.request_bytes = 1u << 20;
  config.seed = seed;
  return config;
}

std::string text(const StreamResult& result) {
  return std::to_string(result.share) + " of the rate, " + std::to_string(result.packets) + " packets, " +
         std::to_string(result.lost + result.queue_dropped) + " lost, " + std::to_string(result.retransmitted) +
         " again (" + std::to_string(result.by_probe) + " by probe, " + std::to_string(result.by_timeout) +
         " by timeout), " + std::to_string(result.duplicates) + " came twice; gaps promoted " +
         std::to_string(result.promoted) + " (by path " + std::to_string(result.promoted_by_path) + "), misjudged " +
         std::to_string(result.misjudged);
}

class Redundancy : public testing::TestWithParam<bool> {};

// Senders do not slow down for packets that were not lost.
TEST_P(Redundancy, WhatArrivedIsNotSentAgain) {
  for (const Network& network : kNetworks) {
    if (GetParam() && network.mode != RecoveryMode::kBitmap) continue;  // a READ has no segments
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const StreamResult result = run_stream(stream_over(network, GetParam(), seed));
      SCOPED_TRACE(std::string{network.name} + ", seed " + std::to_string(seed) + ": " + text(result));
      EXPECT_LE(result.duplicates, network.learning + result.packets / 200 + (result.lost + result.queue_dropped) / 20);
      // A packet that waits for the start of its segment has arrived, though it is not acknowledged yet.
      const std::uint64_t lost = result.lost + result.queue_dropped;
      if (network.segment_bytes != 0) {
        EXPECT_LE(result.duplicates, network.learning + lost / (network.share_min < 0.8 ? 10 : 20) + 5);
      }
      EXPECT_LE(result.misjudged, network.paths > 1 ? network.learning : result.packets / 1000 + 5);
      EXPECT_GT(result.share, network.share_min);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Redundancy, testing::Bool(),
                         [](const auto& reads) { return std::string{reads.param ? "Reads" : "Writes"}; });

}  // namespace
}  // namespace brdma::test
