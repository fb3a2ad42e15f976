// A topology's names, addresses, ports and shortest routes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "fabric/topology.h"

namespace brdma::fabric {
namespace {

using testing::ElementsAre;

// h1 at s1, h2 at s2; two links between these, and a path by s3.
Topology parallel_and_triangle() {
  Topology topology;
  topology.switches = {"s1", "s2", "s3"};
  topology.hosts = {{.at = 0}, {.at = 1}};
  topology.links = {{.a = 0, .b = 1}, {.a = 1, .b = 0}, {.a = 0, .b = 2, .cost = 2}, {.a = 2, .b = 1, .cost = 3}};
  return topology;
}

std::vector<std::uint32_t> ports_to(const Topology& topology, std::uint32_t at, const Prefix& prefix) {
  std::vector<std::uint32_t> ports;
  for (const auto& route : initial_routes(topology)) {
    if (route.at == at && route.prefix == prefix) ports = route.ports;
  }
  return ports;
}

TEST(Topology, LinksAndPortsHaveNames) {
  const Topology topology = parallel_and_triangle();
  EXPECT_EQ(link_name(topology, 0), "h1-s1");
  EXPECT_EQ(link_name(topology, 2), "s1-s2");
  EXPECT_EQ(link_name(topology, 3), "s2-s1.2");
  EXPECT_EQ(link_name(topology, 5), "s3-s2");
  EXPECT_EQ(find_link(topology, "s2-s1"), 2u);
  EXPECT_EQ(find_link(topology, "s1-s2.2"), 3u);
  EXPECT_EQ(find_link(topology, "s1-h1"), 0u);
  for (const char* wrong : {"", "-", "s1", "s1-s4", "s1-s2.3", "s1-s2.", "h1-s2"}) {
    EXPECT_EQ(find_link(topology, wrong), std::nullopt) << wrong;
  }
  std::vector<std::string> names;
  for (const auto& port : ports_of(topology, 0)) names.push_back(port.name);
  EXPECT_THAT(names, ElementsAre("h1", "s2", "s2.2", "s3"));
  EXPECT_EQ(find_port(topology, 1, "s1.2"), 2u);
  EXPECT_EQ(find_port(topology, 1, "h1"), std::nullopt);
}

TEST(Topology, HostsLieInTheirSwitchsSubnet) {
  EXPECT_TRUE(subnet_ipv4(1).covers(topology_ipv4(1, 7)));
  EXPECT_FALSE(subnet_ipv4(1).covers(topology_ipv4(0, 7)));
  EXPECT_EQ(topology_ipv4(1, 7), IpAddress::v4(10, 77, 2, 7));
  EXPECT_EQ(topology_ipv6(11, 64).bytes[7], 0x12);  // fd77:0:0:12::64
  EXPECT_EQ(topology_ipv6(11, 64).bytes[15], 0x64);
  EXPECT_EQ(topology_ipv6(0, kGatewayNumber).bytes[14], 0x02);
}

TEST(Topology, RoutesTakeTheLeastCostAndAllThatAreEqual) {
  Topology topology = parallel_and_triangle();
  EXPECT_THAT(ports_to(topology, 0, subnet_ipv4(1)), ElementsAre(1u, 2u));
  EXPECT_THAT(ports_to(topology, 0, subnet_ipv6(2)), ElementsAre(3u));
  EXPECT_THAT(ports_to(topology, 2, subnet_ipv4(0)), ElementsAre(0u));
  EXPECT_THAT(ports_to(topology, 0, Prefix::v4(topology_ipv4(0, 1), 32)), ElementsAre(0u));
  topology.links[0].cost = topology.links[1].cost = 6;
  EXPECT_THAT(ports_to(topology, 0, subnet_ipv4(1)), ElementsAre(3u));
  topology.links[1].cost = 5;
  EXPECT_THAT(ports_to(topology, 0, subnet_ipv4(1)), ElementsAre(2u, 3u));
}

TEST(Topology, AnUnreachablePrefixHasNoRoute) {
  Topology topology = parallel_and_triangle();
  topology.links.resize(2);
  EXPECT_TRUE(ports_to(topology, 0, subnet_ipv4(2)).empty());
  topology.shortest_routes = false;
  topology.routes = {{.at = 0, .prefix = subnet_ipv4(1), .ports = {2}}};
  EXPECT_THAT(ports_to(topology, 0, subnet_ipv4(1)), ElementsAre(2u));
  EXPECT_TRUE(ports_to(topology, 0, subnet_ipv6(1)).empty());
}

}  // namespace
}  // namespace brdma::fabric
