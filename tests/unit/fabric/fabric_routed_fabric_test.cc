// Several routers: hops, delays that add up, routes that change under traffic, links that are cut; no packet
// unaccounted for.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "base/random.h"
#include "fabric/routing/routed_fabric.h"

namespace brdma::fabric {
namespace {

constexpr Instant at(Duration since_start) { return Instant::from_ns(1'000'000'000) + since_start; }

struct TestPacket {
  std::uint32_t number = 0;
  std::uint16_t source_port = 0;
  std::uint8_t to = 0;  // a host's number; kNoIp: none
  std::uint8_t hops = 64;
};
constexpr std::uint8_t kNoIp = 255;

IpAddress address(std::uint32_t host) { return IpAddress::v4(10, 0, static_cast<std::uint8_t>(host), 1); }
Prefix prefix(std::uint32_t host) { return Prefix::v4(IpAddress::v4(10, 0, static_cast<std::uint8_t>(host), 0), 24); }

struct Owner {
  std::optional<TestPacket> duplicate(const TestPacket&) { return std::nullopt; }
  void corrupt(TestPacket&, std::uint64_t) {}
  void discard(const TestPacket&) { ++discarded; }
  void at(std::optional<std::uint32_t> router) { current = router; }
  std::optional<Routable> look(const TestPacket& packet) {
    if (packet.to == kNoIp) return std::nullopt;
    return Routable{.flow = {address(9), address(packet.to), packet.source_port, 4791, 17},
                    .hops_left = packet.hops,
                    .bytes = 1000};
  }
  void spend_hop(TestPacket& packet) { --packet.hops; }
  bool judged(const TestPacket&) { return true; }
  std::uint64_t discarded = 0;
  std::optional<std::uint32_t> current;
};

// h0 - r0 =(10 ms)= r1 - h1, a second link of 20 ms between the routers.
class RoutedFabricTest : public testing::Test {
 protected:
  using Fabric = RoutedFabric<TestPacket>;
  RoutedFabricTest() {
    for (int i = 0; i < 2; ++i) (void)fabric.add_router();
    for (int i = 0; i < 2; ++i) (void)fabric.add_host();
    for (std::uint32_t i = 0; i < 2; ++i) {
      EXPECT_EQ(fabric.join({.is_host = true, .number = i}, {.number = i}, {}, {}, "h" + std::to_string(i)), i);
    }
    EXPECT_EQ(fabric.join({.number = 0}, {.number = 1}, {.delay = 10_ms}, {.delay = 10_ms}, "short"), 2u);
    EXPECT_EQ(fabric.join({.number = 0}, {.number = 1}, {.delay = 20_ms}, {.delay = 20_ms}, "long"), 3u);
    route(0, prefix(0), {0});
    route(0, prefix(1), {1});
    route(1, prefix(1), {0});
    route(1, prefix(0), {1});
  }
  ~RoutedFabricTest() override { fabric.clear(owner); }
  void route(std::uint32_t router, const Prefix& to, std::vector<std::uint32_t> ports) {
    EXPECT_TRUE(fabric.router(router).table().set(to, ports));
  }
  void send(std::uint32_t number, Duration when, std::uint8_t to = 1, std::uint8_t hops = 64,
            std::uint16_t source_port = 7) {
    fabric.handle_packet(1u - to % 2u, {number, source_port, to, hops}, 1000, at(when), owner);
  }
  std::vector<std::uint32_t> receive(std::uint32_t host, Duration when) {
    fabric.handle_timeout(at(when), owner);
    std::vector<std::uint32_t> numbers;
    while (const auto packet = fabric.poll(host, at(when), owner)) {
      numbers.push_back(packet->number);
      EXPECT_EQ(packet->hops, 62);
    }
    return numbers;
  }
  using Numbers = std::vector<std::uint32_t>;

  Owner owner;
  Fabric fabric{1};
};

TEST_F(RoutedFabricTest, APacketTakesItsRouteAndItsTime) {
  send(1, 0_ms);
  EXPECT_EQ(fabric.next_timeout(), at(10_ms));
  EXPECT_EQ(receive(1, 9_ms), Numbers{});
  EXPECT_EQ(receive(1, 10_ms), Numbers{1});
  send(2, 11_ms, 0);
  EXPECT_EQ(receive(0, 21_ms), Numbers{2});
  EXPECT_EQ(fabric.next_timeout(), std::nullopt);
  EXPECT_EQ(owner.discarded, 0u);
}

// tests design WT-8
TEST_F(RoutedFabricTest, EachRouterHasAProcessingRateOfItsOwn) {
  fabric.configure_processor(1, 1'000);  // a packet each millisecond
  for (std::uint32_t i = 1; i <= 3; ++i) send(i, 0_ms);
  EXPECT_EQ(fabric.next_timeout(), at(10_ms)) << "the first router is not bounded";
  EXPECT_EQ(receive(1, 10_ms), Numbers{});
  EXPECT_EQ(fabric.next_timeout(), at(11_ms));
  EXPECT_EQ(receive(1, 12_ms), (Numbers{1, 2}));
  EXPECT_EQ(receive(1, 13_ms), Numbers{3});
  const auto kRoom = static_cast<std::uint32_t>(Processor<TestPacket>::kWaitingMax);
  for (std::uint32_t i = 0; i < kRoom + 2; ++i) send(i, 20_ms);
  EXPECT_EQ(receive(1, 30_ms), Numbers{});
  EXPECT_EQ(fabric.processing(1).dropped, 2u);
  EXPECT_EQ(owner.discarded, 2u);
  EXPECT_EQ(receive(1, 10_s).size(), kRoom);
}

TEST_F(RoutedFabricTest, HopsRunOutAndWhatHasNoRouteIsCounted) {
  send(1, 0_ms, 1, 1);
  EXPECT_EQ(fabric.router(0).counters().hops_spent, 1u);
  send(2, 0_ms, 1, 2);
  EXPECT_EQ(receive(1, 10_ms), Numbers{});
  EXPECT_EQ(fabric.router(1).counters().hops_spent, 1u);
  send(3, 10_ms, 5);
  EXPECT_EQ(fabric.router(0).counters().no_route, 1u);
  send(4, 10_ms, kNoIp);
  EXPECT_EQ(fabric.router(0).counters().not_ip, 1u);
  EXPECT_EQ(owner.discarded, 4u);
  const auto& counters = fabric.router(0).counters();
  EXPECT_EQ(counters.received, counters.forwarded + counters.no_route + counters.hops_spent + counters.not_ip);
}

TEST_F(RoutedFabricTest, ALoopEndsWithTheHops) {
  route(1, prefix(1), {1});  // back to r0
  send(1, 0_ms, 1, 64);
  EXPECT_EQ(receive(1, 1000_ms), Numbers{});
  EXPECT_EQ(fabric.router(0).counters().hops_spent + fabric.router(1).counters().hops_spent, 1u);
  EXPECT_EQ(owner.discarded, 1u);
}

TEST_F(RoutedFabricTest, ARouteChangesUnderPacketsInFlight) {
  send(1, 0_ms);
  route(0, prefix(1), {2});
  send(2, 1_ms);
  EXPECT_EQ(receive(1, 10_ms), Numbers{1});
  EXPECT_EQ(receive(1, 21_ms), Numbers{2});
  EXPECT_EQ(owner.discarded, 0u);
}

TEST_F(RoutedFabricTest, ACutLosesWhatIsOnTheLinkAndRefusesWhatComes) {
  send(1, 0_ms);
  send(2, 1_ms, 0);
  fabric.set_up(2, false, owner);
  EXPECT_EQ(fabric.direction(2, false).cut.lost_in_flight, 1u);
  EXPECT_EQ(fabric.direction(2, true).cut.lost_in_flight, 1u);
  send(3, 2_ms);
  EXPECT_EQ(fabric.direction(2, false).cut.refused, 1u);
  EXPECT_EQ(owner.discarded, 3u);
  route(0, prefix(1), {2});
  send(4, 3_ms);
  EXPECT_EQ(receive(1, 23_ms), Numbers{4});
  fabric.set_up(2, true, owner);
  route(0, prefix(1), {1});
  send(5, 24_ms);
  EXPECT_EQ(receive(1, 34_ms), Numbers{5});
}

TEST_F(RoutedFabricTest, FlowsSpreadAndEachKeepsItsPath) {
  route(0, prefix(1), {1, 2});
  for (std::uint16_t flow = 0; flow < 64; ++flow) {
    for (int i = 0; i < 2; ++i) send(flow, 0_ms, 1, 64, flow);
  }
  std::map<std::uint32_t, int> early;
  for (const std::uint32_t flow : receive(1, 10_ms)) ++early[flow];
  EXPECT_GT(early.size(), 16u);
  EXPECT_LT(early.size(), 48u);
  for (const auto& [flow, packets] : early) EXPECT_EQ(packets, 2) << flow;
  EXPECT_EQ(receive(1, 20_ms).size(), 128 - 2 * early.size());
}

// For any events at links and routes, each packet is delivered, counted as dropped somewhere, or still there.
TEST_F(RoutedFabricTest, NoPacketIsUnaccountedFor) {
  Random random{5};
  std::uint64_t sent = 0, received = 0;
  for (std::uint32_t link = 2; link < 4; ++link) {
    for (const bool back : {false, true}) {
      fabric.configure(link, back,
                       {.impairments = {.loss_ppm = 50'000},
                        .delay = 3_ms,
                        .rate = Bandwidth::from_bps(100'000'000),
                        .queue_bytes = 20'000});
    }
  }
  Duration now{};
  for (int step = 0; step < 20'000; ++step) {
    now = now + Duration::from_ns(static_cast<std::int64_t>(random.below(100'000)));
    const auto dice = random.below(100);
    if (dice < 90) {
      const std::uint8_t to = dice == 0 ? std::uint8_t{6} : static_cast<std::uint8_t>(random.below(2));
      const auto hops = static_cast<std::uint8_t>(random.below(20) == 0 ? random.below(3) : 64);
      fabric.handle_packet(static_cast<std::uint32_t>(random.below(2)),
                           {1, static_cast<std::uint16_t>(random.below(16)), to, hops}, 1000, at(now), owner);
      ++sent;
    } else if (dice < 94) {
      fabric.set_up(static_cast<std::uint32_t>(random.below(4)), random.below(3) != 0, owner);
    } else {
      const auto router = static_cast<std::uint32_t>(random.below(2));
      std::vector<std::uint32_t> ports{1 + static_cast<std::uint32_t>(random.below(2))};
      if (random.below(2) != 0) ports.push_back(3 - ports[0]);
      route(router, prefix(1 - router), ports);
    }
    fabric.handle_timeout(at(now), owner);
    for (std::uint32_t host = 0; host < 2; ++host) {
      while (fabric.poll(host, at(now), owner)) ++received;
    }
  }
  std::uint64_t pending = 0, dropped = 0;
  for (std::uint32_t link = 0; link < fabric.link_count(); ++link) {
    for (const bool back : {false, true}) {
      const auto& way = fabric.direction(link, back);
      const LinkCounters counters = way.link.counters();
      pending += way.link.pending();
      dropped += counters.lost + counters.queue_dropped + way.cut.refused + way.cut.lost_in_flight;
    }
  }
  for (std::uint32_t router = 0; router < 2; ++router) {
    const auto& counters = fabric.router(router).counters();
    EXPECT_EQ(counters.received, counters.forwarded + counters.no_route + counters.hops_spent + counters.not_ip);
    dropped += counters.no_route + counters.hops_spent;
  }
  EXPECT_GT(received, 1000u);
  EXPECT_EQ(dropped, owner.discarded);
  EXPECT_EQ(sent, received + dropped + pending);
}

}  // namespace
}  // namespace brdma::fabric
