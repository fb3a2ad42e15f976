// The device files beside those of a kernel's Soft-RoCE device (kernel_sysfs.txt): names, types, modes, targets of
// links, as programs find them; and counters, which move.
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "io/private_network.h"
#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

using testing::HasSubstr, testing::StartsWith;

const std::string kDevice = "/sys/class/infiniband/brdma_lo", kVerbs = "/sys/class/infiniband_verbs/uverbs1",
                  kPortFiles = kDevice + "/ports/1/";

struct Node {
  char type = '?';
  unsigned mode = 0;
  std::string target;  // of a link
  friend bool operator==(const Node&, const Node&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Node& node) {
    return out << node.type << ' ' << std::oct << node.mode << std::dec << ' ' << node.target;
  }
};
using Tree = std::map<std::string, Node>;

std::string link_target(const std::string& path) {
  std::array<char, PATH_MAX> target{};
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  return {target.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

// Of lines that begin with `mark`, which is cut off.
Tree recorded(const std::string& mark) {
  Tree tree;
  std::ifstream file(BRDMA_KERNEL_SYSFS);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(mark) || line.starts_with('#')) continue;
    std::istringstream words(line.substr(mark.size()));
    std::string type, path, target;
    unsigned mode = 0;
    if (words >> type >> std::oct >> mode >> path && type.size() == 1) {
      words >> target;
      tree[path] = {type[0], mode, target};
    }
  }
  return tree;
}

Node node_of(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return {};
  EXPECT_EQ(status.st_uid, 0u) << path;
  EXPECT_EQ(status.st_gid, 0u) << path;
  EXPECT_EQ(status.st_size, S_ISREG(status.st_mode) ? 4096 : 0) << path;
  const char type = S_ISDIR(status.st_mode) ? 'd' : S_ISREG(status.st_mode) ? 'f' : S_ISLNK(status.st_mode) ? 'l' : '?';
  return {type, status.st_mode & 07777, type == 'l' ? link_target(path) : ""};
}

Tree shown(const std::string& root) {
  Tree tree;
  const std::function<void(const std::string&)> walk = [&](const std::string& below) {
    const std::string path = root + below.substr(1);
    tree[below] = node_of(path + (below == "." ? "/." : ""));
    if (tree[below].type != 'd') return;
    DIR* const list = ::opendir(path.c_str());
    ASSERT_NE(list, nullptr) << path;
    while (const dirent* entry = ::readdir(list)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") walk(below + "/" + name);
    }
    ::closedir(list);
  };
  walk(".");
  return tree;
}

// Entries of these are not recorded: they depend on the machine.
bool varies(const std::string& path) {
  return path.find("/gids/") != path.npos || path.find("/pkeys/") != path.npos || path.find("/gid_attrs/") != path.npos;
}
// What adapters have, and Soft-RoCE has not: for collectors, and for programs that look for the interface.
bool is_of_adapters(const std::string& path) {
  const std::set<std::string> names{"./hw_rev", "./hca_type", "./board_id", "./device", "./ports/1/counters"};
  return std::ranges::any_of(names, [&](const auto& name) { return path == name || path.starts_with(name + "/"); });
}

void compare(const Tree& ours, const Tree& kernels) {
  ASSERT_GT(kernels.size(), 4u);
  for (const auto& [path, node] : kernels) {
    const auto found = ours.find(path);
    ASSERT_NE(found, ours.end()) << path;
    EXPECT_EQ(found->second, node) << path;
  }
  for (const auto& [path, node] : ours) {
    EXPECT_TRUE(kernels.contains(path) || varies(path) || is_of_adapters(path)) << path << " is not of the kernel";
  }
}

TEST(Sysfs, DeviceIsAsTheKernels) { compare(shown(kDevice), recorded("")); }
TEST(Sysfs, NodeIsAsTheKernels) { compare(shown(kVerbs), recorded("v")); }

TEST(Sysfs, ClassesHaveLinks) {
  EXPECT_EQ(link_target(kDevice), "../../devices/virtual/infiniband/brdma_lo");
  EXPECT_EQ(link_target(kVerbs), "../../devices/virtual/infiniband_verbs/uverbs1");
  EXPECT_EQ(node_of(kDevice).mode, 0777u);
}

