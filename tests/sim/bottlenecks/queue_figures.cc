// Effect of congestion control on a queue, in virtual time: flows from as many hosts through one router's port
// (tests/sim/bottlenecks/bottleneck.h), all from the start; only the full queue drops.
//   queue_figures [--quick] [--rate GBIT] [--rtt US] [--queue BDPS] [--flows N] [--seed N] [--reads]
//                 [--absent EVERY_MS,MOST_MS]
// With --reads the receiver requests the data that the others would write. With --absent each host has no core for up
// to MOST_MS, every EVERY_MS. One line of tab-separated values a point:
//   SEED RATE_GBIT RTT_US QUEUE_BDP FLOWS  FIRST  LATER  SHARE  JAIN  REACHED_MS  NETWORK
// FIRST, LATER: of the packets that came to the queue in the first second, and after it, those dropped, in percent.
// SHARE, JAIN: of the second half. REACHED_MS: from the start to the end of the first step (a hundredth of the time) in
// which 0.9 of the rate was completed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bottlenecks/bottleneck.h"

namespace brdma::test {
namespace {

constexpr Duration kFirst = 1_s;

struct Point {
  double gbit, rtt_us, queue_bdp;
  std::uint32_t flows;
};

// For all points.
struct Options {
  std::uint64_t seed = 1;
  bool reads = false;
  std::string absent{};  // as given
  sim::Stalls stalls{};
};

// Round trips that a flow needs to find its rate, at least the first second and another: but no more packets than a
// machine simulates in half a minute.
Duration lasting(const Point& point) {
  const double packets_a_second = point.gbit * 1e9 / 8 / 4096;
  const double most = std::max(6e6 / packets_a_second, 150 * point.rtt_us / 1e6);
  return Duration::from_ns(static_cast<std::int64_t>(1e9 * std::min(std::max(2.0, 60 * point.rtt_us / 1e6), most)));
}

BottleneckConfig config_of(const Point& point, const Options& options) {
  const double content = point.gbit * 1e9 / 8 * point.rtt_us / 1e6;
  BottleneckConfig config;
  config.flows = point.flows;
  config.rate_bps = static_cast<std::uint64_t>(point.gbit * 1e9);
  config.access = Duration::from_ns(static_cast<std::int64_t>(point.rtt_us * 1000 / 8));
  config.beyond = Duration::from_ns(static_cast<std::int64_t>(point.rtt_us * 1000 * 3 / 8));
  config.queue_bytes = std::max<std::uint64_t>(static_cast<std::uint64_t>(content * point.queue_bdp), 16 * 4200);
  const double held = 2 * (content + static_cast<double>(config.queue_bytes)) + 256 * 1024;
  config.window = static_cast<std::uint32_t>(std::clamp(held / 4096, 256.0, 131'072.0));
  config.requests_posted = std::max(config.window / 16, 16u);
  config.alone = Duration{};
  config.together = lasting(point);
  config.step = config.together / 100;
  config.sample = std::max(config.step / 16, Duration::from_ns(1000));
  config.seed = options.seed;
  config.reads = options.reads;
  config.host = [stalls = options.stalls](sim::HostConfig& host) { host.stalls = stalls; };
  return config;
}

Duration milliseconds(const char* text) { return 1_ms * static_cast<std::int64_t>(std::strtol(text, nullptr, 10)); }

double percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

void print(const Point& point, const Options& options) {
  const BottleneckConfig config = config_of(point, options);
  BottleneckResult r = run_bottleneck(config);
  const Instant begin{};
  BottleneckStep first, before;
  double reached = -1;
  const double whole = static_cast<double>(config.rate_bps) / 8 * static_cast<double>(config.step.ns()) / 1e9;
  std::uint64_t completed_before = 0;
  for (const BottleneckStep& step : r.course) {
    if (step.at - begin <= kFirst && step.at - begin <= config.together / 2) first = step;
    std::uint64_t completed = 0;
    for (const std::uint64_t bytes : step.completed) completed += bytes;
    if (reached < 0 && static_cast<double>(completed - completed_before) >= 0.9 * whole)
      reached = static_cast<double>((step.at - begin).ns()) / 1e6;
    completed_before = completed;
  }
  const BottleneckStep& last = r.course.back();
  std::printf("%llu\t%g\t%g\t%g\t%u\t%.3f\t%.3f\t%.3f\t%.3f\t%.1f\t%s%s%s\n",
              static_cast<unsigned long long>(options.seed), point.gbit, point.rtt_us, point.queue_bdp, point.flows,
              percent(first.dropped, first.offered),
              percent(last.dropped - first.dropped, last.offered - first.offered), r.share, r.jain, reached,
              r.network.c_str(), options.absent.empty() ? "" : ";absent=", options.absent.c_str());
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  std::vector<double> rates{0.1, 1, 10, 100}, rtts{10, 100, 1000, 10'000, 100'000}, queues{0.1, 0.25, 1, 4},
      flows{2, 8, 64};
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool more = i + 1 < argc;
    if (word == "--quick") {
      rates = {1}, rtts = {100}, queues = {1}, flows = {2};
    } else if (word == "--reads") {
      options.reads = true;
    } else if (word == "--rate" && more) {
      rates = {std::strtod(argv[++i], nullptr)};
    } else if (word == "--rtt" && more) {
      rtts = {std::strtod(argv[++i], nullptr)};
    } else if (word == "--queue" && more) {
      queues = {std::strtod(argv[++i], nullptr)};
    } else if (word == "--flows" && more) {
      flows = {std::strtod(argv[++i], nullptr)};
    } else if (word == "--seed" && more) {
      options.seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (word == "--absent" && more && std::strchr(argv[i + 1], ',') != nullptr) {
      options.absent = argv[++i];
      options.stalls = {milliseconds(argv[i]), milliseconds(std::strchr(argv[i], ',') + 1)};
    } else {
      std::fprintf(stderr,
                   "queue_figures [--quick] [--rate GBIT] [--rtt US] [--queue BDPS] [--flows N] [--seed N] [--reads] "
                   "[--absent EVERY_MS,MOST_MS]\n");
      return 2;
    }
  }
  std::printf("seed\trate_gbit\trtt_us\tqueue_bdp\tflows\tfirst\tlater\tshare\tjain\treached_ms\tnetwork\n");
  for (const double rate : rates) {
    for (const double rtt : rtts) {
      if (rate * rtt > 100'000) continue;  // 12.5 MB on the path
      for (const double queue : queues) {
        for (const double count : flows) print({rate, rtt, queue, static_cast<std::uint32_t>(count)}, options);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace brdma::test

int main(int argc, char** argv) { return brdma::test::run(argc, argv); }
