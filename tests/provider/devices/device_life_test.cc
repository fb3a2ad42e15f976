// Devices through the life of their interfaces, through the real libibverbs: GID indices, order, names, events.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <poll.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "io/private_network.h"
#include "io/test_network.h"
#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

constexpr int kPatienceMs = 10'000;

std::vector<std::string> device_names() {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.emplace_back(ibv_get_device_name(list[i]));
  ibv_free_device_list(list);
  return names;
}

Owned<ibv_context> open_device(const std::string& name) {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  Owned<ibv_context> context;
  for (int i = 0; i < count; ++i) {
    if (name == ibv_get_device_name(list[i])) context.reset(ibv_open_device(list[i]));
  }
  ibv_free_device_list(list);
  EXPECT_NE(context, nullptr) << name;
  return context;
}

ibv_port_attr port_of(ibv_context* context) {
  ibv_port_attr port{};
  EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
  return port;
}

std::vector<ibv_gid_entry> table_of(ibv_context* context) {
  const int length = port_of(context).gid_tbl_len;
  EXPECT_GE(length, 16);
  std::vector<ibv_gid_entry> table(static_cast<std::size_t>(length));
  const ssize_t entries = ibv_query_gid_table(context, table.data(), table.size(), 0);
  EXPECT_GE(entries, 0);
  table.resize(entries < 0 ? 0 : static_cast<std::size_t>(entries));
  return table;
}

bool same_tables(const std::vector<ibv_gid_entry>& a, const std::vector<ibv_gid_entry>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0);
}

struct Slot {
  ibv_gid gid{};
  ibv_gid_entry entry{};
  int gid_status = 0;
  int entry_status = 0;

  [[nodiscard]] bool hole() const { return gid.global.interface_id == 0 && gid.global.subnet_prefix == 0; }
};

// Index by index. The interface may gain an address between two of these calls, such as its link-local one, which the
// kernel adds at any time: read again until the table before and after is the same.
std::vector<Slot> slots_of(ibv_context* context, std::vector<ibv_gid_entry>* table) {
  for (;;) {
    *table = table_of(context);
    std::vector<Slot> slots(static_cast<std::size_t>(port_of(context).gid_tbl_len));
    for (std::uint32_t i = 0; i < slots.size(); ++i) {
      slots[i].gid_status = ibv_query_gid(context, 1, static_cast<int>(i), &slots[i].gid);
      slots[i].entry_status = ibv_query_gid_ex(context, 1, i, &slots[i].entry, 0);
    }
    if (same_tables(*table, table_of(context))) return slots;
  }
}

// The whole table as text, "-" for a hole, without holes at the end. The three ways to query must agree.
std::vector<std::string> gids_of(ibv_context* context) {
  std::vector<ibv_gid_entry> table;
  std::vector<std::string> gids;
  std::size_t used = 0;
  std::size_t next = 0;
  for (const Slot& slot : slots_of(context, &table)) {
    const std::size_t index = gids.size();
    EXPECT_EQ(slot.gid_status, 0) << index << ": a hole is no error, as from the kernel";
    EXPECT_EQ(slot.entry_status, slot.hole() ? ENODATA : 0) << index;
    char text[INET6_ADDRSTRLEN];
    gids.emplace_back(slot.hole() ? "-" : ::inet_ntop(AF_INET6, slot.gid.raw, text, sizeof text));
    if (slot.hole()) continue;
    used = gids.size();
    if (next == table.size()) {
      ADD_FAILURE() << "ibv_query_gid_table lacks " << index;
      continue;
    }
    const ibv_gid_entry& listed = table[next++];
    EXPECT_EQ(listed.gid_index, index);
    EXPECT_EQ(std::memcmp(&listed.gid, &slot.gid, sizeof slot.gid), 0) << index;
    EXPECT_EQ(std::memcmp(&listed, &slot.entry, sizeof slot.entry), 0) << index;
    EXPECT_NE(slot.entry.ndev_ifindex, 0u) << index;
  }
  EXPECT_EQ(next, table.size());
  gids.resize(used);
  return gids;
}

class DeviceLife : public testing::Test {
 protected:
  void SetUp() override {
    if (over_xdp()) GTEST_SKIP() << "of UDP";
    ASSERT_TRUE(ip("link add life0 address 02:00:00:00:09:01 type veth peer name life1"));
    ASSERT_TRUE(ip("link set life1 addrgenmode none up") && ip("link set life0 up"));
    ASSERT_TRUE(ip("address add 10.9.8.1/24 dev life0") && ip("address add fd09::1/64 dev life0 nodad"));
    ASSERT_TRUE(wait_until_running("life0"));
    context = open_device("brdma_life0");
    ASSERT_NE(context, nullptr);
  }
  void TearDown() override {
    context.reset();
    (void)ip("link delete life1");
  }
  // The next of this type; others are skipped.
  bool next_event(ibv_event_type type) {
    for (;;) {
      pollfd readable{context->async_fd, POLLIN, 0};
      ibv_async_event event{};
      if (::poll(&readable, 1, kPatienceMs) != 1 || ibv_get_async_event(context.get(), &event) != 0) return false;
      ibv_ack_async_event(&event);
      if (event.event_type == type) return true;
    }
  }
  // After the events of all changes the table is as expected.
  void await_gids(const std::vector<std::string>& expected) {
    while (gids_of(context.get()) != expected) {
      if (!next_event(IBV_EVENT_GID_CHANGE)) break;
    }
    EXPECT_EQ(gids_of(context.get()), expected);
  }
  Owned<ibv_context> context;
  const std::string kDefault = "fe80::ff:fe00:901";
};

