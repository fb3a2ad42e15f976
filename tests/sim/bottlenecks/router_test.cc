// Worlds with routers: shared bottlenecks, equal-cost paths, hops, and the switch core's notices and marks in them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "bottlenecks/bottleneck.h"
#include "sim/world.h"
#include "support/arena.h"
#include "support/endpoint.h"
#include "wire/headers.h"
#include "wire/link_state.h"

namespace brdma::test {
namespace {

constexpr std::uint64_t kPacket = 4200;  // a packet that has just left counts until the next sample

BottleneckConfig small() {
  BottleneckConfig config;
  config.flows = 4;
  config.rate_bps = 1'000'000'000;
  config.queue_bytes = 128 * 1024;
  config.alone = 20_ms;
  config.together = 60_ms;
  return config;
}

TEST(Router, FlowsShareABottleneck) {
  const BottleneckResult result = run_bottleneck(small());
  EXPECT_GT(result.share, 0.9);
  EXPECT_LE(result.share, 1.0);
  EXPECT_GT(result.jain, 0.5);
  EXPECT_LE(result.queue_most, 128u * 1024 + kPacket);
  EXPECT_GT(result.queue_p50, 0u);
  EXPECT_EQ(result.router.received, result.router.forwarded);
  EXPECT_EQ(result.router.no_route + result.router.hops_spent, 0u);
}

TEST(Router, ReportsItsDropsAndTranslatesItsMarks) {
  BottleneckConfig config = small();
  config.flows = 8;
  config.queue_bytes = 32 * 1024;
  config.edn = fabric::EdnForm::kRoce;
  const BottleneckResult notified = run_bottleneck(config);
  EXPECT_GT(notified.dropped, 0u);
  EXPECT_GT(notified.notices, 0u);
  config = small();
  config.marking = fabric::MarkingConfig{8 * 1024, 32 * 1024, 200'000};
  config.translation = fabric::RttTranslator::Config{.increment = {.longest = 200_us}};
  const BottleneckResult translated = run_bottleneck(config);
  EXPECT_GT(translated.marked, 0u);
  EXPECT_GT(translated.rewritten, 0u);
}

TEST(Router, SharedMemoryBoundsTheQueueByItsDynamicThreshold) {
  BottleneckConfig config = small();
  config.queue_bytes = 1u << 20;
  config.memory = {96 * 1024, 1000};
  const BottleneckResult result = run_bottleneck(config);
  EXPECT_GT(result.share, 0.8);
  EXPECT_LE(result.queue_most, 48u * 1024 + kPacket);  // alone it gets alpha / (1 + alpha)
  EXPECT_GT(result.dropped, 0u);
}

// h0 - a - (b, c) - d - h1
class Diamond : public testing::Test {
 protected:
  Diamond() {
    for (std::uint8_t i = 0; i < 2; ++i) {
      sim::HostConfig config;
      config.address = IpAddress::v4(10, i, 0, 1);
      config.engine.seed = i + 1u;
      for (std::uint16_t path = 1; path < 4; ++path)
        config.engine.source_ports.push_back(static_cast<std::uint16_t>(0xC000 + path));
      hosts[i] = &world.add_host(config);
    }
    const fabric::LinkConfig link{.delay = 5_us};
    for (auto& router : routers) router = &network.add_router();
    const auto [a, b, c, d] = routers;
    network.join(*hosts[0], *a, link, link);
    network.join(*hosts[1], *d, link, link);
    for (sim::RouterNode* middle : {b, c}) {
      network.join(*a, *middle, link, link);
      network.join(*middle, *d, link, link);
    }
    const auto left = fabric::Prefix::v4(IpAddress::v4(10, 0, 0, 0), 16),
               right = fabric::Prefix::v4(IpAddress::v4(10, 1, 0, 0), 16);
    network.add_route(*a, right, {b, c});
    network.add_route(*d, left, {b, c});
    for (sim::RouterNode* middle : {b, c}) {
      network.add_route(*middle, right, {d});
      network.add_route(*middle, left, {a});
    }
  }
  // Posts a WRITE of 1 MB; true if it completes.
  bool write() {
    Arena memory[2] = {{1ull << 40, Random{1, "a"}}, {2ull << 40, Random{1, "b"}}};
    EndpointConfig endpoint;
    endpoint.mtu = PathMtu::k1024;
    endpoint.timeout = 10;
    endpoint.retry_count = 2;
    std::unique_ptr<Endpoint> ends[2];
    for (int side = 0; side < 2; ++side) {
      memory[side].allocate(1 << 20);
      memory[side].freeze();
      ends[side] = std::make_unique<Endpoint>(world, *hosts[side], endpoint, memory[side]);
      ends[side]->start();
    }
    ends[0]->connect(*ends[1]);
    ends[1]->connect(*ends[0]);
    const Sge sge{memory[0].iova() + Arena::kGuard, 1 << 20, ends[0]->key()};
    SendRequest request;
    request.sges = {&sge, 1};
    request.opcode = WorkOpcode::kRdmaWrite;
    request.flags = kSendSignaled;
    request.remote_address = memory[1].iova() + Arena::kGuard;
    request.rkey = ends[1]->key();
    EXPECT_TRUE(hosts[0]->engine().post_send(ends[0]->qp(), request, world.now()).ok());
    hosts[0]->touch();
    Completion completion;
    const bool done = world.run_until(
        [&] {
          return hosts[0]->engine().poll_cq(ends[0]->cq(), {&completion, 1}) != 0;
        },
        10_s);
    for (auto& end : ends) end->destroy();
    return done && completion.status == CompletionStatus::kSuccess;
  }
  sim::World world{1};
  sim::RoutedNetwork& network = world.route_hosts();
  sim::Host* hosts[2] = {};
  std::array<sim::RouterNode*, 4> routers{};
};

TEST_F(Diamond, PacketsTakeEqualCostPathsByTheirSourcePortAndLoseAHopEach) {
  std::set<std::uint8_t> hops;
  struct Watch final : sim::Observer {
    explicit Watch(std::set<std::uint8_t>& seen) : hops(seen) {}
    void sent(const sim::Host&, const sim::Packet&, Instant) override {}
    void received(const sim::Host&, const sim::Packet& packet, Instant) override { hops.insert(packet.hop_limit); }
    std::set<std::uint8_t>& hops;
  } watch{hops};
  world.add_observer(watch);
  EXPECT_TRUE(write());
  EXPECT_THAT(hops, testing::ElementsAre(64 - 3));
  std::uint64_t forwarded = 0;
  for (const sim::RouterNode* each : {routers[1], routers[2]}) {
    EXPECT_GT(each->router.counters().forwarded, 100u);
    forwarded += each->router.counters().forwarded;
  }
  EXPECT_EQ(forwarded, routers[0]->router.counters().forwarded + routers[3]->router.counters().forwarded - forwarded);
}

TEST_F(Diamond, WithoutARouteNothingArrivesAndTheDropIsCounted) {
  EXPECT_TRUE(routers[1]->router.table().remove(fabric::Prefix::v4(IpAddress::v4(10, 1, 0, 0), 16)));
  EXPECT_TRUE(routers[2]->router.table().remove(fabric::Prefix::v4(IpAddress::v4(10, 1, 0, 0), 16)));
  EXPECT_FALSE(write());
  EXPECT_GT(routers[1]->router.counters().no_route + routers[2]->router.counters().no_route, 0u);
  EXPECT_EQ(hosts[1]->statistics().get(Counter::kReceivedPackets), 0u);
}

// tests design WT-8: a router's own rate is a bottleneck like a link's. 1 MB are 1,024 packets.
TEST_F(Diamond, ARoutersOwnRateBoundsWhatPasses) {
  EXPECT_TRUE(write());
  const Instant begun = world.now();
  EXPECT_TRUE(write());
  EXPECT_LT(world.now() - begun, 50_ms);
  routers[0]->processor.configure(10'000);
  const Instant bounded = world.now();
  EXPECT_TRUE(write());
  EXPECT_GE(world.now() - bounded, 100_ms);
  EXPECT_LT(world.now() - bounded, 250_ms);
  EXPECT_GT(routers[0]->processor.counters().processed, 1'024u);
  EXPECT_EQ(routers[1]->processor.counters().processed, 0u) << "not bounded: packets pass at once";
}

// tests design WT-7. Follows the data on its path, and returns to the requester.
TEST_F(Diamond, EveryRouterOnTheWayAnswersAnInquiry) {
  network.answer_inquiries({});
  routers[3]->processor.configure(5'000'000);
  struct Watch final : sim::Observer {
    void sent(const sim::Host&, const sim::Packet& packet, Instant) override {
      if (packet.source == IpAddress::v4(10, 0, 0, 1)) source_port = packet.source_port;
    }
    void received(const sim::Host&, const sim::Packet& packet, Instant) override {
      if (packet.bytes[0] != std::byte{0xE5}) return;
      const auto said = wire::parse_link_state_feedback(ConstBytes{packet.bytes}.subspan(wire::kBthSize, 64));
      ASSERT_TRUE(said);
      ids.push_back({said->hop, said->switch_id});
      EXPECT_EQ(said->switch_speed, said->switch_id == 4 ? 5'000'000u : 0u);
    }
    std::uint16_t source_port = 0;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> ids;  // hop, switch
  } watch;
  world.add_observer(watch);
  ASSERT_TRUE(write());
  ASSERT_TRUE(world.run_until_idle(10_s));  // agents become idle too
  const sim::PacketIndex index = world.packets().take();
  sim::Packet& packet = world.packets()[index];
  packet.source = hosts[0]->address();
  packet.destination = hosts[1]->address();
  packet.source_port = watch.source_port;
  packet.hop_limit = 64;
  packet.bytes.assign(wire::kBthSize + wire::kLinkStateInquirySize + wire::kIcrcSize, std::byte{});
  packet.bytes[0] = std::byte{0xE4};
  wire::emit_link_state_inquiry({.hop_limit = 8, .nonce = 5}, &packet.bytes[wire::kBthSize]);
  network.send(*hosts[0], index, world.now());
  ASSERT_TRUE(world.run_until_idle(10_s));
  ASSERT_EQ(watch.ids.size(), 3u);
  std::sort(watch.ids.begin(), watch.ids.end());
  EXPECT_EQ(watch.ids[0], (std::pair{0u, 1u}));
  EXPECT_TRUE(watch.ids[1] == (std::pair{1u, 2u}) || watch.ids[1] == (std::pair{1u, 3u}));
  EXPECT_EQ(watch.ids[2], (std::pair{2u, 4u}));
}

}  // namespace
}  // namespace brdma::test
