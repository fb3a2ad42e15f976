// Time until traffic has moved away from a link that is cut, or that has become slow, in virtual time: one line of
// tab-separated values a point. tests/figures/reroute makes tables and pictures of them, and measures the same in the
// lab.
//   reroute_figures [--quick]
//   reroute_figures WAY cut|slow DELAY_MS    one point with its time series: a line each 20 ms, from 1 s before the
//   event on
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "controller/controlled_world.h"
#include "qp/state/queue_pair.h"
#include "streams/stream_pair.h"
#include "trace/retransmissions.h"

namespace brdma::test {
namespace {

struct Way {
  const char* name;
  RecoveryMode mode;
  CongestionControl control;
};
constexpr Way kWays[] = {{"default", RecoveryMode::kBitmap, CongestionControl::kWindow},
                         {"wan+FFM, paced", RecoveryMode::kWanFeedback, CongestionControl::kPaced}};
constexpr std::uint32_t kRequest = 65536;
constexpr std::uint32_t kSlowPart = 20;
constexpr Duration kBin = 1_ms, kAfter = 3_s;
constexpr std::size_t kShown = 20;  // bins a line

// Bytes completed by the end of each bin.
class Stream {
 public:
  Stream(ControlledWorld& world, std::uint32_t under_way) : world_(world), under_way_(under_way) {
    EndpointConfig endpoint;
    endpoint.mtu = PathMtu::k4096;
    endpoint.timeout = 19;  // RDMA-CM's
    endpoint.send_wr_max = under_way;
    pair_ = std::make_unique<StreamPair>(world.world(), world.host(0), world.host(1), endpoint, 0, kRequest);
  }
  void run_for(Duration how_long) {
    for (Instant end = world_.world().now() + how_long; world_.world().now() < end;) {
      const Instant bin_end = world_.world().now() + kBin;
      world_.world().run_until(
          [this] {
            pair_->take();
            pair_->post(WorkOpcode::kRdmaWrite, under_way_);
            return false;
          },
          bin_end - world_.world().now());
      bytes.push_back(pair_->completed() * kRequest);
      if (shown && bytes.size() % kShown == 0) show();
    }
  }
  // Bytes a bin lately: the median of five spans, since in one of them the flow may drain its queue.
  [[nodiscard]] double settled(Duration span) const {
    const auto bins = static_cast<std::size_t>(span.ns() / kBin.ns());
    std::vector<std::uint64_t> spans;
    for (std::size_t end = bytes.size() - 1; spans.size() < 5 && end >= bins; end -= bins)
      spans.push_back(bytes[end] - bytes[end - bins]);
    std::ranges::nth_element(spans, spans.begin() + static_cast<std::ptrdiff_t>(spans.size() / 2));
    return static_cast<double>(spans[spans.size() / 2]) / static_cast<double>(bins);
  }
  [[nodiscard]] std::uint64_t resent() const { return retransmitted(pair_->host().statistics()); }

  std::vector<std::uint64_t> bytes;
  bool shown = false;

 private:
  // The sender's state, to explain a point.
  void show() {
    const qp::Requester& sender = pair_->qp()->requester();
    const auto at = sender.snapshot();
    const Statistics& counters = pair_->host().statistics();
    std::printf(
        "%7zu ms  %6llu KiB done  window %6llu KiB  flight %5u  pipe %6llu KiB  delivered %4llu Mbit/s  "
        "rtt %6.2f (%6.2f) ms  lost %llu  again %llu  timeouts %llu\n",
        bytes.size(), static_cast<unsigned long long>((bytes.back() - bytes[bytes.size() - 1 - kShown]) >> 10),
        static_cast<unsigned long long>(at.congestion_bytes >> 10), at.flight_packets,
        static_cast<unsigned long long>(at.pipe_bytes >> 10),
        static_cast<unsigned long long>(sender.delivered().bps() / 1'000'000), static_cast<double>(at.srtt.ns()) / 1e6,
        static_cast<double>(at.base_rtt.ns()) / 1e6, static_cast<unsigned long long>(world_.lost()),
        static_cast<unsigned long long>(retransmitted(counters)),
        static_cast<unsigned long long>(counters.get(Counter::kLocalAckTimeout)));
  }

