// Crash and survival: worker, holder, programs.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <set>

#include "control/statistics.h"
#include "daemon_fixture.h"
#include "trace/journal.h"

namespace brdma::test {
namespace {

json device_counters(const json& answer, const std::string& device) {
  for (const json& entry : answer["devices"]) {
    if (entry["device"] == device) return entry["counters"];
  }
  return json::object();
}

std::size_t open_descriptors(pid_t pid) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    ++count;
  }
  return count;
}

TEST_F(DaemonTest, LeasesOutliveTheWorker) {
  io::Lease first = lease_or_die(), second = lease_or_die();
  first.statistics->add(Counter::kSentPackets, 11);
  const pid_t holder = holder_pid();
  for (int round = 0; round < 3; ++round) {
    const pid_t worker = worker_pid();
    ASSERT_EQ(::kill(worker, SIGKILL), 0);
    // The next answer comes from a new worker: the listening socket is the holder's.
    ASSERT_TRUE(ask_until("version", [worker](const json& answer) { return answer["worker_pid"] != worker; }));
    EXPECT_EQ(holder_pid(), holder);
    EXPECT_TRUE(first.alive());
    EXPECT_TRUE(second.alive());
    EXPECT_EQ(ask("leases")["leases"].size(), 2u);
    send_to_qpn(0x4000 | second.slot, false);
    EXPECT_EQ(receive_all(second.socket_fd, 1).size(), 1u);
  }
  EXPECT_EQ(device_counters(ask("statistics"), "brdma_lo")["sent_pkts"], 11);
  // The new worker notices the end of leases that it did not grant, and keeps their statistics.
  const std::uint32_t freed = first.slot;
  first = io::Lease{};
  ASSERT_TRUE(leases_become(1));
  EXPECT_EQ(device_counters(ask("statistics"), "brdma_lo")["sent_pkts"], 11);
  EXPECT_NE(lease_or_die().slot, freed);
}

json events_after(std::uint64_t number) { return ask(json{{"query", "events"}, {"after", number}}); }

// Of a program that died all its events are there; of a worker that died, the number of its lost events is reported.
TEST_F(DaemonTest, EventsOutliveTheirProgramAndTheirLossIsReported) {
  io::Lease steady = lease_or_die();
  trace::Journal journal{*steady.events, *steady.statistics};
  const auto record = [&](std::uint64_t value) {
    journal.record(Instant::from_ns(1), 7, trace::EventType::kSettingsChanged, {value, 0, 0});
  };
  Child dying{[]() -> int {
    const io::Lease lease = lease_or_die();
    trace::Journal last_words{*lease.events, *lease.statistics};
    last_words.record(Instant::from_ns(1), 9, trace::EventType::kRetryExceeded, {1003, 0, 0});
    ::_exit(0);
  }};
  const pid_t dead = dying.pid();
  EXPECT_EQ(dying.join(), 0);
  ASSERT_TRUE(leases_become(1));
  record(1);
  record(2);
  const json before = events_after(0);
  ASSERT_EQ(before["events"].size(), 3u) << before;
  EXPECT_EQ(before["events"][0]["type"], "retry_exceeded");
  EXPECT_EQ(before["events"][0]["pid"], dead);
  EXPECT_EQ(before["missing"], 0);

  const pid_t worker = worker_pid();
  ASSERT_EQ(::kill(worker, SIGKILL), 0);
  ASSERT_TRUE(ask_until("version", [worker](const json& answer) { return answer["worker_pid"] != worker; }));
  record(3);
  const json since = events_after(before["newest"]);
  ASSERT_EQ(since["events"].size(), 2u) << "nothing twice, nothing new left out: " << since;
  EXPECT_EQ(since["events"][0]["type"], "events_lost");
  EXPECT_EQ(since["events"][0]["count"], 2);
  EXPECT_EQ(since["events"][0]["pid"], ::getpid());
  EXPECT_EQ(since["events"][1]["qp"], 3);
  EXPECT_EQ(since["missing"], 0);
  EXPECT_EQ(events_after(0)["missing"], 3) << "the dead program's among them";
}

