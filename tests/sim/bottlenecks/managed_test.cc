// A managed destination's queue pairs have a shorter turn among those of their host, and their packets another DSCP
// (lower priority).
// tests design WT-10, WT-16
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <set>
#include <string>

#include "sim/world.h"
#include "streams/stream_pair.h"

namespace brdma::test {
namespace {

constexpr std::uint64_t kRate = 1'000'000'000;  // the sender's rate, for two receivers
constexpr std::uint32_t kRequest = 65536, kUnderWay = 16, kWindow = 1024;
constexpr int kDscp = 8;  // less than best effort (CS1)

class TwoReceivers : public testing::Test {
 protected:
  TwoReceivers() : world(1) {
    auto& network = world.route_hosts();
    auto& router = network.add_router();
    for (std::uint8_t i = 0; i < 3; ++i) {
      sim::HostConfig host;
      host.name = "h" + std::to_string(i + 1);
      host.address = IpAddress::v4(10, 77, 0, static_cast<std::uint8_t>(i + 1));
      host.engine.seed = 100 + i;
      host.engine.recovery.congestion.control = CongestionControl::kNone;
      host.engine.recovery.window_packets = host.engine.receive_packets = kWindow;
      host.engine.receive_bytes = kWindow * 4096;
      host.engine.recovery.wan.managed_rate_percent = 100;  // the turn alone
      host.engine.recovery.wan.managed_weight_percent = 50;
      host.engine.recovery.wan.managed_dscp = kDscp;
      host.engine.recovery.wan.visit_interval = 60_s;
      if (i == 0) host.output_rate = Bandwidth::from_bps(kRate);
      hosts[i] = &world.add_host(host);
      const fabric::LinkConfig cable{.delay = 10_us, .rate = Bandwidth::from_bps(kRate * 10), .queue_bytes = 1u << 30};
      network.join(*hosts[i], router, cable, cable);
    }
    for (std::uint32_t i = 0; i < 2; ++i) {
      EndpointConfig endpoint;
      endpoint.mtu = PathMtu::k4096;
      endpoint.timeout = 15;
      endpoint.send_wr_max = kUnderWay;
      pairs[i] = std::make_unique<StreamPair>(world, *hosts[0], *hosts[i + 1], endpoint, i, kRequest);
    }
  }
  // Of the sender's packets to each receiver, in the next milliseconds.
  std::array<std::set<int>, 2> traffic_classes() {
    std::array<std::set<int>, 2> seen;
    world.set_filter([&](const sim::Host& from, const sim::Packet& packet) {
      if (&from == hosts[0]) seen[packet.destination == hosts[1]->address() ? 0 : 1].insert(packet.traffic_class);
      return true;
    });
    (void)share_of_first(20_ms);
    world.set_filter({});
    return seen;
  }
  // Goodput of the first receiver relative to the second.
  double share_of_first(Duration how_long) {
    const std::array before{pairs[0]->completed(), pairs[1]->completed()};
    world.run_until(
        [this] {
          for (auto& pair : pairs) {
            pair->take();
            pair->post(WorkOpcode::kRdmaWrite, kUnderWay);
          }
          return false;
        },
        how_long);
    return static_cast<double>(pairs[0]->completed() - before[0]) /
           static_cast<double>(pairs[1]->completed() - before[1]);
  }

  sim::World world;
  std::array<sim::Host*, 3> hosts{};
  std::array<std::unique_ptr<StreamPair>, 2> pairs;
};

TEST_F(TwoReceivers, AManagedDestinationHasHalfATurn) {
  EXPECT_NEAR(share_of_first(200_ms), 1, 0.05);
  ASSERT_TRUE(hosts[0]->engine().manage_destination(hosts[2]->address(), world.now()).ok());
  hosts[0]->touch();
  EXPECT_NEAR(share_of_first(200_ms), 2, 0.1);
  ASSERT_TRUE(hosts[0]->engine().release_destination(hosts[2]->address(), world.now()).ok());
  hosts[0]->touch();
  EXPECT_NEAR(share_of_first(200_ms), 1, 0.05);
}

// Of two destinations only the managed one's packets are of the lower class.
TEST_F(TwoReceivers, AManagedDestinationsPacketsHaveAnotherDscp) {
  using Seen = std::array<std::set<int>, 2>;
  EXPECT_EQ(traffic_classes(), (Seen{{{0}, {0}}}));
  ASSERT_TRUE(hosts[0]->engine().manage_destination(hosts[2]->address(), world.now()).ok());
  EXPECT_EQ(traffic_classes(), (Seen{{{0}, {kDscp << 2}}}));
  ASSERT_TRUE(hosts[0]->engine().release_destination(hosts[2]->address(), world.now()).ok());
  EXPECT_EQ(traffic_classes(), (Seen{{{0}, {0}}}));
}

}  // namespace
}  // namespace brdma::test
