// Holder and worker are killed at once. The programs continue: their sockets receive, and one of them starts a daemon
// that adopts the dead one's descriptors.
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <set>

#include "daemon_fixture.h"
#include "io/daemon/daemon_client.h"
#include "io/daemon/daemon_start.h"
#include "io/daemon/revival.h"
#include "io/management/control_thread.h"

namespace brdma::test {
namespace {

// A program's part beside its lease: the thread that waits for brdmad's messages and its end.
class Program {
 public:
  Program() : lease_(lease_or_die()) {
    control_.at_hangup([this] { told_.signal_end.reset(); });
    control_.survive(lease_.take_revival());
    EXPECT_TRUE(control_.start(lease_.control_fd, [](std::string_view) { return std::string{}; }));
  }
  [[nodiscard]] io::Lease& lease() { return lease_; }
  [[nodiscard]] bool is_told_within(std::chrono::milliseconds at_most) {
    return wait_for_event(told_.wait_end.get(), POLLIN, at_most);
  }
  [[nodiscard]] bool receives() {
    send_to_qpn(0x4000 | lease_.slot, false);
    return receive_all(lease_.socket_fd, 1).size() == 1;
  }

 private:
  io::Lease lease_;
  Gate told_;
  io::ControlThread control_;
};

// Kills the two processes, as the end of a pid namespace or cgroup does. The holder first: nobody forks a new worker.
void kill_daemon(pid_t holder, pid_t worker) {
  ASSERT_GT(holder, 0);
  ASSERT_GT(worker, 0);
  const io::FileDescriptor first = watch_process(holder), second = watch_process(worker);
  ASSERT_EQ(::kill(holder, SIGKILL), 0);
  ::kill(worker, SIGKILL);
  ASSERT_TRUE(ends_within(first));
  ASSERT_TRUE(ends_within(second));
}

json entry_of(const json& leases, std::uint32_t slot) {
  for (const json& each : leases["leases"]) {
    if (each["slot"] == slot) return each;
  }
  return {};
}

TEST_F(DaemonTest, ProgramsGoOnWhenTheDaemonIsKilled) {
  Program first, second;
  first.lease().statistics->add(Counter::kSentPackets, 11);
  const json before = ask("leases");
  std::set<pid_t> holders;
  for (int round = 0; round < 3; ++round) {
    const pid_t holder = holder_pid();
    holders.insert(holder);
    kill_daemon(holder, worker_pid());
    EXPECT_TRUE(first.receives()) << "while there is no daemon, or a new one is at work";
    ASSERT_TRUE(ask_until("version", [holder](const json& answer) { return answer["pid"] != holder; }));
    EXPECT_TRUE(first.receives());
    EXPECT_TRUE(second.receives());
    EXPECT_EQ(ask("leases"), before) << "the same leases, slots and numbers";
  }
  EXPECT_EQ(holders.size(), 3u);
  EXPECT_TRUE(first.lease().alive());
  EXPECT_TRUE(second.lease().alive());
  EXPECT_FALSE(first.is_told_within(0ms));
  EXPECT_EQ(ask("statistics")["devices"][0]["counters"]["sent_pkts"], 11);
  Program third;
  EXPECT_TRUE(third.receives());
  EXPECT_EQ(std::set({first.lease().slot, second.lease().slot, third.lease().slot}).size(), 3u);
  EXPECT_EQ(entry_of(ask("leases"), third.lease().slot)["lease_id"], 3) << "numbers go on";
}

// A lease that ends while there is no daemon is ended by the next one, which has the totals too.
TEST_F(DaemonTest, ALeaseThatEndsBetweenTwoDaemonsIsEndedByTheSecond) {
  Program survivor;
  Gate leased;
  Child program([&] {
    const io::Lease lease = lease_or_die();
    lease.statistics->add(Counter::kRetransmittedFfm, 7);
    leased.open();
    ::pause();
    return 0;
  });
  leased.open();
  ASSERT_TRUE(leased.wait());
  const pid_t holder = holder_pid(), worker = worker_pid();
  // In the order in which a container ends: the program, then the daemon, with no time between.
  ::kill(program.pid(), SIGKILL);
  kill_daemon(holder, worker);
  ASSERT_TRUE(leases_become(1));
  EXPECT_EQ(ask("statistics")["devices"][0]["counters"]["retransmitted_by_ffm"], 7);
  EXPECT_TRUE(survivor.receives());
}

// Leases come and go, and hundreds of them stay, while the daemon is killed again and again.
TEST_F(DaemonTest, NothingIsLostWhenDaemonsDieWhileLeasesComeAndGo) {
  Program steady;
  constexpr int kStaying = 100;  // more than are written to the vault one by one
  Gate stop, stays;
  std::vector<Child> children;
  children.emplace_back([&] {
    stop.signal_end.reset();
    std::vector<std::unique_ptr<Program>> programs;
    for (int i = 0; i < kStaying; ++i) programs.push_back(std::make_unique<Program>());
    stays.open();
    if (!stop.wait()) return 2;
    return std::ranges::all_of(programs, [](const auto& each) { return each->lease().alive() && each->receives(); })
               ? 0
               : 3;
  });
  stays.open();
  ASSERT_TRUE(stays.wait());
  for (int i = 0; i < 3; ++i) {
    children.emplace_back([&] {
      stop.signal_end.reset();
      for (int round = 0; round < 100'000 && !wait_for_event(stop.wait_end.get(), POLLIN, 0ms); ++round) {
        if (lease_or_die().socket_fd < 0) return 1;
      }
      return 0;
    });
  }
  for (int round = 0; round < 8; ++round) {
    const json version = ask("version");
    kill_daemon(version["pid"], version["worker_pid"]);
    ASSERT_TRUE(ask_until("version", [&](const json& answer) { return answer["pid"] != version["pid"]; }));
  }
  EXPECT_GE(ask("leases")["leases"].size(), 101u);
  stop.open();
  for (Child& child : children) EXPECT_EQ(child.join(), 0);
  EXPECT_TRUE(steady.lease().alive());
  EXPECT_TRUE(steady.receives());
  EXPECT_TRUE(leases_become(1));
}

// By a signal, as a service manager ends all processes of a service: others still need it.
TEST_F(DaemonTest, ASignalEndsTheDaemonAndNotTheLeases) {
  Program program;
  const pid_t holder = holder_pid();
  ASSERT_EQ(::kill(holder, SIGTERM), 0);
  ASSERT_TRUE(ask_until("version", [holder](const json& answer) { return answer["pid"] != holder; }));
  EXPECT_EQ(ask("leases")["leases"].size(), 1u);
  EXPECT_TRUE(program.receives());
}

TEST_F(DaemonTest, AStoppedDaemonIsNotStartedAgain) {
  Program first, second;
  const io::FileDescriptor process = watch_process(holder_pid());
  ASSERT_EQ(ask(json{{"query", "shutdown"}, {"force", true}})["leases_ended"], 2);
  EXPECT_TRUE(first.is_told_within(kPatience));
  EXPECT_TRUE(second.is_told_within(kPatience));
  EXPECT_TRUE(ends_within(process));
  EXPECT_FALSE(first.lease().alive());
  const auto nobody = io::query_daemon({{"query", "version"}});
  ASSERT_FALSE(nobody.ok());
  EXPECT_EQ(nobody.reason().error, ENOENT);
}

// No daemon can start: then it is as if brdmad had closed the connection, and the port is free.
TEST_F(DaemonTest, ProgramsThatCannotStartADaemonAreNotified) {
  auto program = std::make_unique<Program>();
  const json version = ask("version");
  ::setenv("BRDMA_DAEMON", "/nonexistent/brdmad", 1);
  kill_daemon(version["pid"], version["worker_pid"]);
  EXPECT_FALSE(program->is_told_within(1s)) << "given up at once";
  EXPECT_TRUE(program->is_told_within(kPatience));
  EXPECT_FALSE(program->lease().alive());
  program->lease().abandon();
  ::setenv("BRDMA_DAEMON", BRDMAD_PATH, 1);
  EXPECT_GE(lease_or_die().socket_fd, 0);
}

// Another user's daemon would read this one's packets. Nor does one start beside a live one.
TEST_F(DaemonTest, OnlyTheSameUserAdopts) {
  io::Lease lease = lease_or_die();
  const json version = ask("version");
  ASSERT_GE(lease.vault_fd, 0);
  EXPECT_EQ(io::start_daemon(BRDMAD_PATH, std::chrono::steady_clock::now() + kPatience, lease.vault_fd).error, 0);
  EXPECT_EQ(holder_pid(), version["pid"]) << "a second one beside the first";
  kill_daemon(version["pid"], version["worker_pid"]);
  if (can_change_user()) {
    Child stranger([&] {
      if (::setgroups(0, nullptr) != 0 || ::setresgid(1234, 1234, 1234) != 0 || ::setresuid(1234, 1234, 1234) != 0)
        return 1;
      if (::access(BRDMAD_PATH, X_OK) != 0) return 0;
      return io::start_daemon(BRDMAD_PATH, std::chrono::steady_clock::now() + kPatience, lease.vault_fd).error == EPERM
                 ? 0
                 : 2;
    });
    EXPECT_EQ(stranger.join(), 0);
  }
  const ContextError adopted =
      io::start_daemon(BRDMAD_PATH, std::chrono::steady_clock::now() + kPatience, lease.vault_fd);
  EXPECT_EQ(adopted.error, 0) << adopted.message;
  EXPECT_EQ(ask("leases")["leases"].size(), 1u);
  EXPECT_TRUE(lease.alive());
}

// Programs of several users share a system daemon: none of them gets descriptors of the others.
TEST_F(DaemonTest, ProgramsOfASystemDaemonDoNotHaveTheVault) {
  if (!can_change_user()) GTEST_SKIP() << "only root runs a system daemon";
  ASSERT_EQ(run_brdmad("--system"), 0);
  const io::Lease lease = lease_or_die();
  EXPECT_EQ(lease.vault_fd, -1);
  EXPECT_GE(lease.lifeline_fd, 0);
}

}  // namespace
}  // namespace brdma::test
