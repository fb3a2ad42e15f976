// brdmad --system with the rights of its service unit, and no others, serves root and ordinary users, by UDP and by
// AF_XDP, also after worker and holder were killed.
#include <linux/bpf.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "io/xdp/xdp_request.h"
#include "private_network.h"
#include "system_daemon.h"

namespace brdma::test {
namespace {

constexpr int kCapabilitiesEnd = 64;

// The rights in the unit; an unknown name is a test failure.
std::uint64_t unit_rights() {
  constexpr std::array<std::pair<const char*, int>, 7> kNames{{{"CAP_NET_ADMIN", CAP_NET_ADMIN},
                                                               {"CAP_NET_RAW", CAP_NET_RAW},
                                                               {"CAP_BPF", CAP_BPF},
                                                               {"CAP_IPC_LOCK", CAP_IPC_LOCK},
                                                               {"CAP_SYS_RESOURCE", CAP_SYS_RESOURCE},
                                                               {"CAP_PERFMON", CAP_PERFMON},
                                                               {"CAP_SYS_ADMIN", CAP_SYS_ADMIN}}};
  std::ifstream unit(BRDMAD_UNIT);
  std::uint64_t rights = 0;
  for (std::string line; std::getline(unit, line);) {
    if (!line.starts_with("CapabilityBoundingSet=")) continue;
    std::istringstream words(line.substr(line.find('=') + 1));
    for (std::string word; words >> word;) {
      const auto* known = std::ranges::find_if(kNames, [&](const auto& name) { return word == name.first; });
      EXPECT_NE(known, kNames.end()) << word;
      if (known != kNames.end()) rights |= 1ull << known->second;
    }
  }
  EXPECT_NE(rights, 0u);
  return rights;
}

// Root has the rest of the bounding set when it executes something.
void keep_only(std::uint64_t rights) {
  for (int right = 0; right < kCapabilitiesEnd; ++right) {
    if ((rights & 1ull << right) == 0) ::prctl(PR_CAPBSET_DROP, right, 0, 0, 0);
  }
}

class RightsTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    if (!IsSkipped() && !can_change_user()) GTEST_SKIP() << "only root has rights to leave";
  }
  static constexpr std::uint64_t kSysAdmin = 1ull << CAP_SYS_ADMIN;
};

TEST_F(RightsTest, TheUnitLeavesItNoRightToAdministerTheSystem) { EXPECT_EQ(unit_rights() & kSysAdmin, 0u); }

bool serves(uid_t uid) {
  return as_user(uid, [] { return lease_or_die().socket_fd >= 0 ? 0 : 1; }) == 0;
}

TEST_F(RightsTest, TheUnitsRightsServeRootAndOthers) {
  ServiceManager manager([] { keep_only(unit_rights() & ~kSysAdmin); });
  ASSERT_NO_FATAL_FAILURE(manager.start());
  EXPECT_TRUE(ask("config")["users_kept_apart"].get<bool>());
  const io::Lease kept = lease_or_die();
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(serves(0));
    EXPECT_TRUE(serves(kAlice));
    const pid_t worker = worker_pid();
    ASSERT_EQ(::kill(worker, SIGKILL), 0);
    ASSERT_TRUE(ask_until("version", [worker](const json& answer) { return answer["worker_pid"] != worker; }));
    EXPECT_TRUE(serves(kAlice));
    ASSERT_NO_FATAL_FAILURE(manager.kill_and_start_again());
    EXPECT_TRUE(kept.alive());
  }
}

// At the mount point of the tree, and nowhere else.
TEST_F(RightsTest, TheCgroupTreeIsFoundWhereItIsMounted) {
  ServiceManager manager([] {
    char directory[] = "/tmp/brdma-cgroup-XXXXXX";
    if (::mkdtemp(directory) == nullptr || ::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::umount2("/sys/fs/cgroup", MNT_DETACH) != 0)
      ::_exit(100);
    const std::string place = std::string(directory) + "/with space";
    if (::mount("none", directory, "tmpfs", 0, nullptr) != 0 || ::mkdir(place.c_str(), 0755) != 0 ||
        ::mount("none", place.c_str(), "cgroup2", 0, nullptr) != 0)
      ::_exit(101);
    keep_only(unit_rights() & ~kSysAdmin);
  });
  ASSERT_NO_FATAL_FAILURE(manager.start());
  EXPECT_TRUE(ask("config")["users_kept_apart"].get<bool>());
  EXPECT_TRUE(serves(kAlice));
}

constexpr const char* kInterface = "near";

// On an interface with as many receive queues as programs have AF_XDP sockets below.
class XdpRightsTest : public RightsTest {
 protected:
  void SetUp() override {
    RightsTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(ip("link add near numtxqueues 4 numrxqueues 4 type veth peer name far"));
    ASSERT_TRUE(ip("link set near up") && ip("link set far up"));
  }
  [[nodiscard]] static bool program_is_attached() {
    return ip(std::string("-details link show ") + kInterface + " | grep -q 'prog/xdp'");
  }
  [[nodiscard]] static bool program_goes() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (program_is_attached() && std::chrono::steady_clock::now() < deadline) ::sched_yield();
    return !program_is_attached();
  }
};

