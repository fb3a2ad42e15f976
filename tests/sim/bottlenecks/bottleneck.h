// sim/bottlenecks/bottleneck.h - flows from as many hosts through one router's port to one receiver: a bottleneck that
// they share.
//
//   senders -> router -> [the bottleneck: rate, queue] -> receiver
//
// Half of the flows begin at once. The others begin when those have settled: the resulting congestion is measured.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/units.h"
#include "fabric/link.h"
#include "fabric/routing/router.h"
#include "fabric/switch/drop_notifier.h"
#include "fabric/switch/rtt_translator.h"
#include "sim/host.h"

namespace brdma::test {

struct BottleneckConfig {
  std::uint32_t flows = 2;
  std::uint64_t rate_bps = 10'000'000'000;
  Duration access = 5_us;  // sender to router, one way
  Duration beyond = 5_us;  // router to receiver, one way
  std::uint64_t queue_bytes = 512 * 1024;
  std::optional<fabric::MarkingConfig> marking{};
  std::optional<fabric::RttTranslator::Config> translation{};
  fabric::EdnForm edn = fabric::EdnForm::kOff;
  fabric::SharedBufferConfig memory{};
  std::function<void(sim::HostConfig&)> host{};  // further settings of the hosts
  bool reads = false;                            // the receiver requests the data that the others would write
  std::uint32_t request_bytes = 65536, requests_posted = 16;
  std::uint32_t window = 4096;
  Duration alone = 20_ms;     // until the other half begins
  Duration together = 40_ms;  // from then on; the second half of it is measured
  Duration sample = 5_us;     // between two samples of the queue
  Duration step{};            // between two entries of the result's time series; 0: none
  std::uint64_t seed = 1;
};

// Totals up to a moment.
struct BottleneckStep {
  Instant at;
  std::uint64_t offered = 0, dropped = 0;  // packets that reached the bottleneck; of these, dropped
  std::vector<std::uint64_t> completed{};  // bytes, by flow
};

struct BottleneckResult {
  std::string network;                         // fabric/network.h: network_text; and the senders' links
  double share = 0;                            // payload delivered, relative to the capacity of the rate
  std::vector<double> shares;                  // by flow
  double jain = 0;                             // fairness of these: 1 is equal
  std::uint64_t queue_p50 = 0, queue_p99 = 0;  // bytes, while measured
  std::uint64_t queue_most = 0;                // since the other half began
  // From the first packet that found a long queue (64 KiB) after the other half began, to the moment from which the
  // queue shrinks: the time until senders send less than the bottleneck carries. None: it never was so long, or always;
  // or it does not shrink.
  std::optional<Duration> reaction{};
  std::uint64_t dropped = 0, marked = 0, rewritten = 0, notices = 0;
  std::uint64_t packets = 0, retransmitted = 0;
  fabric::Router::Counters router{};
  std::vector<BottleneckStep> course{};
};

[[nodiscard]] BottleneckResult run_bottleneck(const BottleneckConfig& config);

}  // namespace brdma::test