TEST(Sysfs, RealPathIsTheKernels) {
  const auto real = [](const std::string& path) {
    char* const found = ::realpath(path.c_str(), nullptr);
    const std::string text = found != nullptr ? found : "";
    std::free(found);
    return text;
  };
  EXPECT_EQ(real(kDevice), "/sys/devices/virtual/infiniband/brdma_lo");
  EXPECT_EQ(real(kDevice + "/ports/1/gids/0"), "/sys/devices/virtual/infiniband/brdma_lo/ports/1/gids/0");
  EXPECT_THAT(real(kDevice + "/device"), HasSubstr("/devices/virtual/"));
  EXPECT_EQ(real(kDevice + "/subsystem"), "/sys/class/infiniband");
  EXPECT_EQ(real(real(kVerbs) + "/device"), "/sys/devices/virtual/infiniband/brdma_lo/device");
  EXPECT_EQ(::access("/sys/devices/virtual/infiniband/brdma_lo/node_guid", R_OK), 0);
  EXPECT_EQ(::access("/sys/devices/virtual/infiniband/other", F_OK), -1);
  EXPECT_EQ(errno, ENOENT);
}

TEST(Sysfs, GlobGivesThePathsAskedFor) {
  glob_t found{};
  ASSERT_EQ(::glob("/sys/class/infiniband/*/ports/*/state", 0, nullptr, &found), 0);
  ASSERT_EQ(found.gl_pathc, 1u);
  EXPECT_EQ(std::string{found.gl_pathv[0]}, kPortFiles + "state");
  ::globfree(&found);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Sysfs, FilesSayWhatTheKernelsSay) {
  EXPECT_EQ(text_of(kDevice + "/uevent"), "NAME=brdma_lo\n");
  EXPECT_EQ(text_of(kDevice + "/parent"), "lo\n");
  EXPECT_THAT(text_of(kVerbs + "/uevent"), HasSubstr("DEVNAME=infiniband/uverbs1\nDEVMODE=0666\n"));
  EXPECT_EQ(text_of(kPortFiles + "cap_mask"), "0x00010000\n");
  EXPECT_EQ(text_of(kPortFiles + "hw_counters/lifespan"), "10\n");
}

