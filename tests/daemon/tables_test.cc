// brdmad --system: the table of a device's limits is readable and writable for its user only; and it outlives the
// daemon.
#include <signal.h>

#include <cstdint>

#include "device/device_use.h"
#include "system_daemon.h"

namespace brdma::test {
namespace {

std::uint64_t pairs_of_others(const io::Lease& lease) {
  return DeviceUse{*lease.device_use, lease.slot}.of_others().queue_pairs;
}

void have_pairs(const io::Lease& lease, std::uint64_t count) {
  DeviceUse{*lease.device_use, lease.slot}.set_queue_pairs(count);
}

// Number of used rows, except the lease's.
int rows_of_others(const io::Lease& lease) {
  int rows = 0;
  for (std::size_t i = 0; i < lease.device_use->rows.size(); ++i) {
    const UseRow& row = lease.device_use->rows[i];
    if (i != lease.slot && (row.device | row.queue_pairs | row.state_bytes | row.reserved) != 0) ++rows;
  }
  return rows;
}

void write_all(const io::Lease& lease) {
  for (UseRow& row : lease.device_use->rows) row = {lease.device_use->rows[lease.slot].device, ~0ull, ~0ull, ~0ull};
  lease.device_use->rows_end = ~0ull;
}

// A program of that user with `pairs` queue pairs, for as long as this lives. It reports the others' numbers.
class ProgramOf : public Companion {
 public:
  ProgramOf(uid_t uid, std::uint64_t pairs)
      : Companion([&](Gate& ready, const Gate& stop) {
          if (!become(uid)) return 100;
          const io::Lease lease = lease_or_die();
          have_pairs(lease, pairs);
          ready.open();
          if (!stop.wait()) return 101;
          return lease.alive() ? static_cast<int>(pairs_of_others(lease)) : 102;
        }) {}
};

int pairs_seen_by(uid_t uid) {
  return as_user(uid, [] { return static_cast<int>(pairs_of_others(lease_or_die())); });
}

TEST_F(SystemDaemonTest, NoUserReadsOrWritesWhatAnotherHasOfADevice) {
  start({});
  if (IsSkipped()) return;
  const io::Lease roots = lease_or_die();
  have_pairs(roots, 7);
  ProgramOf bobs{kBob, 5};
  EXPECT_EQ(as_user(kAlice,
                    [] {
                      const io::Lease lease = lease_or_die();
                      const int rows = rows_of_others(lease);
                      write_all(lease);
                      return rows;
                    }),
            0)
      << "she sees what others have";
  EXPECT_EQ(pairs_of_others(roots), 0u);
  EXPECT_EQ(roots.device_use->rows[roots.slot].queue_pairs, 7u);
  EXPECT_EQ(pairs_seen_by(kBob), 5) << "programs of one user count together";
  EXPECT_EQ(pairs_seen_by(kAlice), 0) << "with her last program went what it wrote";
  EXPECT_EQ(bobs.end(), 0);
}

TEST_F(SystemDaemonTest, AUsersTableOutlivesTheWorker) {
  start({});
  if (IsSkipped()) return;
  const io::Lease roots = lease_or_die();
  have_pairs(roots, 7);
  ProgramOf alices{kAlice, 3}, bobs{kBob, 5};
  for (int round = 0; round < 2; ++round) {
    const pid_t worker = worker_pid();
    ASSERT_EQ(::kill(worker, SIGKILL), 0);
    ASSERT_TRUE(ask_until("version", [worker](const json& answer) { return answer["worker_pid"] != worker; }));
    EXPECT_EQ(pairs_seen_by(kAlice), 3);
    EXPECT_EQ(pairs_seen_by(kBob), 5);
    EXPECT_EQ(pairs_seen_by(0), 7);
  }
  EXPECT_EQ(bobs.end(), 0);
  EXPECT_EQ(alices.end(), 0);
  ASSERT_TRUE(leases_become(1));
  EXPECT_EQ(pairs_seen_by(kBob), 0);
}

TEST_F(DaemonTest, AUsersTableOutlivesTheSystemDaemon) {
  if (!can_change_user()) GTEST_SKIP() << "only root has other users' ids to try with";
  ServiceManager manager;
  ASSERT_NO_FATAL_FAILURE(manager.start());
  ProgramOf alices{kAlice, 3}, bobs{kBob, 5};
  for (int round = 0; round < 2; ++round) {
    ASSERT_NO_FATAL_FAILURE(manager.kill_and_start_again());
    EXPECT_EQ(ask("leases")["leases"].size(), 2u);
    EXPECT_EQ(pairs_seen_by(kAlice), 3);
    EXPECT_EQ(pairs_seen_by(kBob), 5);
    EXPECT_EQ(pairs_seen_by(0), 0);
  }
  EXPECT_EQ(bobs.end(), 0);
  EXPECT_EQ(alices.end(), 0);
  ASSERT_EQ(ask(json{{"query", "shutdown"}, {"force", true}})["shutdown"], true);
}

}  // namespace
}  // namespace brdma::test