  ControlledWorld& world_;
  std::uint32_t under_way_;
  std::unique_ptr<StreamPair> pair_;
};

double ms(std::optional<Instant> at, Instant since) { return at ? static_cast<double>((*at - since).ns()) / 1e6 : -1; }

// False: traffic did not come back.
bool run(const Way& way, bool cut, std::uint32_t delay_ms, bool quick, bool shown = false) {
  ControlledWorldConfig config;
  config.delay = 1_ms * std::int64_t{delay_ms};
  config.recovery.mode = way.mode;
  config.recovery.congestion.control = way.control;
  const std::uint64_t holds = config.rate_bps / 8 * 2 * delay_ms / 1000;
  while (std::uint64_t{config.window} * 4096 < holds * 4) config.window *= 2;
  ControlledWorld world{config};
  Stream stream{world, static_cast<std::uint32_t>(std::max<std::uint64_t>(64, holds * 2 / kRequest))};
  const Duration trip = config.delay * 2;
  stream.run_for(quick ? 500_ms : 3_s);
  stream.shown = shown;
  if (!quick) stream.run_for(1_s);
  const std::size_t from = stream.bytes.size();
  const double before = stream.settled(std::max(trip * 2, quick ? 20_ms : 100_ms));
  const std::uint64_t resent = stream.resent(), lost = world.lost();
  const Instant event = world.world().now();
  cut ? world.cut() : world.slow_down(kSlowPart);
  stream.run_for(kAfter);
  // Recovery: the first moment from which four fifths of the former goodput arrive over two long round trips.
  const auto span = static_cast<std::size_t>(std::max(trip * 3, 20_ms).ns() / kBin.ns());
  std::size_t back = from;
  while (back + span < stream.bytes.size() && static_cast<double>(stream.bytes[back + span] - stream.bytes[back]) <
                                                  before * static_cast<double>(span) * 0.8) {
    ++back;
  }
  const bool came = back + span < stream.bytes.size();
  const double expected = before * static_cast<double>(back + span - from),
               got = static_cast<double>(stream.bytes[std::min(back + span, stream.bytes.size() - 1)] -
                                         stream.bytes[from - 1]);
  const double after = static_cast<double>(stream.bytes.back() - stream.bytes[from - 1]) /
                       static_cast<double>(kAfter.ns() / kBin.ns());  // a bin
  std::printf("simulator\t%s\t%s\t%u\t%.0f\t%.1f\t%.1f\t%.1f\t%.1f\t%llu\t%llu\t%.0f\t%s\n", way.name,
              cut ? "cut" : "slow", delay_ms, before * 8 / 1000, ms(world.told_at(), event),
              ms(world.installed_at(), event), came ? static_cast<double>(back - from) : -1.0,
              std::max(0.0, (expected - got) / before), static_cast<unsigned long long>(world.lost() - lost),
              static_cast<unsigned long long>(stream.resent() - resent), after * 8 / 1000, world.network().c_str());
  std::fflush(stdout);
  return came && world.told_at() && world.installed_at() && *world.installed_at() > event;
}

}  // namespace
}  // namespace brdma::test

int main(int argc, char** argv) {
  using namespace brdma::test;
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  std::printf(
      "where\tway\tevent\tdelay_ms\tbefore_mbps\ttold_ms\troutes_ms\tback_ms\tmissed_ms\tlost\tresent\tafter_"
      "mbps\tnetwork\n");
  bool good = true;
  if (argc == 4) {
    for (const Way& way : kWays) {
      if (std::strcmp(way.name, argv[1]) != 0) continue;
      good &= run(way, std::strcmp(argv[2], "cut") == 0, static_cast<std::uint32_t>(std::atoi(argv[3])), false, true);
    }
    return good ? 0 : 1;
  }
  for (const std::uint32_t delay : quick ? std::vector<std::uint32_t>{1} : std::vector<std::uint32_t>{1, 10, 50}) {
    for (const bool cut : {true, false}) {
      for (const Way& way : kWays) good &= run(way, cut, delay, quick);
    }
  }
  return good ? 0 : 1;
}
