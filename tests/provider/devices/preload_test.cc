// The parts behind the hooks, each alone; the hooks in place are tests/provider/devices/hooks_test.cc.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "device_files/counter_files.h"
#include "device_files/device_files.h"
#include "device_files/device_tree.h"
#include "device_files/kernel_devices.h"
#include "device_files/port.h"
#include "device_files/runtime_directory.h"
#include "preload/descriptors.h"
#include "preload/redirect.h"
#include "preload/uverbs_commands.h"

namespace brdma::preload {
namespace {

namespace fs = std::filesystem;

std::string shown(const char* path) {
  const auto match = match_path(path);
  if (!match) return "as it is";
  static char out[PATH_MAX];
  return join_path("/tree", *match, out) ? out : "too long";
}

TEST(Redirect, RewritesWhatIsOurs) {
  const std::pair<const char*, const char*> cases[] = {
      {"/sys/class/infiniband", "/tree/sys/class/infiniband"},
      {"/sys/class/infiniband/", "/tree/sys/class/infiniband/"},
      {"/sys/class/infiniband/brdma_lo/ports/1/gids/0", "/tree/sys/class/infiniband/brdma_lo/ports/1/gids/0"},
      {"/sys/class/infiniband_verbs", "/tree/sys/class/infiniband_verbs"},
      {"/sys/class/infiniband_verbs/uverbs1/dev", "/tree/sys/class/infiniband_verbs/uverbs1/dev"},
      {"/sys/class/infiniband_mad/abi_version", "/tree/sys/class/infiniband_mad/abi_version"},
      {"/sys/class/infiniband_ucma/abi_version", "/tree/sys/class/infiniband_ucma/abi_version"},
      {"/sys/devices/virtual/infiniband", "/tree/sys/devices/virtual/infiniband"},
      {"/sys/devices/virtual/infiniband_verbs/uverbs1", "/tree/sys/devices/virtual/infiniband_verbs/uverbs1"},
      {"/dev/infiniband", "/tree/dev/infiniband"},
      {"/dev/infiniband/uverbs0", "/tree/dev/infiniband/uverbs0"},
      {"//sys///class/./infiniband//x", "/tree/sys/class/infiniband//x"},
      {"/./dev/./infiniband/rdma_cm", "/tree/dev/infiniband/rdma_cm"},
  };
  for (const auto& [path, expected] : cases) EXPECT_EQ(shown(path), expected) << path;
}

TEST(Redirect, LeavesEverythingElse) {
  for (const char* path : {"",
                           "/",
                           "sys/class/infiniband",
                           "/sys",
                           "/sys/class",
                           "/sys/class/net/lo",
                           "/sys/devices/virtual",
                           "/sys/devices/virtual/net/lo",
                           "/sys/devices/pci0000:00/infiniband/mlx5_0",
                           "/sys/devices/virtual/infinibandx",
                           "/sys/class/infinibandx",
                           "/sys/class/infiniband_verbsx/uverbs0",
                           "/sys/class/infiniban",
                           "/sys/classinfiniband",
                           "/dev",
                           "/dev/infinibandx",
                           "/dev/infini",
                           "/dev/null",
                           "/home/sys/class/infiniband",
                           "/.dev/infiniband",
                           "/sys/class/..",
                           "/dev/shm"}) {
    EXPECT_EQ(shown(path), "as it is") << path;
  }
  EXPECT_EQ(shown(nullptr), "as it is");
}

TEST(Redirect, KnowsNodesAndTheDeviceList) {
  EXPECT_TRUE(is_uverbs_node(*match_path("/dev/infiniband/uverbs12")));
  EXPECT_TRUE(is_uverbs_node(*match_path("/dev/infiniband//uverbs0")));
  EXPECT_FALSE(is_uverbs_node(*match_path("/dev/infiniband/rdma_cm")));
  EXPECT_FALSE(is_uverbs_node(*match_path("/dev/infiniband")));
  EXPECT_FALSE(is_uverbs_node(*match_path("/sys/class/infiniband_verbs/uverbs0")));
  EXPECT_TRUE(is_device_list(*match_path("/sys/class/infiniband_verbs")));
  EXPECT_TRUE(is_device_list(*match_path("/sys/class/infiniband_verbs/")));
  EXPECT_FALSE(is_device_list(*match_path("/sys/class/infiniband_verbs/uverbs0")));
  EXPECT_FALSE(is_device_list(*match_path("/sys/class/infiniband")));
}

TEST(Redirect, PathThatDoesNotFitIsLeft) {
  const std::string path = "/dev/infiniband/" + std::string(PATH_MAX - 20, 'x');
  EXPECT_EQ(shown(path.c_str()), "too long");
}

TEST(DescriptorMarks, FollowDuplicatesAndRanges) {
  static DescriptorMarks marks;
  EXPECT_FALSE(marks.is_marked(5));
  marks.mark(5, Node::kUverbs);
  marks.mark(9, Node::kRdmaCm);
  EXPECT_EQ(marks.node(5), Node::kUverbs);
  EXPECT_EQ(marks.node(9), Node::kRdmaCm);
  EXPECT_FALSE(marks.is_marked(6));
  marks.copy(5, 6);  // a duplicate of a node is one
  EXPECT_EQ(marks.node(6), Node::kUverbs);
  marks.copy(7, 5);  // a file in a node's place is none
  EXPECT_FALSE(marks.is_marked(5));
  marks.clear_range(7, ~0u);
  EXPECT_TRUE(marks.is_marked(6));
  EXPECT_FALSE(marks.is_marked(9));
  marks.clear_range(0, 6);
  EXPECT_FALSE(marks.is_marked(6));
}

TEST(DescriptorMarks, OutOfRangeIsNeverMarked) {
  static DescriptorMarks marks;
  for (const int fd : {-1, DescriptorMarks::kDescriptorsMax, 1 << 30}) {
    marks.mark(fd, Node::kUverbs);
    EXPECT_FALSE(marks.is_marked(fd)) << fd;
  }
}

DeviceInfo device() {
  DeviceInfo info;
  info.name = "brdma_eth7";
  info.netdev = "eth7";
  info.ifindex = 7;
  info.guid = 0x0200'00ff'fe00'0901;
  info.speed_mbps = 25'000;
  info.gids = {{IpAddress{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 9, 1}}, "eth7"},
               {IpAddress::v4(10, 9, 0, 1), "eth7"}};
  return info;
}

const TreeEntry* find(const std::vector<TreeEntry>& entries, const std::string& path) {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const TreeEntry& e) { return e.path == path; });
  return found == entries.end() ? nullptr : &*found;
}

