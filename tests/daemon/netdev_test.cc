// Network interfaces as devices.
#include "io/netdev.h"

#include <algorithm>
#include <set>

#include "daemon_fixture.h"
#include "private_network.h"

namespace brdma::test {
namespace {

class NetdevTest : public DaemonTest {};

IpAddress v6(std::initializer_list<int> head, int last) {
  IpAddress address;
  std::size_t i = 0;
  for (const int byte : head) address.bytes[i++] = static_cast<std::uint8_t>(byte);
  address.bytes[15] = static_cast<std::uint8_t>(last);
  return address;
}

const DeviceInfo* find(const std::vector<DeviceInfo>& devices, const std::string& name) {
  const auto found = std::find_if(devices.begin(), devices.end(), [&](const DeviceInfo& d) { return d.name == name; });
  return found == devices.end() ? nullptr : &*found;
}

TEST_F(NetdevTest, LoopbackAloneIsADevice) {
  const auto devices = list_devices();
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].name, "brdma_lo");
  EXPECT_EQ(devices[0].netdev, "lo");
  EXPECT_NE(devices[0].guid, 0u);
  EXPECT_EQ(devices[0].guid, list_devices()[0].guid);
  EXPECT_EQ(devices[0].netdev_mtu, 65536u);
  EXPECT_EQ(devices[0].active_mtu, PathMtu::k4096);
  EXPECT_TRUE(devices[0].active);
  ASSERT_EQ(devices[0].gids.size(), 2u);
  EXPECT_EQ(devices[0].gids[0].address, IpAddress::v4(127, 0, 0, 1));
  EXPECT_EQ(devices[0].gids[1].address, v6({}, 1));
}

TEST_F(NetdevTest, WithoutAnyInterfaceTheReasonSaysWhatToDo) {
  ASSERT_TRUE(ip("link set lo down"));
  EXPECT_TRUE(list_devices().empty());
  EXPECT_NE(io::no_device_reason().find("ip link set lo up"), std::string::npos);
}

TEST_F(NetdevTest, AnInterfaceIsADeviceWithItsMacAddressesAndMtu) {
  ASSERT_TRUE(ip("link add left address 02:00:00:00:09:01 mtu 1500 type veth peer name right"));
  ASSERT_TRUE(ip("link set right up mtu 9000"));
  ASSERT_TRUE(ip("link set left up"));
  ASSERT_TRUE(wait_until_running("left"));
  ASSERT_TRUE(ip("address add fd09::1/64 dev left nodad"));
  ASSERT_TRUE(ip("address add 10.9.0.1/24 dev left"));
  ASSERT_TRUE(ip("address add 10.9.0.7/24 dev left label left:7"));
  const auto devices = list_devices();
  const DeviceInfo* left = find(devices, "brdma_left");
  ASSERT_NE(left, nullptr);
  EXPECT_EQ(find(devices, "brdma_lo"), nullptr);
  EXPECT_EQ(left->guid, 0x0000'00FF'FD00'0901u);
  EXPECT_EQ(left->netdev_mtu, 1500u);
  EXPECT_EQ(left->active_mtu, PathMtu::k1024);
  EXPECT_EQ(left->speed_mbps, 10'000u);
  EXPECT_TRUE(left->active);
  EXPECT_NE(left->ifindex, 0u);
  // The MAC's link-local first, whether or not the kernel has it already, then IPv4 in the kernel's order, then the
  // rest.
  ASSERT_EQ(left->gids.size(), 4u);
  std::vector<IpAddress> addresses;
  for (const auto& gid : left->gids) {
    EXPECT_EQ(gid.netdev, "left");
    addresses.push_back(gid.address);
  }
  EXPECT_EQ(addresses.front(), (IpAddress{{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFE, 0, 0x09, 0x01}}));
  addresses.erase(addresses.begin());
  EXPECT_EQ(addresses,
            (std::vector<IpAddress>{IpAddress::v4(10, 9, 0, 1), IpAddress::v4(10, 9, 0, 7), v6({0xFD, 0x09}, 1)}));

  ::setenv("BRDMA_LO", "1", 1);
  EXPECT_NE(find(list_devices(), "brdma_lo"), nullptr);
  ::unsetenv("BRDMA_LO");
}

TEST_F(NetdevTest, InterfacesOfOneMacGetDifferentGuids) {
  for (const char* name : {"one", "two"}) {
    const std::string n = name;
    ASSERT_TRUE(ip("link add " + n + " address 02:00:00:00:09:01 type veth peer name " + n + "p"));
    ASSERT_TRUE(ip("link set " + n + " up") && ip("link set " + n + "p up") && ip("address add 10.9.0.1/24 dev " + n));
  }
  std::set<std::uint64_t> guids;
  const auto devices = list_devices();
  for (const DeviceInfo& device : devices) guids.insert(device.guid);
  EXPECT_GE(devices.size(), 2u);
  EXPECT_EQ(guids.size(), devices.size());
}

TEST_F(NetdevTest, InterfacesThatAreDownOrWithoutAddressAreNone) {
  ASSERT_TRUE(ip("link add asleep type veth peer name bare"));
  ASSERT_TRUE(ip("address add 10.9.0.1/24 dev asleep"));
  ASSERT_TRUE(ip("link set bare addrgenmode none up"));
  const auto devices = list_devices();
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].name, "brdma_lo");
}

TEST(PathMtuFor, LeavesRoomForEveryHeader) {
  EXPECT_EQ(io::path_mtu_for(4096 + 108), PathMtu::k4096);
  EXPECT_EQ(io::path_mtu_for(4096 + 107), PathMtu::k2048);
  EXPECT_EQ(io::path_mtu_for(2048 + 108), PathMtu::k2048);
  EXPECT_EQ(io::path_mtu_for(1500), PathMtu::k1024);
  EXPECT_EQ(io::path_mtu_for(1024 + 107), PathMtu::k512);
  EXPECT_EQ(io::path_mtu_for(576), PathMtu::k256);
  EXPECT_EQ(io::path_mtu_for(68), PathMtu::k256);
}

}  // namespace
}  // namespace brdma::test