DeviceInfo device() {
  DeviceInfo device;
  device.name = std::string("brdma_") + kInterface;
  device.netdev = kInterface;
  return device;
}

constexpr io::XdpWant kWant{.mode = io::XdpMode::kNative, .receive_chunks = 64};

// A program of that user that receives by AF_XDP for as long as this lives. At its end it reports its queue; a number
// beyond the last: it had none.
class XdpProgram : public Companion {
 public:
  explicit XdpProgram(uid_t uid)
      : Companion([uid](Gate& ready, const Gate& stop) {
          if (!become(uid)) return 100;
          auto lease = io::acquire_lease(device());
          if (!lease) return 101;
          auto sockets = io::request_xdp(lease.value(), kWant);
          if (!sockets) {
            std::fprintf(stderr, "%s\n", sockets.reason().message.c_str());
            return 102;
          }
          ready.open();
          std::array<pollfd, 2> ends{pollfd{stop.wait_end.get(), POLLIN, 0},
                                     pollfd{lease.value().control_fd, POLLRDHUP, 0}};
          if (::poll(ends.data(), ends.size(), -1) < 1) return 103;
          if (ends[1].revents == 0) return static_cast<int>(sockets.value().receive->queue());
          lease.value().abandon();  // as the library does
          return stop.wait() ? 104 : 105;
        }) {}
};

// The second one gets the steering of the first one's queue, whichever worker attached it.
TEST_F(XdpRightsTest, ProgramsOfSeveralUsersShareAnInterface) {
  ServiceManager manager([] { keep_only(unit_rights() & ~kSysAdmin); });
  ASSERT_NO_FATAL_FAILURE(manager.start());
  XdpProgram roots(0);
  XdpProgram alices(kAlice);
  const pid_t worker = worker_pid();
  ASSERT_EQ(::kill(worker, SIGKILL), 0);
  ASSERT_TRUE(ask_until("version", [worker](const json& answer) { return answer["worker_pid"] != worker; }));
  XdpProgram bobs(kBob);
  ASSERT_NO_FATAL_FAILURE(manager.kill_and_start_again());
  XdpProgram last(kAlice);
  EXPECT_TRUE(program_is_attached());
  EXPECT_EQ(last.end(), 3);
  EXPECT_EQ(bobs.end(), 2);
  EXPECT_EQ(alices.end(), 1);
  ASSERT_TRUE(leases_become(1));
  EXPECT_TRUE(program_is_attached());
  EXPECT_EQ(roots.end(), 0);
  EXPECT_TRUE(program_goes()) << "with its last user";
}

// While there was no daemon.
TEST_F(XdpRightsTest, TheProgramGoesThoughTheDaemonDiesWithItsLastUser) {
  ServiceManager manager([] { keep_only(unit_rights() & ~kSysAdmin); });
  ASSERT_NO_FATAL_FAILURE(manager.start());
  {
    XdpProgram program(kAlice);
    EXPECT_TRUE(program_is_attached());
    ASSERT_NO_FATAL_FAILURE(manager.kill());
  }
  EXPECT_TRUE(program_is_attached()) << "the vault has it";
  ASSERT_NO_FATAL_FAILURE(manager.start());
  EXPECT_TRUE(program_goes());
  XdpProgram another(kBob);
  EXPECT_EQ(another.end(), 0);
}

// A process with the link can detach the program for all.
TEST_F(XdpRightsTest, NoProgramEndsTheSteeringOfOthers) {
  ServiceManager manager([] { keep_only(unit_rights()); });
  ASSERT_NO_FATAL_FAILURE(manager.start());
  XdpProgram alices(kAlice);
  EXPECT_EQ(as_user(kBob,
                    [] {
                      const auto lease = io::acquire_lease(device());
                      auto sockets = io::request_xdp(lease.value(), kWant);
                      if (!sockets) return 1;
                      bpf_attr attributes{};
                      for (std::uint32_t fd = 3; fd < 100; ++fd) {
                        attributes.link_detach.link_fd = fd;
                        if (::syscall(SYS_bpf, BPF_LINK_DETACH, &attributes, sizeof attributes) == 0) return 2;
                      }
                      return 0;
                    }),
            0);
  EXPECT_TRUE(program_is_attached());
  EXPECT_EQ(alices.end(), 0);
}

// Left by a daemon of root that has ended: its program still has it. It is found again by its number.
TEST_F(XdpRightsTest, AProgramThatADaemonLeftIsFoundAtTheStart) {
  ASSERT_EQ(run_brdmad(), 0);
  XdpProgram orphan(0);
  ASSERT_EQ(ask(json{{"query", "shutdown"}, {"force", true}})["shutdown"], true);
  XdpProgram another(0);
  EXPECT_EQ(another.end(), 1);
  EXPECT_TRUE(program_is_attached());
  EXPECT_EQ(orphan.end(), 104) << "its lease is gone";
}

}  // namespace
}  // namespace brdma::test