TEST(DeviceFiles, SayWhatTheKernelWould) {
  const auto entries = device_files(std::vector{device()}, makedev(1, 7));
  const std::pair<const char*, const char*> files[] = {
      {"sys/class/infiniband_verbs/abi_version", "6\n"},
      {"sys/devices/virtual/infiniband_verbs/uverbs7/ibdev", "brdma_eth7\n"},
      {"sys/devices/virtual/infiniband_verbs/uverbs7/dev", "1:7\n"},
      {"sys/devices/virtual/infiniband_verbs/uverbs7/abi_version", "1\n"},
      {"sys/devices/virtual/infiniband/brdma_eth7/node_type", "1: CA\n"},
      {"sys/devices/virtual/infiniband/brdma_eth7/node_guid", "0200:00ff:fe00:0901\n"},
      {"sys/devices/virtual/infiniband/brdma_eth7/ports/1/state", "4: ACTIVE\n"},
      {"sys/devices/virtual/infiniband/brdma_eth7/ports/1/link_layer", "Ethernet\n"},
      {"sys/devices/virtual/infiniband/brdma_eth7/ports/1/rate", "25 Gb/sec (1X EDR)\n"},
      {"sys/devices/virtual/infiniband/brdma_eth7/ports/1/gids/0", "fe80:0000:0000:0000:0200:00ff:fe00:0901\n"},
      {"sys/devices/virtual/infiniband/brdma_eth7/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a09:0001\n"},
      {"sys/devices/virtual/infiniband/brdma_eth7/ports/1/gid_attrs/types/0", "RoCE v2\n"},
      {"sys/devices/virtual/infiniband/brdma_eth7/ports/1/gid_attrs/types/1", "RoCE v2\n"},
      {"sys/devices/virtual/infiniband/brdma_eth7/ports/1/gid_attrs/ndevs/1", "eth7\n"},
      {"sys/devices/virtual/infiniband/brdma_eth7/ports/1/pkeys/0", "0xffff\n"},
  };
  for (const auto& [path, content] : files) {
    const TreeEntry* entry = find(entries, path);
    ASSERT_NE(entry, nullptr) << path;
    EXPECT_EQ(entry->content, content) << path;
  }
  ASSERT_NE(find(entries, "dev/infiniband/uverbs7"), nullptr);
  EXPECT_EQ(find(entries, "dev/infiniband/uverbs7")->content, "/dev/full");
}

