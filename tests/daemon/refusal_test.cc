// Refusals: each names the problem and the remedy, and harms nobody else.
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <set>
#include <vector>

#include "base/datagram.h"
#include "daemon_fixture.h"
#include "io/daemon/daemon_client.h"
#include "io/daemon/daemon_connection.h"
#include "io/daemon/lease_protocol.h"

namespace brdma::test {
namespace {

constexpr uid_t kAlice = 61'001, kBob = 61'002;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Runs `body` as that user in a child; its exit code.
int as_user(uid_t uid, const std::function<int()>& body) {
  return Child([&] {
           if (::setgroups(0, nullptr) != 0 || ::setresgid(uid, uid, uid) != 0 || ::setresuid(uid, uid, uid) != 0) {
             return 100;
           }
           return testing::Test::HasFailure() ? 101 : body();
         })
      .join();
}

int code(bool good) { return good && !testing::Test::HasFailure() ? 0 : 1; }

TEST_F(DaemonTest, AnotherUsersRequestIsRefusedWithOwnerAndCure) {
  if (!can_change_user()) GTEST_SKIP() << "only root has other users' ids to try with";
  const io::Lease mine = lease_or_die();
  EXPECT_EQ(as_user(kAlice,
                    [] {
                      const std::string message = lease_refusal(EACCES);
                      EXPECT_TRUE(contains(message, "belongs to root (uid 0)")) << message;
                      EXPECT_TRUE(contains(message, "brdmad --system")) << message;
                      for (const char* query : {"leases", "statistics", "shutdown"}) {
                        const auto answer = io::query_daemon({{"query", query}, {"force", true}});
                        EXPECT_EQ(answer.ok() ? 0 : answer.reason().error, EACCES) << query;
                      }
                      return code(true);
                    }),
            0);
  EXPECT_TRUE(mine.alive());
}

// A daemon of another user could read its leases' packets: root sends it only a request to end.
TEST_F(DaemonTest, AUsersDaemonIsNotTrustedByOthers) {
  if (!can_change_user()) GTEST_SKIP() << "only root has other users' ids to try with";
  Gate leased, stop;
  Child alice([&] {
    stop.signal_end.reset();
    if (::setgroups(0, nullptr) != 0 || ::setresgid(kAlice, kAlice, kAlice) != 0 ||
        ::setresuid(kAlice, kAlice, kAlice) != 0) {
      return 100;
    }
    const io::Lease lease = lease_or_die();
    leased.open();
    return code(stop.wait() && lease.alive());
  });
  leased.open();
  ASSERT_TRUE(leased.wait());
  const std::string message = lease_refusal(EACCES);
  EXPECT_TRUE(contains(message, "belongs to uid 61001")) << message;
  EXPECT_EQ(as_user(kBob, [] { return code(!lease_refusal(EACCES).empty()); }), 0);
  stop.open();
  EXPECT_EQ(alice.join(), 0);
  // Root may end it, and the fixture does.
}

// A process that takes the daemon's name first could hand out its own sockets and read their packets.
TEST_F(DaemonTest, WhoOnlyPretendsToBeTheDaemonIsNotAsked) {
  if (!can_change_user()) GTEST_SKIP() << "only root has other users' ids to try with";
  Gate listening;
  Child impostor([&] {
    if (::setresuid(kAlice, kAlice, kAlice) != 0) return 100;
    const io::FileDescriptor listener = listen_as_daemon(1);
    if (!listener.valid()) return 1;
    listening.open();
    const io::FileDescriptor client{::accept(listener.get(), nullptr, nullptr)};
    char byte = 0;
    return ::read(client.get(), &byte, 1) == 0 ? 0 : 2;  // closed without a word
  });
  listening.open();
  ASSERT_TRUE(listening.wait());
  const std::string message = lease_refusal(EACCES);
  EXPECT_TRUE(contains(message, "belongs to uid 61001")) << message;
  EXPECT_EQ(impostor.join(), 0);
}

TEST_F(DaemonTest, TheSystemDaemonServesEveryUserAndKeepsThemApart) {
  if (!can_change_user()) GTEST_SKIP() << "only root has other users' ids to try with";
  Gate ready;
  const std::string ready_fd = std::to_string(ready.signal_end.get());
  Child daemon([&] {
    ::dup2(::open("/dev/null", O_WRONLY), STDERR_FILENO);  // its log
    ::execl(BRDMAD_PATH, "brdmad", "--system", "--foreground", "--ready-fd", ready_fd.c_str(), nullptr);
    return 127;
  });
  ASSERT_TRUE(ready.wait());
  // One lease after another, of two users: each rotates through some slots, which stay that user's.
  static constexpr int kRounds = 200;
  const auto slots_of = [](uid_t uid) {
    Gate report;
    const int result = as_user(uid, [&] {
      for (int i = 0; i < kRounds; ++i) {
        const io::Lease lease = lease_or_die();
        const auto slot = static_cast<std::uint16_t>(lease.slot);
        if (lease.socket_fd < 0 || ::write(report.signal_end.get(), &slot, sizeof slot) != sizeof slot) return 1;
      }
      return code(true);
    });
    EXPECT_EQ(result, 0);
    std::array<std::uint16_t, kRounds> slots{};
    report.open();
    EXPECT_EQ(::read(report.wait_end.get(), slots.data(), sizeof slots), static_cast<ssize_t>(sizeof slots));
    return std::set<std::uint16_t>(slots.begin(), slots.end());
  };
  const auto alices = slots_of(kAlice), bobs = slots_of(kBob);
  for (const std::uint16_t slot : alices) EXPECT_EQ(bobs.count(slot), 0u) << "slot " << slot << " was Alice's";
  for (const auto& each : {alices, bobs}) EXPECT_LE(each.size(), 100u) << "a slot of each program's, for good";
  EXPECT_EQ(as_user(kBob,
                    [] {
                      const auto refused = io::query_daemon({{"query", "shutdown"}, {"force", true}});
                      return code(!refused.ok() && refused.reason().error == EACCES);
                    }),
            0);
}

TEST_F(DaemonTest, ATakenPortIsNamedWithWhoHasIt) {
  const io::FileDescriptor taker{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  const int on = 1;  // even one that would share it
  ::setsockopt(taker.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kRoceUdpPort);
  ASSERT_EQ(::bind(taker.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const std::string message = lease_refusal(EADDRINUSE);
  EXPECT_TRUE(contains(message, "UDP port 4791 is taken")) << message;
  EXPECT_TRUE(contains(message, "(pid " + std::to_string(::getpid()) + ")")) << message;
  EXPECT_TRUE(contains(message, "brdma lab")) << message;
}

TEST_F(DaemonTest, AMissingProgramIsSaid) {
  ::setenv("BRDMA_DAEMON", "/nonexistent/brdmad", 1);
  const std::string message = lease_refusal(ENOENT);
  EXPECT_TRUE(contains(message, "/nonexistent/brdmad")) << message;
}

TEST_F(DaemonTest, AProgramThatIsNoDaemonIsSaid) {
  ::setenv("BRDMA_DAEMON", "/bin/true", 1);
  EXPECT_TRUE(contains(lease_refusal(EIO), "--foreground"));
}

TEST_F(DaemonTest, TooFewOpenFilesAreSaid) {
  Child child([] {
    const rlimit few{128, 128};
    if (::setrlimit(RLIMIT_NOFILE, &few) != 0) return 100;
    const std::string message = lease_refusal(EMFILE);
    return code(contains(message, "the limit is 128") && contains(message, "ulimit"));
  });
  EXPECT_EQ(child.join(), 0);
}

io::FileDescriptor connect_raw() {
  auto connected = io::connect_to_daemon(std::chrono::steady_clock::now() + kPatience);
  if (connected) return std::move(connected).value();
  ADD_FAILURE() << connected.reason().message;
  return {};
}

void send_raw(const io::FileDescriptor& fd, const std::string& bytes) {
  static_cast<void>(io::send_all(fd.get(), bytes.data(), bytes.size(), std::chrono::steady_clock::now() + kPatience));
}

bool closes(const io::FileDescriptor& fd) {
  if (!wait_for_event(fd.get(), POLLRDHUP)) return false;
  return true;
}

TEST_F(DaemonTest, NonsenseOnTheSocketHarmsNobody) {
  const io::Lease lease = lease_or_die();
  const pid_t worker = worker_pid();

  io::FileDescriptor garbage = connect_raw();
  send_raw(garbage, std::string(100, '\xA5'));
  EXPECT_TRUE(closes(garbage));

  io::FileDescriptor endless = connect_raw();
  send_raw(endless, "{" + std::string(io::kQueryLineMax + 4096, ' '));
  EXPECT_TRUE(closes(endless));

  io::FileDescriptor half = connect_raw();
  send_raw(half, "BRDL");
  half.reset();

  const json deep = json::parse(R"({"query":{"a":[1]}})");
  const auto refused = io::query_daemon(deep);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.reason().error, EINVAL);
  EXPECT_FALSE(io::query_daemon({{"query", "no such"}}).ok());
  EXPECT_FALSE(io::query_daemon(json::array({1})).ok());

  io::LeaseRequest newer;
  newer.version = io::kLeaseVersion + 1;
  io::FileDescriptor future = connect_raw();
  send_raw(future, std::string(reinterpret_cast<const char*>(&newer), sizeof newer));
  io::LeaseReply reply;
  ASSERT_TRUE(wait_for_event(future.get(), POLLIN));
  ASSERT_EQ(::recv(future.get(), &reply, sizeof reply, MSG_WAITALL), static_cast<ssize_t>(sizeof reply));
  EXPECT_EQ(reply.error, EPROTO);
  EXPECT_TRUE(contains(std::string(io::get_text(reply.message)), "speaks lease protocol 6, this program's library 7"));
  EXPECT_TRUE(contains(std::string(io::get_text(reply.message)), "brdmad --stop"));

  EXPECT_EQ(worker_pid(), worker) << "the worker died of it";
  EXPECT_TRUE(lease.alive());
}

// A user who is not served, and connects without end, does not keep others out.
TEST_F(DaemonTest, AStrangersConnectionsLeaveRoomForTheOwner) {
  if (!can_change_user()) GTEST_SKIP() << "only root has other users' ids to try with";
  ASSERT_EQ(run_brdmad(), 0);
  Gate connected, stop;
  Child stranger([&] {
    stop.signal_end.reset();
    if (::setresuid(kAlice, kAlice, kAlice) != 0) return 100;
    std::vector<io::FileDescriptor> all;
    for (int i = 0; i < 40; ++i) {
      all.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      std::memcpy(address.sun_path + 1, io::kDaemonName.data(), io::kDaemonName.size());
      const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + io::kDaemonName.size());
      if (::connect(all.back().get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return 1;
    }
    connected.open();
    return stop.wait() ? 0 : 2;
  });
  connected.open();
  ASSERT_TRUE(connected.wait());
  EXPECT_TRUE(ask_until("statistics", [](const json& answer) { return answer["connections_refused"] == 40 - 16; }));
  EXPECT_GE(lease_or_die().socket_fd, 0);
  stop.open();
  EXPECT_EQ(stranger.join(), 0);
}

// Names that a client made up must not break the daemon's JSON.
TEST_F(DaemonTest, NamesThatAreNoTextAreShownAllTheSame) {
  DeviceInfo device = loopback_device();
  device.name = "\xFF\xFE\"\n";
  const auto lease = io::acquire_lease(device);
  ASSERT_TRUE(lease.ok());
  EXPECT_EQ(ask("leases")["leases"].size(), 1u);
  EXPECT_EQ(ask("statistics")["devices"].size(), 1u);
}

// A library with other counters gets its lease; its numbers are not shown under this library's names.
TEST_F(DaemonTest, ForeignStatisticsAreNotNamed) {
  const io::Lease starter = lease_or_die();
  io::LeaseRequest request;
  request.statistics_layout = 1;
  io::put_text(request.device, "brdma_x");
  const io::FileDescriptor connection = connect_raw();
  send_raw(connection, std::string(reinterpret_cast<const char*>(&request), sizeof request));
  ASSERT_TRUE(leases_become(2));
  for (const json& process : ask("statistics")["processes"]) {
    EXPECT_EQ(process["counters"].is_null(), process["device"] == "brdma_x");
  }
}

}  // namespace
}  // namespace brdma::test
