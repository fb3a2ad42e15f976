// Share of a long path's bandwidth that five recovery modes use, over round trip and loss; no PFC anywhere. One line of
// tab-separated values a point; tests/figures/wan makes tables and pictures of them.
//   wan_figures [--quick]                                  all of it; a point without any drop first (column queue_kb)
//   wan_figures 100g                                       100 Gbit/s over 100 ms, wan and wan+FFM: minutes
//   wan_figures WAY RATE_MBPS RTT_US LOSS_PPM [WINDOW [TRIPS]]
//                                                          one point; WINDOW 0: as much as the path needs; measured
//                                                          after so many round trips
//   wan_figures WAY RATE_MBPS RTT_US LOSS_PPM course       with its time series, ten lines a round trip
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "streams/stream.h"

namespace brdma::test {
namespace {

struct Way {
  const char* name;
  RecoveryMode mode;
};
constexpr Way kWays[] = {{"go-back-N", RecoveryMode::kGoBackN},
                         {"selective", RecoveryMode::kSelective},
                         {"FFM", RecoveryMode::kBitmap},
                         {"wan", RecoveryMode::kWan},
                         {"wan+FFM", RecoveryMode::kWanFeedback}};
constexpr std::uint32_t kWindowMax = 1u << 20;   // recovery.window's
constexpr std::uint32_t kUsualWindow = 131'072;  // up to which the default bounds on early packets suffice
constexpr std::uint32_t kPayload = 4096;

struct Point {
  std::uint32_t rate_mbps = 0, rtt_us = 0, loss_ppm = 0;
  std::uint32_t window = 0;  // 0: as much as the path needs
  std::uint32_t trips = 0;   // before the measurement; 0: default
  bool roomy = false;        // a queue that takes everything in flight: nothing is dropped
};

StreamConfig config_of(const Way& way, const Point& point) {
  StreamConfig config;
  config.mode = way.mode;
  config.congestion.control = CongestionControl::kPaced;  // in all: they differ in recovery alone
  config.rate_bps = std::uint64_t{point.rate_mbps} * 1'000'000;
  config.delay = 1_us * (point.rtt_us / 2);
  config.loss_ppm = point.loss_ppm;
  const std::uint64_t path_bytes = config.rate_bps / 8 * point.rtt_us / 1'000'000;
  // A quarter of the path's capacity, as in a router for such links; at least as much as a switch has.
  config.queue_bytes = point.roomy ? 1u << 30 : std::max<std::uint64_t>(256 * 1024, path_bytes / 4);
  // A lost packet holds the window's base for two round trips; one that is lost twice, for three.
  std::uint32_t window = point.window;
  for (window = std::max(window, 4096u); point.window == 0 && window < path_bytes / kPayload * 4;) window *= 2;
  config.window = std::min(window, kWindowMax);
  if (config.window > kUsualWindow) {
    config.state_bytes_max = 1u << 30;
    config.hold_bytes_max = 64u << 20;
  }
  config.standard_window = config.window;  // go-back-N has as much in flight as the others
  config.receive_packets = config.window;
  config.receive_bytes =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(0xFFFF'FFFF, config.window * std::uint64_t{kPayload}));
  config.request_bytes = 1u << 20;
  config.requests_posted =
      static_cast<std::uint32_t>(std::max<std::uint64_t>(16, path_bytes * 5 / config.request_bytes));
  const Duration rtt = 1_us * std::int64_t{point.rtt_us};
  const bool much = config.rate_bps > 10'000'000'000;  // ten times the packets
  const std::int64_t trips = much ? 24 : 30;
  config.warm_up = std::max(rtt * (point.trips != 0 ? std::int64_t{point.trips} : trips), 50_ms);
  config.measured = std::max(rtt * (much ? 10 : 40), 200_ms);
  return config;
}

// The sender's state, to explain a point.
void show(Instant now, const qp::Requester& sender, const Statistics& counters) {
  const auto at = sender.snapshot();
  const auto count = [&](Counter counter) { return static_cast<unsigned long long>(counters.get(counter)); };
  std::printf(
      "%8.1f ms  window %7llu KiB  flight %6u  pipe %7llu KiB  base %u  rtt %.2f (%.2f) ms  sent %llu  "
      "ffm %llu ack %llu wait %llu timeout %llu stalls %llu credit %llu\n",
      static_cast<double>(now.ns()) / 1e6, static_cast<unsigned long long>(at.congestion_bytes >> 10),
      at.flight_packets, static_cast<unsigned long long>(at.pipe_bytes >> 10), at.base.value(),
      static_cast<double>(at.srtt.ns()) / 1e6, static_cast<double>(at.base_rtt.ns()) / 1e6,
      count(Counter::kSentDataPackets), count(Counter::kRetransmittedFfm), count(Counter::kRetransmittedAck),
      count(Counter::kRetransmittedWait), count(Counter::kRetransmittedTimeout), count(Counter::kSendStalls),
      count(Counter::kCreditStalls));
}

void run(const Way& way, const Point& point, bool course = false) {
  StreamConfig config = config_of(way, point);
  if (course) config.watch = show, config.watch_each = 1_us * (point.rtt_us / 10);
  const StreamResult result = run_stream(config);
  std::printf("%s\t%u\t%g\t%g\t%u\t%.4f\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%s\n", way.name, point.rate_mbps,
              static_cast<double>(point.rtt_us) / 1e3, static_cast<double>(point.loss_ppm) / 1e4, config.window,
              result.share, static_cast<unsigned long long>(result.packets),
              static_cast<unsigned long long>(result.lost), static_cast<unsigned long long>(result.queue_dropped),
              static_cast<unsigned long long>(result.retransmitted), static_cast<unsigned long long>(result.timeouts),
              static_cast<unsigned long long>(result.acknowledgements),
              static_cast<unsigned long long>(config.queue_bytes / 1024), result.network.c_str());
  std::fflush(stdout);
}

}  // namespace
}  // namespace brdma::test

int main(int argc, char** argv) {
  using namespace brdma::test;
  std::printf(
      "way\trate_mbps\trtt_ms\tloss_percent\twindow\tshare\tpackets\tlost\tqueue_"
      "dropped\tretransmitted\ttimeouts\tacknowledgements\tqueue_kb\tnetwork\n");
  if (argc == 2 && std::strcmp(argv[1], "100g") == 0) {
    for (const std::uint32_t loss : {0u, 1000u}) {
      for (const Way& way : kWays) {
        if (waits_for_delays(way.mode)) run(way, {100'000, 100'000, loss});
      }
    }
    return 0;
  }
  if (argc >= 5) {
    const auto number = [&](int place) { return static_cast<std::uint32_t>(std::strtoul(argv[place], nullptr, 10)); };
    for (const Way& way : kWays) {
      if (std::strcmp(way.name, argv[1]) != 0) continue;
      const bool course = argc > 5 && std::strcmp(argv[5], "course") == 0;
      run(way, {number(2), number(3), number(4), argc > 5 ? number(5) : 0, argc > 6 ? number(6) : 0}, course);
    }
    return 0;
  }
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  const std::vector<std::uint32_t> trips =
      quick ? std::vector<std::uint32_t>{1000} : std::vector<std::uint32_t>{1000, 10'000, 50'000, 100'000};
  const std::vector<std::uint32_t> losses =
      quick ? std::vector<std::uint32_t>{0, 10'000} : std::vector<std::uint32_t>{0, 100, 1000, 10'000};
  // No loss and no drop: all modes must carry the same.
  for (const Way& way : kWays) run(way, {.rate_mbps = quick ? 1000u : 10'000u, .rtt_us = 1000, .roomy = true});
  for (const std::uint32_t trip : trips) {
    for (const std::uint32_t loss : losses) {
      for (const Way& way : kWays) run(way, {quick ? 1000u : 10'000u, trip, loss});
    }
  }
  return 0;
}
