// Explicit drop notification (DN-16) against other recovery modes, in virtual time: completion times of flows whose
// sizes were measured in data centres. One line of tab-separated values a point; tests/figures/drops draws them.
//   drop_figures DIRECTORY [--quick] [--only KIND] [--seed N]   DIRECTORY: tests/figures/flow-sizes
//   random  SIZES WAY LOSS%  FLOWS MEAN_US P50_US P99_US MAX_US  LOST RESENT TIMEOUTS BROKEN  NOTICES PACKETS% BYTES%
//   FLOWS_MOST  NETWORK  QUEUE_KB  SENDER  SEED
//           one sender; the switch drops at random. SENDER: its limit, a congestion control or so many packets
//   answers the same, with acknowledgements being dropped as well
//   incast  the same with the queue's own drops: 6 senders, one receiver
//   roomy   the same before a queue that takes all of it: nothing is dropped. Without go-back-N, whose window ignores
//           the queue and whose timeouts fill it with copies
//   timeouts  incast again, over the length of the queue, the sender's limit, and IRN's timeouts
//   cdf     SIZES WAY SHARE US                of incast
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "transfers/flows.h"

namespace brdma::test {
namespace {

// Timeouts as 4.096 us * 2^n: 6 is 262 us, 10 is 4.2 ms.
struct Way {
  const char* name;
  RecoveryMode mode;
  bool edn;
  std::uint8_t timeout;
  std::optional<qp::IrnTimeouts> irn{};
};
constexpr Way kWays[] = {{"go-back-N, 4 ms", RecoveryMode::kGoBackN, false, 10},
                         {"go-back-N, 262 us", RecoveryMode::kGoBackN, false, 6},
                         {"IRN, 4 ms", RecoveryMode::kSelective, false, 10, qp::IrnTimeouts{4_ms, 4_ms}},
                         {"IRN", RecoveryMode::kSelective, false, 6, qp::IrnTimeouts{100_us, 320_us}},
                         {"selective", RecoveryMode::kSelective, false, 6},
                         {"FFM", RecoveryMode::kBitmap, false, 6},
                         {"EDN", RecoveryMode::kSelective, true, 6},
                         {"FFM + EDN", RecoveryMode::kBitmap, true, 6}};
// Parameters that determine the gain in an incast: 67 ms is 4.096 us * 2^14, with which RNICs are often used.
constexpr Way kTimeouts[] = {{"IRN", RecoveryMode::kSelective, false, 6, qp::IrnTimeouts{100_us, 320_us}},
                             {"IRN, 4 ms", RecoveryMode::kSelective, false, 10, qp::IrnTimeouts{4_ms, 4_ms}},
                             {"IRN, 67 ms", RecoveryMode::kSelective, false, 14, qp::IrnTimeouts{67_ms, 67_ms}},
                             {"EDN", RecoveryMode::kSelective, true, 6},
                             {"FFM + EDN", RecoveryMode::kBitmap, true, 6}};
// IRN's own limit of a sender: the capacity of the path, here 25 Gbit/s and 10 us, in packets of 1 KiB.
constexpr std::uint32_t kPathPackets = 32;
struct Sizes {
  const char* name;
  const char* file;
  std::uint32_t flows;
};
constexpr Sizes kSizes[] = {{"google", "google_all_rpc_w3.csv", 10'000},
                            {"webserver", "facebook_webserver.csv", 1'000}};

double us(Duration time) { return static_cast<double>(time.ns()) / 1000; }
Duration at_share(const std::vector<Duration>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}
double percent(std::uint64_t part, std::uint64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) * 100 / static_cast<double>(all);
}

void print(const char* kind, const Sizes& sizes, const Way& way, const FlowsConfig& config, const FlowsResult& result) {
  double sum = 0;
  for (const Duration time : result.times) sum += us(time);
  std::printf(
      "%s\t%s\t%s\t%g\t%zu\t%.2f\t%.2f\t%.2f\t%.2f\t%llu\t%llu\t%llu\t%u\t%llu\t%.3f\t%.3f\t%llu\t%s\t%llu\t%s\t%llu\n",
      kind, sizes.name, way.name, config.loss_ppm / 1e4, result.times.size(),
      sum / static_cast<double>(result.times.size()), us(at_share(result.times, 0.5)), us(at_share(result.times, 0.99)),
      us(result.times.back()), static_cast<unsigned long long>(result.lost),
      static_cast<unsigned long long>(result.retransmitted), static_cast<unsigned long long>(result.timeouts),
      result.broken, static_cast<unsigned long long>(result.notices), percent(result.notices, result.forwarded),
      percent(result.notice_bytes, result.forwarded_bytes), static_cast<unsigned long long>(result.table_most),
      result.network.c_str(), static_cast<unsigned long long>(config.queue_bytes / 1024),
      config.control == CongestionControl::kWindow ? "window" : "path", static_cast<unsigned long long>(config.seed));
  std::fflush(stdout);
}

FlowsConfig config_of(const Way& way, std::uint32_t flows) {
  FlowsConfig config;
  config.mode = way.mode;
  config.edn = way.edn;
  config.timeout = way.timeout;
  config.irn = way.irn;
  config.flows = flows;
  return config;
}

FlowsConfig incast_of(const Way& way, std::uint32_t flows, std::uint64_t seed, std::uint64_t queue_bytes) {
  FlowsConfig config = config_of(way, flows);
  config.senders = 6;
  config.seed = seed;
  config.together = true;
  config.load = 0.6;
  config.queue_bytes = queue_bytes;
  return config;
}

void roomy(const Sizes& sizes, const Way& way, const FlowSizes& drawn, std::uint32_t flows, std::uint64_t seed) {
  const FlowsConfig config = incast_of(way, flows, seed, 1u << 30);
  print("roomy", sizes, way, config, run_flows(config, drawn));
}

void timeouts(const Sizes& sizes, const FlowSizes& drawn, std::uint32_t flows, std::uint64_t seed, bool quick) {
  for (const std::uint64_t kb : quick ? std::vector<std::uint64_t>{16} : std::vector<std::uint64_t>{16, 32, 64, 256}) {
    for (const CongestionControl control : {CongestionControl::kWindow, CongestionControl::kNone}) {
      for (const Way& way : kTimeouts) {
        FlowsConfig config = incast_of(way, flows, seed, kb * 1024);
        config.control = control;
        if (control == CongestionControl::kNone) config.window = kPathPackets;
        print("timeouts", sizes, way, config, run_flows(config, drawn));
      }
    }
  }
}

void incast(const Sizes& sizes, const Way& way, const FlowSizes& drawn, std::uint32_t flows, std::uint64_t seed) {
  const FlowsConfig config = incast_of(way, flows, seed, 64 * 1024);
  const FlowsResult result = run_flows(config, drawn);
  print("incast", sizes, way, config, result);
  for (int step = 1; step <= 200; ++step) {
    const double share = 1 - std::pow(0.95, step);  // finer towards the tail
    std::printf("cdf\t%s\t%s\t%.6f\t%.2f\n", sizes.name, way.name, share, us(at_share(result.times, share)));
  }
}

struct Options {
  std::string directory;
  bool quick = false;
  std::string only;  // a kind
  std::uint64_t seed = 1;
};

void random_drops(const Sizes& sizes, const Way& way, const FlowSizes& drawn, std::uint32_t flows, std::uint64_t seed,
                  bool answers) {
  const std::vector<std::uint32_t> some{10'000, 100'000}, all{0, 1'000, 10'000, 100'000, 200'000};
  for (const std::uint32_t loss_ppm : answers ? some : all) {
    FlowsConfig config = config_of(way, flows);
    config.loss_ppm = loss_ppm;
    config.seed = seed;
    config.loses_answers = answers;
    print(answers ? "answers" : "random", sizes, way, config, run_flows(config, drawn));
  }
}

void run(const Options& options) {
  const auto wanted = [&options](const char* kind) { return options.only.empty() || options.only == kind; };
  std::printf(
      "kind\tsizes\tway\tloss_percent\tflows\tmean_us\tp50_us\tp99_us\tmax_us\tlost\tresent\ttimeouts\tbroken\t"
      "notices\tnotice_packets_percent\tnotice_bytes_percent\tflows_in_table_most\tnetwork\tqueue_kb\tsender\tseed\n");
  for (const Sizes& sizes : kSizes) {
    const FlowSizes drawn{options.directory + "/" + sizes.file};
    const std::uint32_t flows = options.quick ? 100 : sizes.flows;
    for (const Way& way : kWays) {
      if (wanted("random")) random_drops(sizes, way, drawn, flows, options.seed, false);
      if (wanted("answers")) random_drops(sizes, way, drawn, flows, options.seed, true);
      if (wanted("incast")) incast(sizes, way, drawn, flows, options.seed);
      if (wanted("roomy") && way.mode != RecoveryMode::kGoBackN) roomy(sizes, way, drawn, flows, options.seed);
    }
    if (wanted("timeouts")) timeouts(sizes, drawn, flows, options.seed, options.quick);
  }
}

}  // namespace
}  // namespace brdma::test

int main(int argc, char** argv) {
  brdma::test::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--quick") {
      options.quick = true;
    } else if (word == "--only" && i + 1 < argc) {
      options.only = argv[++i];
    } else if (word == "--seed" && i + 1 < argc) {
      options.seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      options.directory = word;
    }
  }
  if (options.directory.empty()) {
    std::fprintf(stderr, "drop_figures DIRECTORY [--quick] [--only KIND] [--seed N]\n");
    return 2;
  }
  brdma::test::run(options);
  return 0;
}