TEST(Sysfs, OnlyRootWrites) {
  const int state = ::open((kPortFiles + "state").c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_GE(state, 0);
  ::close(state);
  const int uevent = ::open((kDevice + "/uevent").c_str(), O_WRONLY | O_CLOEXEC);
  if (::geteuid() == 0) {
    EXPECT_EQ(::write(uevent, "change\n", 7), 7);
    ::close(uevent);
  } else {
    EXPECT_EQ(uevent, -1);
    EXPECT_EQ(::fopen((kDevice + "/node_desc").c_str(), "r+"), nullptr);
    EXPECT_EQ(errno, EACCES);
  }
  EXPECT_EQ(text_of(kDevice + "/uevent"), "NAME=brdma_lo\n");
}

// --- counters ---

std::uint64_t counter(const std::string& path) { return std::stoull("0" + text_of(path)); }

std::uint64_t by_open(const std::string& path) {
  std::array<char, 64> text{};
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_GT(::read(fd, text.data(), text.size() - 1), 0) << path;
  struct stat status {};
  EXPECT_EQ(::fstat(fd, &status), 0);
  EXPECT_EQ(status.st_size, 4096);
  EXPECT_EQ(status.st_mode, S_IFREG | 0444u);
  ::close(fd);
  return std::stoull(text.data());
}

std::uint64_t by_stream(const std::string& path) {
  unsigned long long value = 0;
  std::FILE* const file = std::fopen(path.c_str(), "r");
  EXPECT_EQ(std::fscanf(file, "%llu", &value), 1);
  std::fclose(file);
  return value;
}

std::uint64_t by_directory(const std::string& folder, const std::string& name) {
  std::array<char, 64> text{};
  const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int fd = ::openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_GT(::read(fd, text.data(), text.size() - 1), 0);
  ::close(fd);
  ::close(directory);
  return std::stoull(text.data());
}

TEST(Sysfs, CountersMove) {
  Side side = Side::make(), other = Side::make();
  ASSERT_NE(side.qp, nullptr);
  connect(side, other);
  const std::string packets = kPortFiles + "hw_counters/sent_pkts";
  const std::uint64_t before = counter(packets), bytes_before = counter(kPortFiles + "counters/port_xmit_data");
  ibv_sge sge = side.sge(0, 4096);
  ASSERT_EQ(post_send(side, write_request(sge, other)), 0);
  EXPECT_EQ(wait_completion(side.cq.get()).status, IBV_WC_SUCCESS);
  const std::uint64_t after = counter(packets);
  EXPECT_GT(after, before);
  EXPECT_GE(by_open(packets), after);
  EXPECT_GE(by_stream(packets), after);
  EXPECT_GE(by_directory(kPortFiles + "hw_counters", "sent_pkts"), after);
  EXPECT_GE(by_directory(kPortFiles, "hw_counters/sent_pkts"), after);
  EXPECT_GE(by_open("/sys/devices/virtual/infiniband/brdma_lo/ports/1/counters/port_xmit_packets"), after);
  // Words of 4 bytes: the data, and some headers.
  const std::uint64_t words = counter(kPortFiles + "counters/port_xmit_data") - bytes_before;
  EXPECT_GE(words, 4096u / 4);
  EXPECT_LT(words, 4096u);
}

// rping is refused while nobody listens, so it is started until it is not.
TEST(Sysfs, ConnectionMessagesAreCounted) {
  if (std::system("command -v rping >/dev/null") != 0) GTEST_SKIP() << "no rping here: apt-get install rdmacm-utils";
  const Owned<ibv_context> keeps_brdmad = open_first_device();
  ASSERT_NE(keeps_brdmad, nullptr);
  const std::uint64_t before = counter(kPortFiles + "cm_rx_msgs/rep");
  ASSERT_EQ(std::system("rping -s -a 127.0.0.1 -C 1 >/dev/null 2>&1 & server=$!; "
                        "until rping -c -a 127.0.0.1 -C 1 >/dev/null 2>&1 || ! kill -0 $server; do sleep 0.05; done; "
                        "wait $server"),
            0);
  for (const char* group : {"cm_rx_msgs/", "cm_tx_msgs/"}) {
    for (const char* kind : {"req", "rep", "rtu", "dreq"}) {
      EXPECT_GT(counter(kPortFiles + group + kind), 0u) << group << kind;
    }
    EXPECT_EQ(counter(kPortFiles + group + "lap"), 0u);
  }
  EXPECT_GT(counter(kPortFiles + "cm_rx_msgs/rep"), before);
}

// Other files by such names are the program's own.
TEST(Sysfs, OtherFilesAreLeft) {
  char directory[] = "/tmp/brdma-sysfs-XXXXXX";
  ASSERT_NE(::mkdtemp(directory), nullptr);
  const int folder = ::open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int made = ::openat(folder, "sent_pkts", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  EXPECT_EQ(::write(made, "own\n", 4), 4);
  ::close(made);
  std::array<char, 8> text{};
  const int read_back = ::openat(folder, "sent_pkts", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(::read(read_back, text.data(), text.size()), 4);
  EXPECT_STREQ(text.data(), "own\n");
  struct stat status {};
  EXPECT_EQ(::fstat(read_back, &status), 0);
  EXPECT_EQ(status.st_size, 4);
  ::close(read_back);
  EXPECT_EQ(::unlinkat(folder, "sent_pkts", 0), 0);
  ::close(folder);
  EXPECT_EQ(::rmdir(directory), 0);
}

// A file with the time by which the tree's files are known, elsewhere: it is what it is. (An attacker can make such
// files, and programs judge files by their owners.)
TEST(Sysfs, OnlyTheTreesFilesAreRoots) {
  EXPECT_EQ(node_of(kDevice + "/node_guid").type, 'f');
  const std::string name = "/dev/shm/brdma-sysfs-" + std::to_string(::getpid());
  const int fd = ::open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  const timespec times[2] = {{5, 424'242'421}, {5, 424'242'421}};
  EXPECT_EQ(::futimens(fd, times), 0);
  const uid_t other = 12'345;
  const bool given_away = ::fchown(fd, other, other) == 0;  // root's alone
  struct stat status {};
  EXPECT_EQ(::fstat(fd, &status), 0);
  EXPECT_EQ(status.st_uid, given_away ? other : ::geteuid());
  EXPECT_EQ(status.st_size, 0);
  EXPECT_EQ(::unlink(name.c_str()), 0);
  ::close(fd);
}

// Scripts of Python: os.readlink, os.path.realpath, os.scandir, which make system calls of libc by themselves.
TEST(Sysfs, PythonAgrees) {
  if (std::system("command -v /usr/bin/python3 >/dev/null") != 0) GTEST_SKIP() << "no Python here";
  const char* const script =
      "/usr/bin/python3 -c \"import os,glob;p='/sys/class/infiniband/brdma_lo';"
      "assert os.readlink(p)=='../../devices/virtual/infiniband/brdma_lo',os.readlink(p);"
      "assert os.path.realpath(p)=='/sys/devices/virtual/infiniband/brdma_lo',os.path.realpath(p);"
      "assert os.listdir('/sys/class/infiniband')==['brdma_lo'];"
      "assert glob.glob('/sys/class/infiniband/*/ports/*/rate')==[p+'/ports/1/rate'];"
      "assert 'port_rcv_data' in os.listdir(p+'/ports/1/counters');"
      "assert int(open(p+'/ports/1/counters/port_rcv_data').read())>=0;"
      "os.chdir(p+'/ports/1/hw_counters');assert int(open('sent_pkts').read())>=0\"";
  EXPECT_EQ(std::system(script), 0);
}

}  // namespace
}  // namespace brdma::test
