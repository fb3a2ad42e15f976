// Thousands of leases at a time, each acquired as by a program, over its own connection to brdmad.
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "daemon_fixture.h"
#include "io/daemon/lease_protocol.h"
#include "io/management/control_thread.h"
#include "io/system/pass_descriptors.h"

namespace brdma::test {
namespace {

constexpr int kClients = 16;
constexpr rlim_t kFilesOfALease = 4;  // of a program's, and as many as brdmad has, or fewer

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

rlim_t files_max() {
  rlimit files{};
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  return files.rlim_max;
}

void raise_files() {
  const rlimit files{files_max(), files_max()};
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
}

std::size_t open_files(pid_t pid) {
  std::size_t count = 0;
  std::error_code error;
  const auto listed = std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", error);
  for (const auto& each : listed) count += each.path().empty() ? 0 : 1;
  return count;
}

std::string line_of(const std::string& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key)) return line;
  }
  return {};
}

// Costs while thousands have leases, for docs/explanation/daemon.md.
void print_costs(const char* when) {
  const json version = ask("version");
  for (const char* const who : {"pid", "worker_pid"}) {
    const pid_t pid = version[who];
    const std::string status = "/proc/" + std::to_string(pid) + "/status";
    std::printf("%s: %s %d open files %zu %s %s\n", when, who, pid, open_files(pid), line_of(status, "RssAnon").c_str(),
                line_of(status, "RssShmem").c_str());
  }
  std::printf("%s: %s %s %s\n", when, line_of("/proc/net/sockstat", "UDP:").c_str(),
              line_of("/proc/net/sockstat6", "UDP6:").c_str(), line_of("/proc/meminfo", "Slab:").c_str());
}

constexpr std::chrono::minutes kForAllOthers{2};  // thousands, on a busy machine

// A process with some of the leases. On request it checks whether each is alive and receives its packets.
class Client {
 public:
  explicit Client(int leases)
      : child_([this, leases] {
          go_.signal_end.reset();
          raise_files();
          std::vector<io::Lease> all;
          for (int i = 0; i < leases; ++i) {
            all.push_back(lease_or_die());
            const auto slot = static_cast<std::uint16_t>(all.back().slot);
            if (all.back().socket_fd < 0 || ::write(slots_.signal_end.get(), &slot, sizeof slot) != sizeof slot)
              return 1;
          }
          if (!go_.wait(kForAllOthers)) return 2;
          for (const io::Lease& lease : all) {
            if (!lease.alive()) return 3;
            send_to_qpn(1u << lease.slot_bits | lease.slot, lease.slot % 2 == 0);
            if (receive_all(lease.socket_fd, 1).size() != 1) return 4;
          }
          return testing::Test::HasFailure() ? 5 : 0;
        }) {}
  // Of its next lease; 0: there is none.
  std::uint16_t next_slot() {
    slots_.signal_end.reset();
    std::uint16_t slot = 0;
    return ::read(slots_.wait_end.get(), &slot, sizeof slot) == sizeof slot ? slot : std::uint16_t{0};
  }
  int check_and_end() {
    const char go = 0;  // written, as later clients have this end too
    EXPECT_EQ(::write(go_.signal_end.get(), &go, sizeof go), 1);
    return child_.join();
  }

 private:
  Gate go_, slots_;  // before the child
  Child child_;
};

// The fraction of all leases that this machine's descriptors allow.
int leases_of_a_client() {
  const rlim_t possible = (files_max() - 1000) / kFilesOfALease;
  return static_cast<int>(std::min<rlim_t>(possible, 4200)) / kClients;
}

TEST_F(DaemonTest, ThousandsOfProcessesLeaseAtATimeAndOutliveTheDaemon) {
  const int each = leases_of_a_client();
  std::printf("%d leases\n", each * kClients);
  const io::Lease first = lease_or_die();
  const bool adoptable = first.vault_fd >= 0;
  print_costs("one");
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < kClients; ++i) clients.push_back(std::make_unique<Client>(each));
  std::set<std::uint16_t> slots{static_cast<std::uint16_t>(first.slot)};
  for (const auto& client : clients) {
    for (int i = 0; i < each; ++i) {
      const std::uint16_t slot = client->next_slot();
      ASSERT_NE(slot, 0);
      EXPECT_TRUE(slots.insert(slot).second);
    }
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  std::printf("leased in %.0f ms\n", took.count());
  print_costs("all");
  const json before = ask("leases");
  EXPECT_EQ(before["leases"].size(), slots.size());
  EXPECT_GT(*slots.rbegin(), 254);

  // The worker alone, then both: one of the programs starts the next.
  const json version = ask("version");
  ASSERT_EQ(::kill(version["worker_pid"], SIGKILL), 0);
  ASSERT_TRUE(ask_until("version", [&](const json& now) { return now["worker_pid"] != version["worker_pid"]; }));
  EXPECT_EQ(ask("leases"), before);
  ASSERT_TRUE(adoptable);
  io::Lease survivor = lease_or_die();
  io::ControlThread control;
  control.survive(survivor.take_revival());
  ASSERT_TRUE(control.start(survivor.control_fd, [](std::string_view) { return std::string{}; }));
  const json second = ask("version");
  const io::FileDescriptor holder = watch_process(second["pid"]), worker = watch_process(second["worker_pid"]);
  const auto killed = std::chrono::steady_clock::now();
  ::kill(second["pid"], SIGKILL);
  ::kill(second["worker_pid"], SIGKILL);
  ASSERT_TRUE(ends_within(holder) && ends_within(worker));
  ASSERT_TRUE(ask_until("version", [&](const json& now) { return now["pid"] != second["pid"]; }));
  const std::chrono::duration<double, std::milli> adopted = std::chrono::steady_clock::now() - killed;
  std::printf("adopted in %.0f ms\n", adopted.count());
  EXPECT_EQ(ask("leases")["leases"].size(), slots.size() + 1);
  print_costs("adopted");
  for (const auto& client : clients) EXPECT_EQ(client->check_and_end(), 0);
  EXPECT_TRUE(leases_become(2));
  EXPECT_TRUE(survivor.alive());
}

