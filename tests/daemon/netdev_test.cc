// Network interfaces as devices.
#include "io/netdev/netdev.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>

#include "daemon_fixture.h"
#include "io/netdev/gid_table.h"
#include "io/netdev/interfaces.h"
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

// By index, without the holes at the end.
std::vector<IpAddress> gids_of(const DeviceInfo& device) {
  std::vector<IpAddress> gids;
  for (const auto& gid : device.gids) gids.push_back(gid.address);
  while (!gids.empty() && gids.back().is_zero()) gids.pop_back();
  return gids;
}

// The view of a process without earlier knowledge; of the device, if it is there.
std::vector<IpAddress> gids_seen_by_another(const std::string& name) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    io::forget_devices();
    const auto devices = list_devices();
    const auto found = std::ranges::find(devices, name, &DeviceInfo::name);
    const std::vector<IpAddress> gids = found == devices.end() ? std::vector<IpAddress>{} : gids_of(*found);
    const std::size_t bytes = gids.size() * sizeof(IpAddress);
    ::_exit(::write(ends[1], gids.data(), bytes) == static_cast<ssize_t>(bytes) ? 0 : 1);
  }
  ::close(ends[1]);
  std::vector<IpAddress> gids(io::kGidSlotsMax);
  const ssize_t got = ::read(ends[0], gids.data(), gids.size() * sizeof(IpAddress));
  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  gids.resize(got < 0 ? 0 : static_cast<std::size_t>(got) / sizeof(IpAddress));
  return gids;
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
  EXPECT_EQ(devices[0].gids.size(), io::kGidSlotsMin);
  EXPECT_EQ(gids_of(devices[0]), (std::vector{IpAddress::v4(127, 0, 0, 1), v6({}, 1)}));
}

TEST_F(NetdevTest, WithoutAnyInterfaceTheReasonSaysWhatToDo) {
  ASSERT_TRUE(ip("link set lo down") && ip("address flush dev lo"));
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
  std::vector<IpAddress> addresses = gids_of(*left);
  ASSERT_EQ(addresses.size(), 4u);
  for (std::size_t i = 0; i < left->gids.size(); ++i) EXPECT_EQ(left->gids[i].netdev, i < 4 ? "left" : "");
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

// One that is down is listed as down; lo stays, as long as no other can serve.
TEST_F(NetdevTest, InterfacesThatAreDownAreDevicesThoseWithoutAddressNone) {
  ASSERT_TRUE(ip("link add asleep type veth peer name bare"));
  ASSERT_TRUE(ip("address add 10.9.0.1/24 dev asleep"));
  auto devices = list_devices();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].name, "brdma_asleep");
  EXPECT_FALSE(devices[0].active);
  EXPECT_EQ(devices[1].name, "brdma_lo");
  ASSERT_TRUE(ip("link set bare addrgenmode none up") && ip("link set asleep up") && wait_until_running("asleep"));
  devices = list_devices();
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].name, "brdma_asleep");
  EXPECT_TRUE(devices[0].active);
}

// A device stays the same through all changes of its interface except its deletion.
TEST_F(NetdevTest, ADeviceStaysTheSameThroughItsInterfacesLife) {
  ASSERT_TRUE(ip("link add left address 02:00:00:00:09:01 type veth peer name right") && ip("link set right up"));
  ASSERT_TRUE(ip("link set left up") && ip("address add 10.9.0.1/24 dev left"));
  ASSERT_TRUE(wait_until_running("left"));
  const DeviceInfo first = *find(list_devices(), "brdma_left");
  const auto now = [&] {
    const auto devices = list_devices();
    const auto found = std::ranges::find(devices, first.ifindex, &DeviceInfo::ifindex);
    EXPECT_NE(found, devices.end());
    const DeviceInfo device = found == devices.end() ? DeviceInfo{} : *found;
    EXPECT_EQ(device.name, "brdma_left");
    EXPECT_EQ(device.guid, first.guid);
    return device;
  };
  ASSERT_TRUE(ip("link set left mtu 9000"));
  EXPECT_EQ(now().active_mtu, PathMtu::k4096);
  ASSERT_TRUE(ip("link set left down"));
  EXPECT_FALSE(now().active);
  EXPECT_EQ(gids_of(now()), gids_of(first));
  ASSERT_TRUE(ip("link set left name renamed address 02:00:00:00:09:02") && ip("address flush dev renamed"));
  EXPECT_EQ(now().netdev, "renamed");
  EXPECT_EQ(gids_of(now()), (std::vector{IpAddress{{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFE, 0, 9, 2}}}));
  // Another interface by the old name is another device.
  ASSERT_TRUE(ip("link add left type veth peer name other") && ip("address add 10.9.1.1/24 dev left"));
  const auto devices = list_devices();
  const auto other = std::ranges::find(devices, "left", &DeviceInfo::netdev);
  ASSERT_NE(other, devices.end());
  EXPECT_EQ(other->name, "brdma_left_" + std::to_string(other->ifindex));
  EXPECT_NE(other->guid, first.guid);
  EXPECT_EQ(now().ifindex, first.ifindex);
}

