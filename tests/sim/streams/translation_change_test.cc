// tests design ER-17: the settings of the translation change while a program sends. Every packet is marked, so the
// round trip that the sender measures is the network's and D, from the next acknowledgement on.
#include <gtest/gtest.h>

#include <string_view>

#include "fabric/network.h"
#include "qp/state/queue_pair.h"
#include "sim/world.h"
#include "streams/stream_pair.h"

namespace brdma::test {
namespace {

class TranslationChange : public testing::Test {
 protected:
  TranslationChange() {
    set("rate", "1gbit");
    set("uplink", "off");
    set("delay", "50us");
    set("ecn", "0,0,100%");
    for (std::uint8_t side = 0; side < 2; ++side) {
      sim::HostConfig host;
      host.address = IpAddress::v4(10, 77, 0, static_cast<std::uint8_t>(side + 1));
      host.engine.seed = side + 1u;
      hosts[side] = &world.add_host(host);
    }
    network = &world.switch_hosts(config);
    EndpointConfig endpoint;
    endpoint.mtu = PathMtu::k4096;
    pair.emplace(world, *hosts[0], *hosts[1], endpoint, 0, 4096);
    alone = round_trip();
  }
  void set(std::string_view name, std::string_view value) {
    ASSERT_EQ(fabric::set_option(config, name, value), std::nullopt);
  }
  void change(std::string_view value) {
    set("ecn-to-rtt", value);
    network->configure(config);
  }
  // One WRITE after another; the smoothed round trip at the end.
  Duration round_trip() {
    world.run_until(
        [&] {
          pair->take();
          pair->post(WorkOpcode::kRdmaWrite, 1);
          return false;
        },
        50_ms);
    return pair->qp()->requester().snapshot().srtt;
  }
  void expect_longer_by(Duration increment) {
    const Duration now = round_trip();
    EXPECT_GE(now, alone + increment - 2_us);
    EXPECT_LE(now, alone + increment + 2_us);
  }

  fabric::NetworkConfig config;
  sim::World world{1};
  sim::Host* hosts[2] = {};
  sim::SwitchedNetwork* network = nullptr;
  std::optional<StreamPair> pair;
  Duration alone;
};

TEST_F(TranslationChange, TheNextRoundTripsAreByTheNewSettings) {
  EXPECT_EQ(network->translator(), nullptr);
  change("100us");
  expect_longer_by(100_us);
  change("400us");
  expect_longer_by(400_us);
  change("400us,rewrite=ts");
  expect_longer_by(400_us);
  change("500us,rule=probabilistic,levels=255,pmax=40%");
  round_trip();  // 1 % of D more with each 2.6 packets
  expect_longer_by(500_us);
  change("20us,rule=fixed,window=3");
  expect_longer_by(20_us);
  change("auto");  // the queue of 256 KiB at 1 Gbit/s
  expect_longer_by(2'097_us);
  change("off");
  expect_longer_by({});
  EXPECT_EQ(network->translator(), nullptr);
}

// No flow starts again: after its first window each acknowledgement is rewritten, whenever D changes.
TEST_F(TranslationChange, FlowsKeepTheirStateWhenDAloneChanges) {
  change("100us");
  round_trip();
  const auto before = network->translator()->counters();
  const std::uint64_t first_window = before.returning - before.rewritten;
  EXPECT_LE(first_window, 8u);
  for (const std::string_view longest : {"150us", "300us", "40us", "150us,rewrite=ts", "20us,rule=fixed"}) {
    change(longest);
    round_trip();
    const auto after = network->translator()->counters();
    EXPECT_EQ(after.returning - after.rewritten, first_window) << longest;
    EXPECT_GT(after.rewritten, before.rewritten);
  }
  EXPECT_EQ(network->translator()->flows(), 1u);
  change("20us,window=4");
  round_trip();
  EXPECT_GT(network->translator()->counters().returning - network->translator()->counters().rewritten, first_window);
}

}  // namespace
}  // namespace brdma::test