TEST_F(DeviceLife, GidsKeepTheirIndicesWhileOthersComeAndGo) {
  await_gids({kDefault, "::ffff:10.9.8.1", "fd09::1"});
  ASSERT_TRUE(ip("address add 10.9.7.1/24 dev life0"));
  await_gids({kDefault, "::ffff:10.9.8.1", "fd09::1", "::ffff:10.9.7.1"});
  ASSERT_TRUE(ip("address delete 10.9.8.1/24 dev life0"));
  await_gids({kDefault, "-", "fd09::1", "::ffff:10.9.7.1"});
  ASSERT_TRUE(ip("address add fd09::5/64 dev life0 nodad"));
  await_gids({kDefault, "fd09::5", "fd09::1", "::ffff:10.9.7.1"});
}

TEST_F(DeviceLife, GoesOnThroughDownRenameAndAnotherMtu) {
  EXPECT_EQ(port_of(context.get()).active_mtu, IBV_MTU_1024);
  ASSERT_TRUE(ip("link set life0 mtu 9000"));
  for (int i = 0; i < kPatienceMs && port_of(context.get()).active_mtu != IBV_MTU_4096; ++i) ::poll(nullptr, 0, 1);
  EXPECT_EQ(port_of(context.get()).active_mtu, IBV_MTU_4096);

  ASSERT_TRUE(ip("link set life0 down"));
  EXPECT_TRUE(next_event(IBV_EVENT_PORT_ERR));
  EXPECT_EQ(port_of(context.get()).state, IBV_PORT_DOWN);
  await_gids({kDefault, "::ffff:10.9.8.1"});  // the kernel takes IPv6 addresses away
  // libibverbs puts devices that a program has not listed before in front.
  EXPECT_THAT(device_names(), testing::UnorderedElementsAre("brdma_life0", "brdma_lo")) << "none is up: lo serves";
  const auto again = open_device("brdma_life0");
  EXPECT_EQ(again->device, context->device);

  ASSERT_TRUE(ip("link set life0 name life9"));
  ASSERT_TRUE(ip("link set life9 up"));
  EXPECT_TRUE(next_event(IBV_EVENT_PORT_ACTIVE));
  EXPECT_EQ(port_of(context.get()).state, IBV_PORT_ACTIVE);
  EXPECT_EQ(device_names(), std::vector<std::string>{"brdma_life0"}) << "as this program knows it";
  ibv_gid_entry entry{};
  ASSERT_EQ(ibv_query_gid_ex(context.get(), 1, 1, &entry, 0), 0);
  EXPECT_EQ(entry.ndev_ifindex, ::if_nametoindex("life9"));
  EXPECT_EQ(open_device("brdma_life0")->device, context->device);
}

TEST_F(DeviceLife, EndsWithItsInterface) {
  ASSERT_TRUE(ip("link delete life0"));
  EXPECT_TRUE(next_event(IBV_EVENT_DEVICE_FATAL));
  EXPECT_EQ(port_of(context.get()).state, IBV_PORT_DOWN);
}

// For any order of the file system: by the interfaces' index, lo last.
TEST_F(DeviceLife, DevicesHaveOneOrder) {
  std::vector<std::string> expected{"brdma_life0"};
  for (const char* name : {"zz", "aa", "mm", "bb", "yy"}) {
    ASSERT_TRUE(ip(std::string("link add ") + name + " type veth peer name peer-" + name));
    ASSERT_TRUE(ip(std::string("link set ") + name + " up"));
    ASSERT_TRUE(ip("address add 10.8." + std::to_string(expected.size()) + ".1/24 dev " + name));
    expected.push_back(std::string("brdma_") + name);
  }
  ::setenv("BRDMA_LO", "1", 1);
  expected.emplace_back("brdma_lo");
  // In a process that lists them for the first time: libibverbs lists new ones first in one that knows some.
  FILE* const listed = ::popen("ibv_devices", "r");
  ASSERT_NE(listed, nullptr);
  std::vector<std::string> names;
  for (char line[256]; std::fgets(line, sizeof line, listed) != nullptr;) {
    char name[64];
    if (std::sscanf(line, " brdma_%63s", name) == 1) names.push_back(std::string("brdma_") + name);
  }
  EXPECT_EQ(::pclose(listed), 0);
  ::unsetenv("BRDMA_LO");
  EXPECT_EQ(names, expected);
  for (const char* name : {"zz", "aa", "mm", "bb", "yy"}) EXPECT_TRUE(ip(std::string("link delete ") + name));
}

}  // namespace
}  // namespace brdma::test
