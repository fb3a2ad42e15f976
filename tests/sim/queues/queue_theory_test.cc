// Links and routers against queueing theory: packets at random times before a link of fixed rate (M/D/1) wait for
// load * S / (2 * (1 - load)), S being a packet's time on the wire; of two sizes (M/G/1) for lambda * E[S^2] / (2 * (1
// - load)).
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "base/random.h"
#include "base/ring.h"
#include "fabric/link.h"
#include "queues/frame_station.h"

namespace brdma::test {
namespace {

constexpr std::uint32_t kBytes = 1250;
constexpr double kServiceNs = 10'000;  // 1250 bytes at 1 Gbit/s

struct NoOwner {
  std::optional<int> duplicate(int) { return std::nullopt; }
  void corrupt(int, std::uint64_t) {}
  void discard(int) {}
};

double uniform(Random& random) { return (static_cast<double>(random.next() >> 11) + 0.5) / 9007199254740992.0; }

// Mean wait before the wire, ns. `large`: one of so many packets is ten times as long; 0: none.
double mean_wait(double load, std::uint64_t packets, std::uint64_t large) {
  fabric::LinkConfig config;
  config.rate = Bandwidth::from_bps(1'000'000'000);
  config.queue_bytes = 1u << 30;
  fabric::Link<int> link{config, 1, "link"};
  NoOwner owner;
  Random random{7, "arrivals"};
  const double mean_service = large == 0 ? kServiceNs : kServiceNs * (1 + 9.0 / static_cast<double>(large));
  double at = 0;
  std::uint64_t waits = 0, left = packets;
  Ring<std::pair<Instant, std::int64_t>> sent;  // time, time on the wire
  const auto take_until = [&](Instant now) {
    while (link.poll(now, owner)) {
      waits += static_cast<std::uint64_t>((link.polled_due() - sent.front().first).ns() - sent.front().second);
      sent.pop_front();
    }
  };
  for (; left > 0; --left) {
    at -= std::log(uniform(random)) * mean_service / load;
    const Instant now = Instant::from_ns(static_cast<std::int64_t>(at));
    take_until(now);
    const bool is_large = large != 0 && random.below(large) == 0;
    const std::uint32_t bytes = is_large ? kBytes * 10 : kBytes;
    sent.push_back({now, static_cast<std::int64_t>(kServiceNs) * (is_large ? 10 : 1)});
    link.handle_packet(0, bytes, true, now, owner);
  }
  take_until(Instant::from_ns(static_cast<std::int64_t>(at) + 1'000'000'000'000));
  EXPECT_TRUE(sent.empty());
  return static_cast<double>(waits) / static_cast<double>(packets);
}

double in_theory(double load) { return load * kServiceNs / (2 * (1 - load)); }

TEST(QueueTheory, PacketsOfOneSizeWaitAsLongAsAnMD1QueueSays) {
  EXPECT_NEAR(mean_wait(0.5, 2'000'000, 0), in_theory(0.5), in_theory(0.5) * 0.01);      // 0.5 S
  EXPECT_NEAR(mean_wait(0.8, 4'000'000, 0), in_theory(0.8), in_theory(0.8) * 0.01);      // 2 S
  EXPECT_NEAR(mean_wait(0.95, 10'000'000, 0), in_theory(0.95), in_theory(0.95) * 0.03);  // 9.5 S
}

TEST(QueueTheory, PacketsOfTwoSizesWaitAsLongAsAnMG1QueueSays) {
  // One in ten has 10 S: mean 1.9 S, mean square (0.9 + 0.1 * 100) S^2 = 10.9 S^2.
  const double load = 0.7, arrivals = load / (1.9 * kServiceNs);
  const double theory = arrivals * 10.9 * kServiceNs * kServiceNs / (2 * (1 - load));
  EXPECT_NEAR(mean_wait(load, 6'000'000, 10), theory, theory * 0.02);
}

// The same in a world: 20 sources, one router, one sink. Their own links take no time.
TEST(QueueTheory, ARoutersPortIsSuchAQueue) {
  const double load = 0.8;
  sim::World world{3};
  world.run_only_due();
  sim::RoutedNetwork& network = world.route_hosts();
  sim::RouterNode& router = network.add_router();
  const auto add = [&](std::uint8_t number, const fabric::LinkConfig& down) -> FrameStation& {
    auto made = std::make_unique<FrameStation>(world.packets(), IpAddress::v4(10, 0, 0, number), number);
    FrameStation& station = *made;
    world.add_station(std::move(made));
    network.join(station, router, {}, down);
    return station;
  };
  fabric::LinkConfig port;
  port.rate = Bandwidth::from_bps(1'000'000'000);
  port.queue_bytes = 1u << 30;
  FrameStation& sink = add(1, port);
  constexpr std::uint64_t kEach = 50'000;
  const std::array to{sink.address()};
  FrameStation::Traffic traffic;
  traffic.to = to;
  traffic.bytes = kBytes;
  traffic.gap_ns = kServiceNs / load * 20;
  traffic.count = kEach;
  for (std::uint8_t i = 0; i < 20; ++i) add(static_cast<std::uint8_t>(i + 2), {}).send(traffic);
  ASSERT_TRUE(world.run_until_idle(1000_s));
  EXPECT_EQ(sink.received(), 20 * kEach);
  EXPECT_NEAR(sink.mean_delay(), in_theory(load) + kServiceNs, in_theory(load) * 0.03);
}

// One sender at the link's rate: frames of a bandwidth-delay product are in flight, and no queue forms.
TEST(QueueTheory, ALinkHoldsItsBandwidthDelayProduct) {
  fabric::LinkConfig config;
  config.rate = Bandwidth::from_bps(1'000'000'000);
  config.delay = 1_ms;  // 100 packets of 10 us
  config.queue_bytes = 1u << 30;
  fabric::Link<int> link{config, 1, "link"};
  NoOwner owner;
  std::size_t most = 0;
  for (int i = 0; i < 1000; ++i) {
    const Instant now = Instant::from_ns(i * static_cast<std::int64_t>(kServiceNs));
    while (link.poll(now, owner)) {
    }
    link.handle_packet(i, kBytes, true, now, owner);
    most = std::max(most, link.pending());
  }
  EXPECT_EQ(most, 101u);  // and the one that is being sent
}

}  // namespace
}  // namespace brdma::test
