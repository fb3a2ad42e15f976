// Forwarding: the longest prefix against a naive search, equal-cost ports, and the counters of each flow.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <vector>

#include "base/random.h"
#include "fabric/routing/forwarding_table.h"
#include "fabric/switch/flow_counters.h"

namespace brdma::fabric {
namespace {

FiveTuple to(const IpAddress& destination, std::uint16_t port = 0) {
  return {IpAddress::v4(10, 0, 0, 1), destination, port, 4791, 17};
}
bool set(ForwardingTable& table, const Prefix& prefix, std::vector<std::uint32_t> ports) {
  return table.set(prefix, ports);
}

TEST(Forwarding, TheLongestPrefixCounts) {
  ForwardingTable table;
  EXPECT_FALSE(table.port_for(to(IpAddress::v4(10, 1, 2, 3))));
  EXPECT_TRUE(set(table, Prefix::v4(IpAddress::v4(0, 0, 0, 0), 0), {9}));
  EXPECT_TRUE(set(table, Prefix::v4(IpAddress::v4(10, 0, 0, 0), 8), {1}));
  EXPECT_TRUE(set(table, Prefix::v4(IpAddress::v4(10, 1, 0, 0), 16), {2}));
  EXPECT_TRUE(set(table, Prefix::v4(IpAddress::v4(10, 1, 2, 3), 32), {3}));
  EXPECT_EQ(table.port_for(to(IpAddress::v4(10, 1, 2, 3))), 3u);
  EXPECT_EQ(table.port_for(to(IpAddress::v4(10, 1, 2, 4))), 2u);
  EXPECT_EQ(table.port_for(to(IpAddress::v4(10, 2, 2, 4))), 1u);
  EXPECT_EQ(table.port_for(to(IpAddress::v4(11, 2, 2, 4))), 9u);
  IpAddress six{};
  six.bytes[0] = 0xFD;
  EXPECT_FALSE(table.port_for(to(six)));  // the default route was IPv4's
  EXPECT_TRUE(set(table, Prefix::of(six, 8), {4}));
  EXPECT_EQ(table.port_for(to(six)), 4u);
  EXPECT_TRUE(table.remove(Prefix::v4(IpAddress::v4(10, 1, 0, 0), 16)));
  EXPECT_FALSE(table.remove(Prefix::v4(IpAddress::v4(10, 1, 0, 0), 16)));
  EXPECT_EQ(table.port_for(to(IpAddress::v4(10, 1, 2, 4))), 1u);
}

TEST(Forwarding, ARouteIsReplacedAndLimitsHold) {
  ForwardingTable table;
  const Prefix prefix = Prefix::v4(IpAddress::v4(10, 77, 0, 0), 16);
  EXPECT_FALSE(table.set(prefix, {}));
  EXPECT_FALSE(set(table, prefix, std::vector<std::uint32_t>(ForwardingTable::kPortsMax + 1)));
  EXPECT_TRUE(set(table, prefix, {1}));
  EXPECT_TRUE(set(table, prefix, {2}));
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(table.port_for(to(IpAddress::v4(10, 77, 3, 4))), 2u);
  for (std::size_t i = 1; i < ForwardingTable::kRoutesMax; ++i) {
    EXPECT_TRUE(set(
        table, Prefix::v4(IpAddress::v4(11, 0, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i)), 32),
        {1}));
  }
  EXPECT_FALSE(set(table, Prefix::v4(IpAddress::v4(12, 0, 0, 0), 8), {1}));
  EXPECT_TRUE(set(table, prefix, {3}));  // it is in the table
}

TEST(Forwarding, AgreesWithANaiveSearch) {
  Random random{7};
  const auto address = [&random] {  // few different bits, so that prefixes cover each other
    IpAddress made{};
    const bool v4 = random.below(2) != 0;
    if (v4) made = IpAddress::v4(0, 0, 0, 0);
    for (std::size_t i = v4 ? 12 : 0; i < 16; ++i)
      made.bytes[i] = static_cast<std::uint8_t>(random.below(3) << (random.below(2) * 6));
    return made;
  };
  ForwardingTable table;
  std::map<std::pair<std::uint8_t, IpAddress>, std::uint32_t> model;
  for (std::uint32_t i = 0; i < 3000; ++i) {
    const Prefix prefix = Prefix::of(address(), static_cast<std::uint8_t>(random.below(129)));
    const std::pair key{prefix.length, prefix.address};
    if (random.below(4) == 0) {
      EXPECT_EQ(table.remove(prefix), model.erase(key) != 0);
    } else {
      EXPECT_TRUE(set(table, prefix, {i}));
      model[key] = i;
    }
    const IpAddress wanted = address();
    std::optional<std::uint32_t> expected;
    for (const auto& [route, port] : model) {  // by rising length
      if (Prefix{route.second, route.first}.covers(wanted)) expected = port;
    }
    ASSERT_EQ(table.port_for(to(wanted)), expected) << i;
  }
  EXPECT_EQ(table.size(), model.size());
}

TEST(Forwarding, FlowsSpreadOverEqualPortsAndEachKeepsItsOwn) {
  ForwardingTable table{1}, other{2};
  const Prefix all = Prefix::v4(IpAddress::v4(0, 0, 0, 0), 0);
  EXPECT_TRUE(set(table, all, {4, 5, 6, 7}));
  EXPECT_TRUE(set(other, all, {4, 5, 6, 7}));
  std::map<std::uint32_t, int> taken;
  int same = 0;
  for (std::uint16_t port = 0; port < 4000; ++port) {
    const FiveTuple flow = to(IpAddress::v4(10, 0, 0, 2), static_cast<std::uint16_t>(0xC000 + port));
    const auto chosen = table.port_for(flow);
    ASSERT_TRUE(chosen);
    EXPECT_EQ(table.port_for(flow), chosen);
    ++taken[*chosen];
    same += other.port_for(flow) == chosen ? 1 : 0;
  }
  ASSERT_EQ(taken.size(), 4u);
  for (const auto& [port, flows] : taken) EXPECT_NEAR(flows, 1000, 150) << port;
  EXPECT_NEAR(same, 1000, 150);  // two switches choose independently
}

TEST(FlowCounters, SumsAreRightWhateverComes) {
  FlowCounters counters{64};
  Random random{3};
  std::uint64_t packets = 0;
  for (int i = 0; i < 20'000; ++i) {
    const FiveTuple flow =
        to(IpAddress::v4(10, 0, 0, 2), static_cast<std::uint16_t>(random.below(i < 10'000 ? 20 : 500)));
    ++counters.of(flow, Instant::from_ns(i)).packets;
    ++packets;
  }
  std::uint64_t sum = counters.others().packets;
  for (const auto& entry : counters.most(1000)) sum += entry.count.packets;
  EXPECT_EQ(sum, packets);
  EXPECT_GT(counters.others().packets, 0u);
  EXPECT_LE(counters.flows(), 64u);
}

TEST(FlowCounters, TheBusiestComeFirst) {
  FlowCounters counters{64};
  for (std::uint16_t i = 0; i < 10; ++i) counters.of(to(IpAddress::v4(10, 0, 0, 2), i), Instant{}).bytes = 100u * i;
  const auto most = counters.most(3);
  ASSERT_EQ(most.size(), 3u);
  EXPECT_EQ(most[0].flow.source_port, 9);
  EXPECT_EQ(most[2].count.bytes, 700u);
}

}  // namespace
}  // namespace brdma::fabric