TEST(DeviceFiles, CountersAreKnownByTheirPath) {
  const auto file = parse_counter_path("sys/class/infiniband/brdma_eth7/ports/1/hw_counters/sent_pkts");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->device + " " + file->group + " " + file->name, "brdma_eth7 hw_counters sent_pkts");
  EXPECT_TRUE(parse_counter_path("/run/brdma/tree-1/sys/devices/virtual/infiniband/brdma_lo/ports/1/cm_rx_msgs/req"));
  for (const char* other : {"", "sent_pkts", "/ports/1/", "/ports/1/hw_counters", "/ports/1/hw_counters/",
                            "/ports/1/hw_counters/lifespan", "/ports/1/counters/sent_pkts", "/ports/1/cm_rx_msgs/x",
                            "/ports/2/counters/port_xmit_data", "x/ports/1/state"}) {
    EXPECT_FALSE(parse_counter_path(other)) << other;
  }
}

// libibverbs takes a device for a new one when the time of its directory changes: it may depend only on the device's
// identity.
TEST(DeviceFiles, DirectoryTimeIsTheDevicesIdentity) {
  const std::string path = "sys/devices/virtual/infiniband/brdma_eth7";
  const auto before = device_files(std::vector{device()}, makedev(1, 7));
  DeviceInfo changed = device();
  changed.gids.push_back({IpAddress::v4(10, 9, 0, 2), "eth7"});
  changed.active = false;
  const auto after = device_files(std::vector{changed}, makedev(1, 7));
  EXPECT_NE(hash_of(before), hash_of(after));
  EXPECT_NE(find(before, path)->mtime_seconds, 0);
  EXPECT_EQ(find(before, path)->mtime_seconds, find(after, path)->mtime_seconds);
  changed.guid += 1;
  EXPECT_NE(find(before, path)->mtime_seconds,
            find(device_files(std::vector{changed}, makedev(1, 7)), path)->mtime_seconds);
}

// The files of a machine with an RNIC and Soft-RoCE, as recorded; seen from a namespace, with the library's among them.
class KernelDevices : public testing::Test {
 protected:
  KernelDevices() : root_(fs::temp_directory_path() / ("brdma-kernel-test-" + std::to_string(::getpid()))) {
    for (const char* file : {"sys/class/infiniband/mlx5_0/node_type", "sys/class/infiniband/rxe0/node_type",
                             "sys/class/infiniband_verbs/uverbs0/ibdev", "sys/class/infiniband_verbs/uverbs1/ibdev",
                             "sys/class/infiniband_verbs/abi_version", "sys/class/infiniband_mad/umad0/ibdev",
                             "sys/class/infiniband_mad/abi_version", "dev/infiniband/uverbs0", "dev/infiniband/uverbs1",
                             "dev/infiniband/umad0", "dev/infiniband/rdma_cm"}) {
      write(file, "mlx5_0\n");
    }
  }
  ~KernelDevices() override { fs::remove_all(root_); }
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  // "path -> target" of each, without the root.
  std::vector<std::string> shown() const {
    std::vector<std::string> lines;
    for (const TreeEntry& entry : kernel_devices(root_.string())) {
      std::string target = entry.content;
      if (entry.kind == TreeEntry::Kind::kSymlink) target = target.substr(root_.string().size());
      lines.push_back(entry.path + " -> " + target);
    }
    return lines;
  }
  fs::path root_;
};