// The tables are brdmad's: later programs see the same as earlier ones.
TEST_F(NetdevTest, IndicesAreTheSameForAllWhileBrdmadRuns) {
  ASSERT_TRUE(ip("link add left address 02:00:00:00:09:01 type veth peer name right") && ip("link set left up"));
  for (const char* address : {"10.9.0.1/24", "10.9.1.1/24"})
    ASSERT_TRUE(ip("address add " + std::string(address) + " dev left"));
  ASSERT_TRUE(ip("address add fd09::1/64 dev left nodad"));
  const io::Lease lease = lease_or_die();
  const auto mine = [] { return gids_of(*find(list_devices(), "brdma_left")); };
  std::vector<IpAddress> expected = mine();
  ASSERT_EQ(expected.size(), 4u);
  EXPECT_EQ(gids_seen_by_another("brdma_left"), expected);

  ASSERT_TRUE(ip("address del 10.9.0.1/24 dev left"));
  expected[1] = IpAddress{};
  EXPECT_EQ(gids_seen_by_another("brdma_left"), expected) << "the first who looks after the change";
  EXPECT_EQ(mine(), expected);
  ASSERT_TRUE(ip("address add 10.9.2.1/24 dev left") && ip("address add 10.9.3.1/24 dev left"));
  expected[1] = IpAddress::v4(10, 9, 2, 1);
  expected.push_back(IpAddress::v4(10, 9, 3, 1));
  EXPECT_EQ(mine(), expected);
  EXPECT_EQ(gids_seen_by_another("brdma_left"), expected);

  // A dead worker loses nothing.
  const pid_t worker = worker_pid();
  const io::FileDescriptor process = watch_process(worker);
  ASSERT_EQ(::kill(worker, SIGKILL), 0);
  ASSERT_TRUE(ends_within(process));
  EXPECT_EQ(gids_seen_by_another("brdma_left"), expected);
}

// A restarted brdmad learns from the existing programs.
TEST_F(NetdevTest, ANewBrdmadTakesOverTheTablesOfItsPrograms) {
  ASSERT_TRUE(ip("link add left address 02:00:00:00:09:01 type veth peer name right") && ip("link set left up"));
  ASSERT_TRUE(ip("address add 10.9.0.1/24 dev left") && ip("address add 10.9.1.1/24 dev left"));
  const auto mine = [] { return gids_of(*find(list_devices(), "brdma_left")); };
  std::vector<IpAddress> expected = mine();
  ASSERT_TRUE(ip("address del 10.9.0.1/24 dev left"));
  expected[1] = IpAddress{};
  EXPECT_EQ(mine(), expected);
  const io::Lease lease = lease_or_die();
  EXPECT_EQ(mine(), expected);
  EXPECT_EQ(gids_seen_by_another("brdma_left"), expected);
}

TEST_F(NetdevTest, BothWaysOfReadingSeeTheSame) {
  ASSERT_TRUE(ip("link add left address 02:00:00:00:09:01 mtu 3000 type veth peer name right") &&
              ip("link set left up"));
  ASSERT_TRUE(ip("address add 10.9.0.1/24 dev left") && ip("address add 10.9.0.7/24 dev left label left:7"));
  ASSERT_TRUE(ip("address add fd09::1/64 dev left nodad") && ip("link set right addrgenmode none up"));
  ASSERT_TRUE(ip("address add 10.9.5.1/24 dev right") && ip("link set right down"));
  std::vector<io::Interface> by_netlink, by_files;
  ASSERT_EQ(io::read_interfaces(by_netlink), 0);
  ASSERT_EQ(io::read_interfaces_without_netlink(by_files), 0);
  for (auto* list : {&by_netlink, &by_files}) {  // members without room in ioctls, and the time at which each was read
    for (io::Interface& interface : *list) interface.flags &= 0xFFFF & ~static_cast<unsigned>(IFF_RUNNING);
  }
  ASSERT_EQ(by_netlink.size(), by_files.size());
  for (std::size_t i = 0; i < by_files.size(); ++i)
    EXPECT_EQ(by_netlink[i], by_files[i]) << by_netlink[i].name << " " << by_files[i].name;
}

TEST(PathMtuFor, LeavesRoomForEveryHeader) {
  EXPECT_EQ(io::path_mtu_for(4096 + 116), PathMtu::k4096);
  EXPECT_EQ(io::path_mtu_for(4096 + 107), PathMtu::k2048);
  EXPECT_EQ(io::path_mtu_for(2048 + 116), PathMtu::k2048);
  EXPECT_EQ(io::path_mtu_for(1500), PathMtu::k1024);
  EXPECT_EQ(io::path_mtu_for(1024 + 107), PathMtu::k512);
  EXPECT_EQ(io::path_mtu_for(576), PathMtu::k256);
  EXPECT_EQ(io::path_mtu_for(68), PathMtu::k256);
}

}  // namespace
}  // namespace brdma::test
