// Feedback of congestion to senders, in virtual time: flows from as many hosts through one router's port
// (tests/sim/bottlenecks/bottleneck.h); half of them run, the other half begins. One line of tab-separated values a
// point; tests/figures/congestion draws them.
//   congestion_figures [--quick] [--seed N]
//   SEED  PLACE  WAY  FLOWS  SHARE  JAIN  QUEUE_P50_KB  QUEUE_P99_KB  QUEUE_MOST_KB  REACTION_US  DROPPED  MARKED
//   REWRITTEN RESENT NETWORK
// 1 flow: no congestion, one WRITE of one packet at a time, which takes equally long with any control. Places: `dc`, 10
// Gbit/s and a round trip of 20 us; `wan`, the same data centre and behind its router 10 ms to the receiver.
// REACTION_US: from a queue of 64 KiB to the moment from which it shrinks; - if it never was so long.
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>

#include "bottlenecks/bottleneck.h"

namespace brdma::test {
namespace {

struct Way {
  const char* name;
  CongestionControl control;
  bool marks;       // the router marks, on packets that can carry it
  bool translated;  // and turns the marks into round-trip time
  EcnField ecn;
};
constexpr Way kWays[] = {
    {"window", CongestionControl::kWindow, false, false, EcnField::kOff},
    {"timely", CongestionControl::kTimely, false, false, EcnField::kOff},
    {"timely-translated", CongestionControl::kTimely, true, true, EcnField::kOff},
    {"dcqcn", CongestionControl::kDcqcn, true, false, EcnField::kEct0},
    {"both", CongestionControl::kBoth, true, false, EcnField::kEct0},
};

struct Place {
  const char* name;
  Duration beyond;
  std::uint64_t queue_bytes;
  Duration alone, together;
  std::uint32_t window;  // packets: a round trip at the rate, and a queue
};
constexpr Place kPlaces[] = {
    {"dc", 5_us, 1u << 20, 20_ms, 60_ms, 1024},
    {"wan", 10_ms, 16u << 20, 600_ms, 1200_ms, 16'384},
};

BottleneckConfig config_of(const Place& place, const Way& way, std::uint32_t flows) {
  BottleneckConfig config;
  config.flows = flows;
  config.beyond = place.beyond;
  config.queue_bytes = place.queue_bytes;
  config.alone = place.alone;
  config.together = place.together;
  config.window = place.window;
  config.requests_posted = place.window / 16;  // of 64 KiB: equal to the window
  config.sample = place.alone / 4000;
  if (flows == 1) {
    config.requests_posted = 1;
    config.request_bytes = 4096;
  }
  // Zhu et al. (SIGCOMM 2015) have 5 KB, 200 KB and 1 % at 40 Gbit/s; HPCC's simulator for 10 Gbit/s a quarter of 400,
  // 1600.
  if (way.marks) config.marking = fabric::MarkingConfig{100 * 1024, 400 * 1024, 200'000};
  if (way.translated) {
    // D of a router whose 17 ports share this place's queue as memory (design ER-11): 49 us, 789 us.
    const Duration longest = fabric::longest_delay(place.queue_bytes, 17, Bandwidth::from_bps(10'000'000'000));
    config.translation = fabric::RttTranslator::Config{.increment = {.longest = longest}};
  }
  config.host = [&way](sim::HostConfig& host) {
    host.engine.recovery.congestion.control = way.control;
    host.engine.recovery.congestion.ecn = way.ecn;
  };
  return config;
}

void print(const Place& place, const Way& way, std::uint32_t flows, std::uint64_t seed) {
  BottleneckConfig config = config_of(place, way, flows);
  config.seed = seed;
  const BottleneckResult r = run_bottleneck(config);
  const auto kb = [](std::uint64_t bytes) { return static_cast<double>(bytes) / 1024; };
  const std::string reaction =
      r.reaction ? std::to_string(static_cast<double>(r.reaction->ns()) / 1000) : std::string{"-"};
  std::printf("%llu\t%s\t%s\t%u\t%.6f\t%.4f\t%.1f\t%.1f\t%.1f\t%s\t%llu\t%llu\t%llu\t%llu\t%s\n",
              static_cast<unsigned long long>(seed), place.name, way.name, flows, r.share, r.jain, kb(r.queue_p50),
              kb(r.queue_p99), kb(r.queue_most), reaction.c_str(), static_cast<unsigned long long>(r.dropped),
              static_cast<unsigned long long>(r.marked), static_cast<unsigned long long>(r.rewritten),
              static_cast<unsigned long long>(r.retransmitted), r.network.c_str());
  std::fflush(stdout);
}

int run(bool quick, std::uint64_t seed) {
  std::printf(
      "seed\tplace\tway\tflows\tshare\tjain\tqueue_p50_kb\tqueue_p99_kb\tqueue_most_kb\treaction_"
      "us\tdropped\tmarked\trewritten\t"
      "resent\tnetwork\n");
  for (const Place& place : kPlaces) {
    for (const Way& way : kWays) {
      for (const std::uint32_t flows : {1u, 2u, 4u, 8u, 16u}) {
        if (quick && (&place != &kPlaces[0] || flows > 2)) continue;
        print(place, way, flows, seed);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace brdma::test

int main(int argc, char** argv) {
  bool quick = false;
  std::uint64_t seed = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--quick") {
      quick = true;
    } else if (word == "--seed" && i + 1 < argc) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::fprintf(stderr, "congestion_figures [--quick] [--seed N]\n");
      return 2;
    }
  }
  return brdma::test::run(quick, seed);
}