TEST_F(KernelDevices, AreLedToWhereTheyAre) {
  EXPECT_THAT(shown(),
              testing::ElementsAre("sys/class/infiniband/mlx5_0 -> /sys/class/infiniband/mlx5_0",
                                   "sys/class/infiniband/rxe0 -> /sys/class/infiniband/rxe0",
                                   "sys/class/infiniband_verbs/uverbs0 -> /sys/class/infiniband_verbs/uverbs0",
                                   "sys/class/infiniband_verbs/uverbs1 -> /sys/class/infiniband_verbs/uverbs1",
                                   "sys/class/infiniband_mad -> ",
                                   "sys/class/infiniband_mad/abi_version -> /sys/class/infiniband_mad/abi_version",
                                   "sys/class/infiniband_mad/umad0 -> /sys/class/infiniband_mad/umad0",
                                   "dev/infiniband/umad0 -> /dev/infiniband/umad0",
                                   "dev/infiniband/uverbs0 -> /dev/infiniband/uverbs0",
                                   "dev/infiniband/uverbs1 -> /dev/infiniband/uverbs1"));
}

// The kernel's classes have links, which lead past our tree.
TEST_F(KernelDevices, LinksAreThoseOfTheKernel) {
  fs::remove_all(root_ / "sys/class/infiniband/mlx5_0");
  fs::create_directory_symlink("../../devices/pci0000:00/infiniband/mlx5_0", root_ / "sys/class/infiniband/mlx5_0");
  const auto entries = kernel_devices(root_.string());
  ASSERT_NE(find(entries, "sys/class/infiniband/mlx5_0"), nullptr);
  EXPECT_EQ(find(entries, "sys/class/infiniband/mlx5_0")->content,
            root_.string() + "/sys/devices/pci0000:00/infiniband/mlx5_0");
}

TEST_F(KernelDevices, OursAreNoneOfThem) {
  const auto without = shown();
  write("sys/class/infiniband/brdma_eth7/node_type", "1: CA\n");
  write("sys/class/infiniband_verbs/uverbs1031/ibdev", "brdma_eth7\n");
  write("dev/infiniband/uverbs1031", "");
  EXPECT_EQ(shown(), without);
}

TEST_F(KernelDevices, OnlyOurs) {
  fs::remove_all(root_ / "sys/class/infiniband");
  write("sys/class/infiniband/brdma_eth7/node_type", "1: CA\n");
  EXPECT_THAT(shown(), testing::IsEmpty());
  fs::remove_all(root_);
  EXPECT_THAT(shown(), testing::IsEmpty());
}

TEST_F(KernelDevices, OneTreeHasBoth) {
  const auto kernels = kernel_devices(root_.string());
  auto entries = device_files(std::vector{device()}, makedev(1, 7), true);
  ASSERT_NE(find(entries, "dev/infiniband/uverbs1031"), nullptr);
  EXPECT_EQ(find(entries, "sys/devices/virtual/infiniband_verbs/uverbs1031/ibdev")->content, "brdma_eth7\n");
  entries.insert(entries.end(), kernels.begin(), kernels.end());
  const fs::path tree = root_ / "tree";
  fs::create_directory(tree);
  ASSERT_EQ(write_tree(tree.string(), entries), 0);
  const auto text = [&](const std::string& path) {
    std::ifstream file(tree / path);
    std::string line;
    std::getline(file, line);
    return line;
  };
  EXPECT_EQ(text("sys/class/infiniband_verbs/uverbs0/ibdev"), "mlx5_0");
  EXPECT_EQ(text("sys/class/infiniband_verbs/uverbs1031/ibdev"), "brdma_eth7");
}

class TreeTest : public testing::Test {
 protected:
  TreeTest() : directory_(fs::temp_directory_path() / ("brdma-tree-test-" + std::to_string(::getpid()))) {
    fs::remove_all(directory_);
    fs::create_directory(directory_);
  }
  ~TreeTest() override { fs::remove_all(directory_); }
  std::size_t trees() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()));
  }
  static std::string read(const fs::path& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  fs::path directory_;
};

