// Leases in a program's view: acquired, used, given back, refused.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <set>

#include "daemon_fixture.h"
#include "io/daemon/daemon_client.h"
#include "io/daemon/lease_protocol.h"
#include "system_daemon.h"

namespace brdma::test {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(DaemonTest, FirstLeaseStartsTheDaemonAndSaysWhoHasIt) {
  const io::Lease lease = lease_or_die();
  ASSERT_GE(lease.socket_fd, 0);
  EXPECT_TRUE(lease.alive());
  EXPECT_TRUE(lease.dual_stack);
  EXPECT_EQ(lease.slot_bits, io::kSlotBits);
  EXPECT_GE(lease.slot, 2u);
  EXPECT_LT(lease.slot, 256u);
  ASSERT_NE(lease.statistics, nullptr);
  EXPECT_EQ(lease.statistics->get(Counter::kSentPackets), 0u);

  const json leases = ask("leases")["leases"];
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_EQ(leases[0]["pid"], ::getpid());
  EXPECT_EQ(leases[0]["comm"], program_invocation_short_name);
  EXPECT_EQ(leases[0]["device"], "brdma_lo");
  EXPECT_EQ(leases[0]["slot"], lease.slot);
  EXPECT_EQ(leases[0]["uid"], ::geteuid());
}

// The daemon must stay invisible to the program that happens to start it.
TEST_F(DaemonTest, StartingTheDaemonLeavesTheApplicationAlone) {
  static volatile sig_atomic_t signals_seen;
  signals_seen = 0;
  struct sigaction count {};
  count.sa_handler = [](int) { signals_seen = signals_seen + 1; };
  ASSERT_EQ(::sigaction(SIGCHLD, &count, nullptr), 0);
  std::array<int, 2> leaky{};
  ASSERT_EQ(::pipe(leaky.data()), 0);  // not close-on-exec: as careless programs have them
  ::setenv("LD_PRELOAD", "", 1);

  io::Lease lease = lease_or_die();
  EXPECT_EQ(signals_seen, 0);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  // Nobody else has the write end: closing ours ends the stream.
  ::close(leaky[1]);
  char byte = 0;
  EXPECT_TRUE(wait_for_event(leaky[0], POLLIN | POLLHUP));
  EXPECT_EQ(::read(leaky[0], &byte, 1), 0);
  ::close(leaky[0]);

  const std::string process = "/proc/" + std::to_string(holder_pid());
  std::ifstream environment(process + "/environ");
  const std::string text{std::istreambuf_iterator<char>(environment), {}};
  EXPECT_TRUE(contains(text, "BRDMA_DAEMON="));
  EXPECT_FALSE(contains(text, "LD_PRELOAD"));
  EXPECT_EQ(::getsid(holder_pid()) == ::getsid(0), false);
  std::array<char, 64> target{};
  ASSERT_GT(::readlink((process + "/cwd").c_str(), target.data(), target.size()), 0);
  EXPECT_STREQ(target.data(), "/");
  ::unsetenv("LD_PRELOAD");
  ::signal(SIGCHLD, SIG_DFL);
}

TEST_F(DaemonTest, AFreedSlotRestsBeforeItIsUsedAgain) {
  std::uint32_t first = 0;
  {
    const io::Lease lease = lease_or_die();
    first = lease.slot;
  }
  ASSERT_TRUE(leases_become(0));
  std::set<std::uint32_t> others;
  for (int i = 0; i < 63; ++i) {
    const io::Lease lease = lease_or_die();
    others.insert(lease.slot);
  }
  EXPECT_GE(others.size(), 60u) << "an end that the daemon has not noticed yet frees nothing";
  EXPECT_EQ(others.count(first), 0u);
  for (int i = 0; i < 100 && others.count(first) == 0; ++i) {
    const io::Lease lease = lease_or_die();
    others.insert(lease.slot);
  }
  EXPECT_EQ(others.count(first), 1u);
  EXPECT_LE(others.size(), 100u) << "programs one after another go round";
}

// A child of the next test: waits at the gate, leases, reports its slot, waits for the end.
int lease_and_report(Gate& start, Gate& finish, int report) {
  start.signal_end.reset();
  finish.signal_end.reset();
  if (!start.wait()) return 1;
  const io::Lease lease = lease_or_die();
  const auto slot = static_cast<std::uint8_t>(lease.slot);  // there are few
  if (lease.socket_fd < 0 || ::write(report, &slot, 1) != 1) return 2;
  return finish.wait() ? 0 : 3;
}

TEST_F(DaemonTest, ManyProcessesThatStartAtOnceAllGetALeaseFromOneDaemon) {
  for (int round = 0; round < 5; ++round) {
    Gate start, finish, report;
    std::vector<Child> children;
    for (int i = 0; i < 12; ++i) {
      children.emplace_back([&] { return lease_and_report(start, finish, report.signal_end.get()); });
    }
    start.open();
    std::set<std::uint8_t> slots;
    for (std::size_t i = 0; i < children.size(); ++i) {
      std::uint8_t slot = 0;
      ASSERT_TRUE(report.wait());
      ASSERT_EQ(::read(report.wait_end.get(), &slot, 1), 1);
      slots.insert(slot);
    }
    EXPECT_EQ(slots.size(), children.size());
    EXPECT_EQ(ask("leases")["leases"].size(), children.size());
    finish.open();
    for (Child& child : children) EXPECT_EQ(child.join(), 0);
    const io::FileDescriptor process = watch_process(holder_pid());
    EXPECT_EQ(ask(json{{"query", "shutdown"}, {"force", true}})["shutdown"], true);
    EXPECT_TRUE(ends_within(process));
  }
}

// A daemon that ends and a program that starts meet at every possible moment.
TEST_F(DaemonTest, ALeaseIsGotWhileTheDaemonBeforeIsEnding) {
  for (int round = 0; round < 20; ++round) {
    { const io::Lease lease = lease_or_die(); }
    ASSERT_TRUE(io::query_daemon({{"query", "shutdown"}, {"force", true}}).ok());
    const io::Lease lease = lease_or_die();
    ASSERT_GE(lease.socket_fd, 0) << "round " << round;
  }
}

// The daemon's end shows at once in poll(); a lease that ends affects nothing else.
TEST_F(DaemonTest, ShutdownNeedsForceWhileLeasesLive) {
  const io::Lease lease = lease_or_die();
  const auto refused = io::query_daemon({{"query", "shutdown"}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.reason().error, EBUSY);
  EXPECT_TRUE(lease.alive());
  EXPECT_EQ(ask(json{{"query", "shutdown"}, {"force", true}})["leases_ended"], 1);
  EXPECT_TRUE(wait_for_event(lease.control_fd, POLLRDHUP));
  EXPECT_FALSE(lease.alive());
}

TEST_F(DaemonTest, StartedByHandItReturnsWhenItServesAndCanBeStopped) {
  EXPECT_EQ(run_brdmad("--stop"), 1) << "there is none to stop";
  EXPECT_EQ(run_brdmad(), 0);
  EXPECT_EQ(ask("leases")["leases"].size(), 0u);
  EXPECT_EQ(run_brdmad(), 1) << "a second one";
  const io::FileDescriptor process = watch_process(holder_pid());
  {
    const io::Lease lease = lease_or_die();
    EXPECT_EQ(run_brdmad("--stop"), 1) << "a program uses it";
    EXPECT_TRUE(lease.alive());
    EXPECT_EQ(run_brdmad("--stop", "--force"), 0);
  }
  EXPECT_TRUE(ends_within(process));
  EXPECT_EQ(run_brdmad("--no-such-option"), 2);
  EXPECT_EQ(run_brdmad("--help"), 0);
}

TEST_F(DaemonTest, TheDaemonEndsWhenIdleAndNotBefore) {
  ::setenv("BRDMA_IDLE_SECONDS", "1", 1);
  io::Lease lease = lease_or_die();
  const io::FileDescriptor process = watch_process(holder_pid());
  EXPECT_FALSE(ends_within(process, 1500ms)) << "ended under a living lease";
  lease = io::Lease{};
  EXPECT_TRUE(ends_within(process));
  const auto nobody = io::query_daemon({{"query", "version"}});
  ASSERT_FALSE(nobody.ok());
  EXPECT_EQ(nobody.reason().error, ENOENT);
}

// The program may be a service of type notify, whose READY=1 is its own.
TEST_F(DaemonTest, ADaemonThatAProgramStartedDoesNotReportToItsServiceManager) {
  const ServiceManager manager;
  const io::Lease lease = lease_or_die();
  ASSERT_TRUE(leases_become(1));
  EXPECT_FALSE(manager.has_message());
}

}  // namespace
}  // namespace brdma::test