// A daemon at its limit of open files reports it, and the remedy; existing leases stay.
TEST_F(DaemonTest, ADaemonWithoutDescriptorsSaysSo) {
  Child poor([] {
    constexpr rlim_t kFew = 640;  // 256 sockets, and 100 leases of three descriptors each
    const rlimit files{kFew, kFew};
    if (::setrlimit(RLIMIT_NOFILE, &files) != 0) return 1;
    return run_brdmad();
  });
  ASSERT_EQ(poor.join(), 0);
  raise_files();
  std::vector<io::Lease> leases;
  std::string message;
  for (int i = 0; i < 400 && message.empty(); ++i) {
    auto lease = io::acquire_lease(loopback_device());
    if (lease) {
      leases.push_back(std::move(lease).value());
      continue;
    }
    message = lease.reason().message;
    const bool others_have_them = lease.reason().error == ETOOMANYREFS || (leases.empty() && !can_change_user());
    if (others_have_them) GTEST_SKIP() << "other daemons of this user have not ended yet: " << message;
    EXPECT_EQ(lease.reason().error, EMFILE);
  }
  EXPECT_GT(leases.size(), 100u);
  EXPECT_TRUE(contains(message, "brdmad has as many open files as it may (640")) << message;
  EXPECT_TRUE(contains(message, "ulimit -Hn")) << message;
  EXPECT_EQ(ask("leases")["leases"].size(), leases.size()) << "it still answers";
  for (const io::Lease& lease : leases) EXPECT_TRUE(lease.alive());
  leases.pop_back();
  std::optional<io::Lease> another;  // brdmad closes the lease's descriptors when it has detected its end
  EXPECT_TRUE(ask_until("leases", [&another](const json&) {
    auto lease = io::acquire_lease(loopback_device());
    if (lease) another = std::move(lease).value();
    return another.has_value();
  }));
}

// Holds so many descriptors of this user in flight, until it is destroyed.
class Underway {
 public:
  explicit Underway(std::size_t count) {
    constexpr std::size_t kAtOnce = 250;  // the kernel takes 253
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
    sending_.reset(ends[0]);
    receiving_.reset(ends[1]);
    const std::vector<int> same(kAtOnce, sending_.get());
    const std::array<std::byte, 1> byte{};
    for (; count > 0; count -= std::min(count, kAtOnce)) {
      EXPECT_EQ(io::send_with_descriptors(sending_.get(), byte, std::span(same).first(std::min(count, kAtOnce))), 1);
    }
  }

 private:
  io::FileDescriptor sending_, receiving_;
};

// Descriptors in other sockets of this user count too, at every socket that a descriptor passes.
TEST_F(DaemonTest, WhoseUserHasTooManyDescriptorsUnderwayIsRefused) {
  constexpr rlim_t kFew = 640;
  Child poor([] {
    const rlimit files{kFew, kFew};
    if (::setrlimit(RLIMIT_NOFILE, &files) != 0) return 1;
    (void)::prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE);
    return run_brdmad();
  });
  ASSERT_EQ(poor.join(), 0);
  raise_files();
  const auto refused = [] {
    const Underway many(kFew + 1);
    const std::string message = lease_refusal(ETOOMANYREFS);
    EXPECT_TRUE(contains(message, "keep as many open files in sockets as brdmad may have (640)")) << message;
  };
  refused();  // with the table of what programs use
  const auto lease = io::acquire_lease(loopback_device());
  if (!lease && lease.reason().error == ETOOMANYREFS) GTEST_SKIP() << "other daemons of this user have not ended yet";
  ASSERT_TRUE(lease) << lease.reason().message;
  refused();  // with the lease itself
  EXPECT_TRUE(lease.value().alive());
}

// Sockets that a step of the group has opened outlive the worker that opened them.
TEST_F(DaemonTest, SlotsBeyondTheFirstOutliveTheWorker) {
  raise_files();
  std::vector<io::Lease> leases;
  for (int i = 0; i < 300; ++i) leases.push_back(lease_or_die());
  for (int round = 0; round < 2; ++round) {
    const pid_t worker = worker_pid();
    ASSERT_EQ(::kill(worker, SIGKILL), 0);
    ASSERT_TRUE(ask_until("version", [worker](const json& answer) { return answer["worker_pid"] != worker; }));
    for (int i = 0; i < 300; ++i) leases.push_back(lease_or_die());
  }
  std::set<std::uint32_t> slots;
  for (const io::Lease& lease : leases) {
    EXPECT_TRUE(slots.insert(lease.slot).second);
    send_to_qpn(1u << lease.slot_bits | lease.slot, false);
    ASSERT_EQ(receive_all(lease.socket_fd, 1).size(), 1u) << lease.slot;
  }
}

}  // namespace
}  // namespace brdma::test