TEST_F(TreeTest, IsWrittenOnceAndShared) {
  const auto entries = device_files(std::vector{device()}, makedev(1, 7));
  const auto first = DeviceTree::open_in(directory_, entries);
  ASSERT_TRUE(first.ok()) << std::strerror(first.reason());
  const fs::path gid = first.value().root() + "/sys/class/infiniband/brdma_eth7/ports/1/gids/1";
  EXPECT_EQ(read(gid), "0000:0000:0000:0000:0000:ffff:0a09:0001\n");
  struct stat status {};
  ASSERT_EQ(::stat((first.value().root() + "/dev/infiniband/uverbs7").c_str(), &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  const std::string device_directory = first.value().root() + "/sys/class/infiniband/brdma_eth7";
  ASSERT_EQ(::stat(device_directory.c_str(), &status), 0);
  EXPECT_EQ(status.st_mtim.tv_sec, find(entries, "sys/devices/virtual/infiniband/brdma_eth7")->mtime_seconds);
  const auto second = DeviceTree::open_in(directory_, entries);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second.value().root(), first.value().root());
  EXPECT_EQ(trees(), 1u);
}

TEST_F(TreeTest, PruningSparesWhatIsInUse) {
  const auto entries = device_files(std::vector{device()}, makedev(1, 7));
  {
    const auto used = DeviceTree::open_in(directory_, entries);
    ASSERT_TRUE(used.ok());
    fs::create_directory(directory_ / "new-half01");  // of a process that died while writing
    prune_trees(directory_, 0);
    EXPECT_EQ(trees(), 1u);
    EXPECT_TRUE(fs::exists(used.value().root()));
  }
  prune_trees(directory_, 3600);  // unused, but not for long
  EXPECT_EQ(trees(), 1u);
  prune_trees(directory_, 0);
  EXPECT_EQ(trees(), 0u);
}

// The clock of time() runs behind the clock of files by up to a tick: visible where a second begins.
TEST_F(TreeTest, WhatWasUsedThisMomentIsIdleForNoTimeAtTheTurnOfASecondToo) {
  const auto entries = device_files(std::vector{device()}, makedev(1, 7));
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_REALTIME, &time);
    return time;
  };
  const auto begun = now().tv_sec;
  for (timespec at = now(); at.tv_sec == begun || (at.tv_sec == begun + 1 && at.tv_nsec < 20'000'000); at = now()) {
    ASSERT_TRUE(DeviceTree::open_in(directory_, entries).ok());
    prune_trees(directory_, 0);
    ASSERT_EQ(trees(), 0u) << at.tv_nsec;
  }
}

TEST_F(TreeTest, NoRoomLeavesNothingBehind) {
  const auto entries = device_files(std::vector{device()}, makedev(1, 7));
  const auto tree = DeviceTree::open_in(directory_ / "missing", entries);
  ASSERT_FALSE(tree.ok());
  EXPECT_EQ(tree.reason(), ENOENT);
  auto broken = entries;
  broken.push_back({TreeEntry::Kind::kFile, "no/such/parent", "x", 0});
  EXPECT_FALSE(DeviceTree::open_in(directory_, broken).ok());
  EXPECT_EQ(trees(), 0u);
}

