// Goodput, spurious retransmissions and recovery times over loss, reordering and path skew, for four recovery modes.
// One line of tab-separated values a point; tests/figures/make makes tables and pictures of them.
//   recovery_figures [--quick]
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "streams/stream.h"

namespace brdma::test {
namespace {

struct Way {
  const char* name;
  RecoveryMode mode;
  bool adaptive;
};
constexpr Way kWays[] = {{"go-back-N", RecoveryMode::kGoBackN, false},
                         {"selective", RecoveryMode::kSelective, false},
                         {"fixed", RecoveryMode::kBitmap, false},
                         {"adaptive", RecoveryMode::kBitmap, true}};
constexpr std::uint32_t kReorderPpm = 50'000;

struct Point {
  std::uint32_t loss_ppm, reorder_depth = 0, paths = 1, skew_us = 0;
};

double at_share(std::vector<Duration>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto place = static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1));
  return static_cast<double>(sorted[place].ns()) / 1000;
}

// The window's start and its early drains (congestion/window/base_round_trip.h) are over: they differ by what was lost
// at the start.
constexpr Duration kStart = 300_ms;

void run(const Way& way, const Point& point, double lossless) {
  StreamConfig config;
  config.mode = way.mode;
  config.adaptive = way.adaptive;
  config.flight_log = true;
  config.loss_ppm = point.loss_ppm;
  config.reorder_ppm = point.reorder_depth > 0 ? kReorderPpm : 0;
  config.reorder_depth = point.reorder_depth;
  config.paths = point.paths;
  config.skew = 1_us * static_cast<std::int64_t>(point.skew_us);
  config.requests_posted = 64;
  config.warm_up = kStart;
  config.measured = 100_ms;
  StreamResult result = run_stream(config);
  std::sort(result.recoveries.begin(), result.recoveries.end());
  const auto packets = static_cast<double>(result.packets);
  std::printf("%s\t%g\t%u\t%u\t%u\t%.4f\t%.4f\t%.4f\t%llu\t%llu\t%.1f\t%.1f\t%.1f\t%s\n", way.name,
              static_cast<double>(point.loss_ppm) / 1e4, point.reorder_depth, point.paths, point.skew_us, result.share,
              lossless > 0 ? result.share / lossless : 1.0, static_cast<double>(result.spurious) / packets * 100,
              static_cast<unsigned long long>(result.lost + result.queue_dropped),
              static_cast<unsigned long long>(result.retransmitted), at_share(result.recoveries, 0.5),
              at_share(result.recoveries, 0.99), at_share(result.recoveries, 1), result.network.c_str());
  std::fflush(stdout);
}

double lossless() {
  StreamConfig config;
  config.requests_posted = 64;
  config.warm_up = kStart;
  config.measured = 100_ms;
  return run_stream(config).share;
}

}  // namespace
}  // namespace brdma::test

int main(int argc, char** argv) {
  using namespace brdma::test;
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  const std::vector<std::uint32_t> losses =
      quick ? std::vector<std::uint32_t>{0, 10'000, 50'000}
            : std::vector<std::uint32_t>{0, 100, 1000, 10'000, 50'000, 100'000, 200'000};
  const std::vector<std::uint32_t> depths =
      quick ? std::vector<std::uint32_t>{0, 8, 32} : std::vector<std::uint32_t>{0, 1, 2, 4, 8, 16, 32};
  const std::vector<std::uint32_t> skews =
      quick ? std::vector<std::uint32_t>{0, 100} : std::vector<std::uint32_t>{0, 10, 20, 50, 100};
  const double clean = lossless();
  std::printf(
      "way\tloss_percent\treorder_depth\tpaths\tskew_us\tshare\tof_lossless\tspurious_percent\tlost\tretransmitted\t"
      "recovery_p50_us\trecovery_p99_us\trecovery_max_us\tnetwork\n");
  for (const std::uint32_t loss : losses) {
    for (const std::uint32_t depth : depths) {
      for (const Way& way : kWays) run(way, {.loss_ppm = loss, .reorder_depth = depth}, clean);
    }
  }
  for (const std::uint32_t loss : {0u, 10'000u, 50'000u}) {
    for (const std::uint32_t skew : skews) {
      for (const Way& way : kWays) run(way, {.loss_ppm = loss, .paths = 4, .skew_us = skew}, clean);
    }
  }
  return 0;
}