// A program may write any time.
TEST_F(DaemonTest, AnEventsTimeIsBetweenTheMachinesStartAndNow) {
  using Limits = std::numeric_limits<std::int64_t>;
  const io::Lease lease = lease_or_die();
  trace::Journal journal{*lease.events, *lease.statistics};
  for (const std::int64_t when : {Limits::max(), Limits::min(), std::int64_t{0}})
    journal.record(Instant::from_ns(when), 7, trace::EventType::kSettingsChanged, {});
  const json events = events_after(0)["events"];
  ASSERT_EQ(events.size(), 3u) << events;
  const std::int64_t start = events[2].value("time_unix_ns", std::int64_t{0});
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  for (const json& event : events) {
    EXPECT_GE(event.value("time_unix_ns", std::int64_t{0}), start - 1'000'000'000) << event;
    EXPECT_LE(event.value("time_unix_ns", std::int64_t{0}), std::chrono::nanoseconds(now).count()) << event;
  }
}

// Grants, ends and crashes of the worker at every moment: every client gets an answer and nothing leaks.
TEST_F(DaemonTest, NothingIsLostWhenWorkersDieWhileLeasesComeAndGo) {
  ASSERT_EQ(run_brdmad(), 0);
  // Its connection, its page, and the table of its user.
  const std::size_t descriptors_with_one_lease = open_descriptors(holder_pid()) + 3;
  io::Lease steady = lease_or_die();
  Gate stop;
  std::vector<Child> children;
  for (int i = 0; i < 4; ++i) {
    children.emplace_back([&] {
      stop.signal_end.reset();
      for (int round = 0; round < 100'000 && !wait_for_event(stop.wait_end.get(), POLLIN, 0ms); ++round) {
        const io::Lease lease = lease_or_die();
        if (lease.socket_fd < 0) return 1;
      }
      return 0;
    });
  }
  for (int round = 0; round < 5; ++round) {
    const pid_t worker = worker_pid();
    ASSERT_GT(worker, 0);
    ASSERT_EQ(::kill(worker, SIGKILL), 0);
    ASSERT_TRUE(ask_until("version", [worker](const json& answer) { return answer["worker_pid"] != worker; }));
  }
  stop.open();
  for (Child& child : children) EXPECT_EQ(child.join(), 0);
  EXPECT_TRUE(steady.alive());
  EXPECT_TRUE(leases_become(1));
  EXPECT_EQ(ask("version")["worker_starts"], 6);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;  // the holder closes a moment after the answer
  while (open_descriptors(holder_pid()) != descriptors_with_one_lease && std::chrono::steady_clock::now() < deadline) {
  }
  EXPECT_EQ(open_descriptors(holder_pid()), descriptors_with_one_lease);
}

// A stopped daemon ends its leases; survival of a killed one is in adoption_test.cc.
TEST_F(DaemonTest, WhenTheDaemonEndsClientsKnowAndTheNextOpenStartsAnother) {
  io::Lease orphan = lease_or_die();
  const pid_t holder = holder_pid(), worker = worker_pid();
  const io::FileDescriptor worker_process = watch_process(worker);
  ASSERT_EQ(ask(json{{"query", "shutdown"}, {"force", true}})["shutdown"], true);
  ASSERT_TRUE(wait_for_event(orphan.control_fd, POLLRDHUP));
  EXPECT_FALSE(orphan.alive());
  EXPECT_TRUE(ends_within(worker_process)) << "a worker without holder lives on";

  // The orphan still has a socket of port 4791: acquire_lease() puts it aside, or no daemon could start.
  const io::Lease lease = lease_or_die();
  ASSERT_GE(lease.socket_fd, 0);
  EXPECT_NE(holder_pid(), holder);
  send_to_qpn(0x4000 | lease.slot, false);
  EXPECT_EQ(receive_all(lease.socket_fd, 1).size(), 1u);
  send_to_qpn(0x4000 | orphan.slot, false);  // the same slot number of the old daemon, maybe
  char byte = 0;
  EXPECT_EQ(::recv(orphan.socket_fd, &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
}

// One process waits on its orphaned socket while another starts the next daemon: the first must give way.
TEST_F(DaemonTest, AnAbandonedLeaseFreesThePortForOtherProcesses) {
  Gate leased, dead;
  Child other([&] {
    dead.signal_end.reset();
    io::Lease lease = lease_or_die();
    leased.open();
    if (!wait_for_event(lease.control_fd, POLLRDHUP)) return 1;
    lease.abandon();
    return dead.wait() ? 0 : 2;
  });
  leased.open();
  ASSERT_TRUE(leased.wait());
  ASSERT_EQ(ask(json{{"query", "shutdown"}, {"force", true}})["shutdown"], true);
  EXPECT_GE(lease_or_die().socket_fd, 0);
  dead.open();
  EXPECT_EQ(other.join(), 0);
}

TEST_F(DaemonTest, StatisticsOutliveAKilledProgram) {
  Gate leased;
  Child program([&] {
    const io::Lease lease = lease_or_die();
    lease.statistics->add(Counter::kRetransmittedFfm, 7);
    lease.statistics->add(DropReason::kBadIcrc, 3);
    leased.open();
    ::pause();
    return 0;
  });
  leased.open();
  ASSERT_TRUE(leased.wait());
  const json living = ask("statistics");
  ASSERT_EQ(living["processes"].size(), 1u);
  EXPECT_EQ(living["processes"][0]["pid"], program.pid());
  EXPECT_EQ(living["processes"][0]["counters"]["retransmitted_by_ffm"], 7);
  EXPECT_EQ(device_counters(living, "brdma_lo")["retransmitted_by_ffm"], 7);

  program.kill_and_reap();
  ASSERT_TRUE(leases_become(0));
  const json after = ask("statistics");
  EXPECT_TRUE(after["processes"].empty());
  EXPECT_EQ(device_counters(after, "brdma_lo")["retransmitted_by_ffm"], 7);
  EXPECT_EQ(device_counters(after, "brdma_lo")["drop_bad_icrc"], 3);
  Statistics parsed;
  ASSERT_TRUE(control::from_json(device_counters(after, "brdma_lo"), parsed));
  EXPECT_EQ(parsed.get(Counter::kRetransmittedFfm), 7u);
}

TEST_F(DaemonTest, ADescriptorsCopyInAForkedChildKeepsTheLease) {
  io::Lease lease = lease_or_die();
  Gate stop;
  Child child([&] {
    stop.signal_end.reset();
    return stop.wait() && lease.alive() ? 0 : 1;
  });
  lease = io::Lease{};
  EXPECT_EQ(ask("leases")["leases"].size(), 1u);
  stop.open();
  EXPECT_EQ(child.join(), 0);
  EXPECT_TRUE(leases_become(0));
}

}  // namespace
}  // namespace brdma::test