TEST_F(TreeTest, OnlyADirectoryOfOursIsClaimed) {
  const fs::path fresh = directory_ / "fresh";
  EXPECT_EQ(claim_directory(fresh), 0);
  EXPECT_EQ(fs::status(fresh).permissions(), fs::perms::owner_all);
  EXPECT_EQ(claim_directory(fresh), 0);
  fs::permissions(fresh, fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(claim_directory(fresh), EPERM);
  fs::create_directory_symlink(directory_, directory_ / "trap");
  EXPECT_EQ(claim_directory(directory_ / "trap"), EPERM);
  std::ofstream(directory_ / "file") << "x";
  EXPECT_EQ(claim_directory(directory_ / "file"), EPERM);
  EXPECT_EQ(claim_directory(directory_ / "no" / "parent"), ENOENT);
  if (::geteuid() == 0) {
    const fs::path foreign = directory_ / "foreign";
    fs::create_directory(foreign);
    ASSERT_EQ(::chown(foreign.c_str(), 12345, 12345), 0);
    EXPECT_EQ(claim_directory(foreign), EPERM);
  }
}

TEST_F(TreeTest, WhoSitsOnNamesKeepsNobodyFromAnother) {
  if (::geteuid() == 0) {
    for (const char* name : {"brdma-1.taken1", "brdma-1.taken2"}) {
      fs::create_directory(directory_ / name);
      ASSERT_EQ(::chown((directory_ / name).c_str(), 12345, 12345), 0);
    }
  }
  std::string first = directory_ / "brdma-1.XXXXXX", second = first;
  ASSERT_EQ(claim_any_directory(first), 0);
  EXPECT_EQ(claim_directory(first), 0) << first;
  ASSERT_EQ(claim_any_directory(second), 0);
  EXPECT_EQ(second, first) << "the device files are shared";
  std::string nowhere = directory_ / "no" / "parent.XXXXXX";
  EXPECT_EQ(claim_any_directory(nowhere), ENOENT);
}

TEST(RuntimeDirectory, PrefersTheUsersOwn) {
  ::setenv("XDG_RUNTIME_DIR", "/run/user/77", 1);
  EXPECT_EQ(runtime_candidates().front().front(), "/run/user/77/brdma");
  ::setenv("XDG_RUNTIME_DIR", "relative", 1);
  EXPECT_EQ(runtime_candidates().front().front(), "/tmp/brdma-" + std::to_string(::geteuid()));
  ::unsetenv("XDG_RUNTIME_DIR");
}

TEST(RuntimeDirectory, FailureNamesEachPlaceAndTheCure) {
  const auto sentence = with_runtime_directory([](const std::string&) { return ENOSPC; });
  ASSERT_TRUE(sentence.has_value());
  EXPECT_THAT(*sentence, testing::HasSubstr("No space left on device"));
  EXPECT_THAT(*sentence, testing::HasSubstr("/dev/shm/brdma-"));
  EXPECT_THAT(*sentence, testing::HasSubstr("set XDG_RUNTIME_DIR"));
}

TEST(UverbsCommands, OnlyTheOneCommandIsTaken) {
  struct {
    std::uint32_t command = 17;
    std::uint16_t in_words = 4, out_words = 1;
    std::uint64_t response;
  } command;
  std::uint32_t fd = 0;
  command.response = reinterpret_cast<std::uintptr_t>(&fd);
  EXPECT_TRUE(is_create_completion_channel(&command, sizeof command));
  EXPECT_FALSE(is_create_completion_channel(&command, 7));
  EXPECT_FALSE(is_create_completion_channel(reinterpret_cast<const void*>(8), sizeof command));
  auto other = command;
  other.command = 3;
  EXPECT_FALSE(is_create_completion_channel(&other, sizeof other));
  const auto refusal = [](const void* bytes, std::size_t count) {
    return create_completion_channel(bytes, count) == -1 ? errno : 0;
  };
  EXPECT_EQ(refusal(&command, sizeof command - 1), EINVAL);
  other = command;
  other.in_words = 5;
  EXPECT_EQ(refusal(&other, sizeof other), EINVAL);
  other = command;
  other.out_words = 0;
  EXPECT_EQ(refusal(&other, sizeof other), ENOSPC);
  const int next_free = ::dup(0);
  ::close(next_free);
  other = command;
  other.response = 8;
  EXPECT_EQ(refusal(&other, sizeof other), EFAULT);
  const int free_now = ::dup(0);
  ::close(free_now);
  EXPECT_EQ(free_now, next_free) << "the channel without a reply is still open";
  EXPECT_EQ(uverbs_command(&other, 7), -1);
  EXPECT_EQ(errno, EINVAL);
  other.command = 3;
  EXPECT_EQ(uverbs_command(&other, sizeof other), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ASSERT_EQ(create_completion_channel(&command, sizeof command), 16);
  const int channel = static_cast<int>(fd);
  EXPECT_NE(::fcntl(channel, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(::fcntl(channel, F_GETFL) & O_NONBLOCK, 0);
  EXPECT_EQ(::close(channel), 0);
}

TEST(Port, RatesAreThoseThatInfiniBandCanSay) {
  const std::pair<std::uint64_t, int> cases[] = {{1, 2'500},        {1'000, 2'500},     {1'001, 10'000},
                                                 {10'000, 10'000},  {25'000, 25'000},   {40'000, 40'000},
                                                 {50'000, 100'000}, {100'000, 100'000}, {400'000, 200'000}};
  for (const auto& [mbps, expected] : cases) {
    const auto rate = provider::link_rate(mbps);
    const int lanes = rate.width == 1 ? 1 : 4;
    const int lane = rate.speed == 1    ? 2'500
                     : rate.speed == 2  ? 5'000
                     : rate.speed <= 8  ? 10'000
                     : rate.speed == 32 ? 25'000
                                        : 50'000;
    EXPECT_EQ(lanes * lane, expected) << mbps;
    EXPECT_EQ(std::atof(rate.description) * 1000, expected) << mbps;
  }
}

}  // namespace
}  // namespace brdma::preload
