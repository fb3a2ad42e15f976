// A stream whose only path becomes slow, behind a queue that then takes twenty round trips to drain. tests design
// WT-19; congestion/window/base_round_trip.h
#include <gtest/gtest.h>

#include <cstdint>

#include "sim/world.h"
#include "streams/stream_pair.h"

namespace brdma::test {
namespace {

constexpr std::uint32_t kRequest = 65536, kUnderWay = 64, kWindow = 512;
constexpr std::uint64_t kRate = 200'000'000;

sim::HostConfig host_of(std::uint8_t number) {
  sim::HostConfig host;
  host.name = "h" + std::to_string(number);
  host.address = IpAddress::v4(10, number, 0, 1);
  host.engine.seed = number;
  host.engine.segments_max = 16;
  host.engine.receive_packets = kWindow;
  host.engine.receive_bytes = kWindow * 4096;
  host.engine.recovery.window_packets = kWindow;
  return host;
}

fabric::LinkConfig link(Duration delay, std::uint64_t rate_bps) {
  return {.delay = delay, .rate = Bandwidth::from_bps(rate_bps), .queue_bytes = 256 * 1024};
}

struct Found {
  std::uint64_t dropped = 0;
  double mbps = 0;
};

// Over 4 s from the moment when the link drops to a fraction of its rate. The sender's own rate is below the link's.
Found slow_down(Duration delay, std::uint64_t sender_rate, std::uint32_t part) {
  sim::World world{1};
  auto& network = world.route_hosts();
  auto sender = host_of(1);
  sender.output_rate = Bandwidth::from_bps(sender_rate);
  sim::Host &from = world.add_host(sender), &to = world.add_host(host_of(2));
  auto &near = network.add_router(), &far = network.add_router();
  const fabric::LinkConfig cable{.delay = 100_us, .rate = Bandwidth::from_bps(kRate * 10), .queue_bytes = 1u << 30};
  network.join(from, near, cable, cable);
  network.join(to, far, cable, cable);
  network.join(near, far, link(delay, kRate), link(delay, kRate));
  network.add_route(near, fabric::Prefix::v4(IpAddress::v4(10, 2, 0, 0), 16), {&far});
  network.add_route(far, fabric::Prefix::v4(IpAddress::v4(10, 1, 0, 0), 16), {&near});
  EndpointConfig endpoint;
  endpoint.mtu = PathMtu::k4096;
  endpoint.timeout = 19;
  endpoint.send_wr_max = kUnderWay;
  StreamPair stream{world, from, to, endpoint, 0, kRequest};
  const auto run_for = [&](Duration how_long) {
    world.run_until(
        [&] {
          stream.take();
          stream.post(WorkOpcode::kRdmaWrite, kUnderWay);
          return false;
        },
        how_long);
  };
  run_for(2_s);
  network.configure(near, far, link(delay, kRate / part), world.now());
  const std::uint64_t dropped = network.link(near, far).counters().queue_dropped, done = stream.completed();
  run_for(4_s);
  return {.dropped = network.link(near, far).counters().queue_dropped - dropped,
          .mbps = static_cast<double>((stream.completed() - done) * kRequest) * 8 / 4e6};
}

// A growing queue makes each round longer than the last, as a longer path would; half the rate makes it shorter.
// Mistaken for a path of 117 ms that delivered 100 Mbit/s before, it would get bursts of 1.5 MB.
TEST(SlowLink, AQueueThatGrowsIsNotTakenForALongerPath) {
  for (const std::uint64_t sender_rate : {kRate / 2, kRate - kRate / 4, kRate - kRate / 20}) {
    for (const std::uint32_t part : {10u, 20u, 40u}) {
      const Found found = slow_down(5_ms, sender_rate, part);
      EXPECT_LT(found.dropped, 350u) << sender_rate << " to a part of " << part;
      EXPECT_GT(found.mbps, 0.85 * 200 / part) << sender_rate << " to a part of " << part;
    }
  }
}

// The posted data is less than the window after slow start, so it never fills that window; the queue holds a fifth of
// the path. A window that kept the former rate would lose 5,200.
TEST(SlowLink, AWindowThatWasNeverFullDetectsAQueueToo) {
  const Found found = slow_down(25_ms, kRate - kRate / 20, 10);
  EXPECT_LT(found.dropped, 2500u);
  EXPECT_GT(found.mbps, 17);
}

}  // namespace
}  // namespace brdma::test
