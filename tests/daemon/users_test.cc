// brdmad --system: one user's actions, in any number, leave the others served.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "answering_program.h"
#include "daemon_fixture.h"
#include "io/daemon/daemon_client.h"
#include "io/daemon/daemon_connection.h"
#include "io/daemon/lease_protocol.h"
#include "io/udp/receive_socket.h"
#include "system_daemon.h"

namespace brdma::test {
namespace {

constexpr std::size_t kWorkerBytesMax = 64u << 20;

TEST_F(SystemDaemonTest, AUserAtHisQuotaLeavesAnotherAndRootServed) {
  start({"--user-leases", "20"});
  if (IsSkipped()) return;
  EXPECT_EQ(as_user(kAlice,
                    [] {
                      for (int i = 0; i < 300; ++i) {
                        if (lease_or_die().socket_fd < 0) return 1;
                      }
                      return 0;
                    }),
            0)
      << "one after another";
  Gate full, stop;
  Child alice([&] {
    stop.signal_end.reset();
    if (!become(kAlice)) return 100;
    std::vector<io::Lease> leases;
    std::string message;
    for (int i = 0; i < 300; ++i) {
      auto lease = io::acquire_lease(loopback_device());
      if (lease) {
        leases.push_back(std::move(lease).value());
      } else {
        message = lease.reason().message;
      }
    }
    full.signal_end.reset();
    if (leases.size() != 20 || !contains(message, "--user-leases")) return 1;
    return stop.wait() ? 0 : 2;
  });
  full.open();
  ASSERT_TRUE(full.wait());
  EXPECT_EQ(as_user(kBob, [] { return lease_or_die().socket_fd >= 0 ? 0 : 1; }), 0);
  EXPECT_GE(lease_or_die().socket_fd, 0);
  stop.open();
  EXPECT_EQ(alice.join(), 0);
}

// A user's own right is net.core.rmem_max, less than brdmad's: asking for more must not shrink what it gave.
TEST_F(SystemDaemonTest, AUsersSocketKeepsTheBufferThatBrdmadGave) {
  start({});
  if (IsSkipped()) return;
  EXPECT_EQ(as_user(kAlice,
                    [] {
                      const io::Lease lease = lease_or_die();
                      int given = 0;
                      socklen_t size = sizeof(given);
                      ::getsockopt(lease.socket_fd, SOL_SOCKET, SO_RCVBUF, &given, &size);
                      const io::ReceiveSocket receiver{lease.socket_fd, lease.dual_stack};
                      std::printf("%d given, %u kept\n", given, receiver.buffer_bytes());
                      return given >= 16 << 20 && receiver.buffer_bytes() >= static_cast<unsigned>(given) ? 0 : 1;
                    }),
            0);
}

std::string status_line(pid_t pid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  std::string word, value;
  while (file >> word && word != name) std::getline(file, value);
  file >> value;
  return value;
}

// CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK, CAP_SYS_RESOURCE, CAP_BPF: numbers 12, 13, 14, 24, 39.
TEST_F(SystemDaemonTest, KeepsOnlyTheRightsThatItNeeds) {
  start({});
  if (IsSkipped()) return;
  EXPECT_GE(lease_or_die().socket_fd, 0);
  constexpr std::uint64_t kNeeded = 1ull << 12 | 1ull << 13 | 1ull << 14 | 1ull << 24 | 1ull << 39;
  for (const pid_t pid : {holder_pid(), worker_pid()}) {
    for (const char* set : {"CapPrm:", "CapEff:"})
      EXPECT_EQ(std::stoull(status_line(pid, set), nullptr, 16) & ~kNeeded, 0u) << set;
    EXPECT_EQ(status_line(pid, "NoNewPrivs:"), "1");
#ifdef BRDMA_HAS_SECCOMP
    EXPECT_EQ(status_line(pid, "Seccomp:"), "2") << "a filter of system calls";
#endif
  }
}

// 0, or the errno value of the connection to that port of the host.
int connect_error(int fd, int family, const char* address, std::uint16_t port) {
  sockaddr_in6 six{};
  sockaddr_in four{};
  six.sin6_family = AF_INET6;
  four.sin_family = AF_INET;
  six.sin6_port = four.sin_port = htons(port);
  ::inet_pton(family, address, family == AF_INET ? static_cast<void*>(&four.sin_addr) : &six.sin6_addr);
  const auto* const to =
      family == AF_INET ? reinterpret_cast<const sockaddr*>(&four) : reinterpret_cast<const sockaddr*>(&six);
  return ::connect(fd, to, family == AF_INET ? sizeof four : sizeof six) == 0 ? 0 : errno;
}

int detach_error(int fd) {
  const int one = 1;
  return ::setsockopt(fd, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &one, sizeof one) == 0 ? 0 : errno;
}

// Number of successes of four ways to take others' packets, or their steering.
int count_of_ways(int fd) {
  int ways = detach_error(fd) != EPERM ? 1 : 0;
  for (const char* address : {"::ffff:127.0.0.1", "::1"})
    ways += connect_error(fd, AF_INET6, address, 4000) == 0 ? 1 : 0;
  return ways + (connect_error(fd, AF_INET, "127.0.0.1", 4000) == 0 ? 1 : 0);
}

TEST_F(SystemDaemonTest, ALesseeTakesNoPacketsOfOthers) {
  start({});
  if (IsSkipped()) return;
  const io::Lease victim = lease_or_die();
  const auto attack = [] {
    const io::Lease lease = lease_or_die();
    const io::FileDescriptor other{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    if (connect_error(other.get(), AF_INET, "127.0.0.1", 4000) != 0) return 101;
    return count_of_ways(lease.socket_fd);
  };
  EXPECT_EQ(as_user(kAlice, attack), 0);
  send_to_qpn(victim.slot, /*ipv6=*/false);
  EXPECT_EQ(receive_all(victim.socket_fd, 1).size(), 1u);
}

TEST_F(SystemDaemonTest, UsersWhoTrustEachOtherAreNotKeptApart) {
  start({"--users-trust-each-other"});
  if (IsSkipped()) return;
  EXPECT_EQ(as_user(kAlice, [] { return count_of_ways(lease_or_die().socket_fd); }),
            3);  // one connection excludes another
}

io::FileDescriptor connect_raw() {
  auto connected = io::connect_to_daemon(std::chrono::steady_clock::now() + 100ms);
  return connected ? std::move(connected).value() : io::FileDescriptor{};
}

void raise_files() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

void set_blocking(int fd, bool blocking) { ::fcntl(fd, F_SETFL, blocking ? 0 : O_NONBLOCK); }

// Errors are expected here. Until it is killed.
int many_connections() {
  raise_files();
  std::vector<io::FileDescriptor> all;
  for (;;) {
    all.push_back(connect_raw());
    if (all.size() == 4000) all.clear();
  }
}

int half_open_requests() {
  raise_files();
  const std::string half = "{\"query\":\"" + std::string(60'000, 'a');
  std::vector<io::FileDescriptor> all;
  for (;;) {
    all.push_back(connect_raw());
    (void)!::send(all.back().get(), half.data(), half.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (all.size() == 4000) all.clear();
  }
}

int many_requests() {
  std::string questions;
  for (int i = 0; i < 1000; ++i) questions += "{\"query\":\"statistics\"}\n{\"query\":\"resource\",\"what\":\"qp\"}\n";
  std::vector<io::FileDescriptor> all;
  for (int i = 0; i < 50; ++i) all.push_back(connect_raw());
  std::array<char, 65536> answers{};
  for (;;) {
    for (io::FileDescriptor& fd : all) {
      if (::send(fd.get(), questions.data(), questions.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN)
        fd = connect_raw();
      (void)!::recv(fd.get(), answers.data(), answers.size(), MSG_DONTWAIT);
    }
  }
}

// Programs with a lease that send arbitrary answers.
int answer_with(const std::string& begin, const std::string& part, std::size_t parts, const std::string& end) {
  std::vector<io::Lease> leases;
  std::vector<pollfd> polled;
  for (int i = 0; i < 8; ++i) {
    leases.push_back(lease_or_die());
    polled.push_back({leases.back().control_fd, POLLIN, 0});
  }
  for (;;) {
    ::poll(polled.data(), polled.size(), -1);
    for (const pollfd& fd : polled) {
      std::array<char, 4096> question{};
      const ssize_t got = ::recv(fd.fd, question.data(), question.size() - 1, MSG_DONTWAIT);
      if (got <= 0) continue;
      const char* const id = std::strstr(question.data(), "\"id\":");
      const std::string first =
          "\n{\"id\":" + (id != nullptr ? std::to_string(std::strtoull(id + 5, nullptr, 10)) : "1") + "," + begin;
      set_blocking(fd.fd, true);
      (void)!::send(fd.fd, first.data(), first.size(), MSG_NOSIGNAL);
      for (std::size_t i = 0; i < parts; ++i) (void)!::send(fd.fd, part.data(), part.size(), MSG_NOSIGNAL);
      (void)!::send(fd.fd, end.data(), end.size(), MSG_NOSIGNAL);
    }
  }
}

int nested_answers() {
  return answer_with("\"rows\":" + std::string(50'000, '[') + std::string(50'000, ']'), "", 0, "}\n");
}
int endless_answers() { return answer_with("\"rows\":[", std::string(1 << 16, ' '), 1 << 14, "\n"); }
int long_answers() {
  std::string many;
  for (int i = 0; i < 30'000; ++i) many += ",1";
  return answer_with("\"rows\":[1", many, 200, "]}\n");
}

struct Flood {
  const char* name;
  int (*body)();
  friend std::ostream& operator<<(std::ostream& out, const Flood& flood) { return out << flood.name; }
};

class Floods : public SystemDaemonTest, public testing::WithParamInterface<Flood> {};

std::size_t most_memory_of(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  }
  return 0;
}

// For some seconds: others are answered, by the same worker, within its memory.
TEST_P(Floods, LeaveTheOthersAnswered) {
  start({});
  if (IsSkipped()) return;
  const pid_t worker = worker_pid();
  Child alice([] { return become(kAlice) ? GetParam().body() : 100; });
  std::vector<std::chrono::milliseconds> took;
  const auto end = std::chrono::steady_clock::now() + 4s;
  while (std::chrono::steady_clock::now() < end) {
    const auto asked = std::chrono::steady_clock::now();
    ASSERT_TRUE(io::query_daemon({{"query", "version"}}).ok());
    took.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - asked));
    (void)io::query_daemon({{"query", "resource"}, {"what", "qp"}});  // as long as programs take to answer
  }
  EXPECT_EQ(as_user(kBob, [] { return lease_or_die().socket_fd >= 0 ? 0 : 1; }), 0);
  std::ranges::sort(took);
  std::printf("%zu answers, median %ld ms, longest %ld ms; worker's memory %zu MB\n", took.size(),
              static_cast<long>(took[took.size() / 2].count()), static_cast<long>(took.back().count()),
              most_memory_of(worker) >> 20);
  EXPECT_LE(took[took.size() / 2], 100ms);
  EXPECT_LE(took.back(), 10s) << "a busy machine may have the worker wait";
  EXPECT_EQ(worker_pid(), worker) << "the worker died of it";
  EXPECT_LE(most_memory_of(worker), kWorkerBytesMax);
}

INSTANTIATE_TEST_SUITE_P(System, Floods,
                         testing::Values(Flood{"Connections", many_connections},
                                         Flood{"HalfRequests", half_open_requests}, Flood{"Requests", many_requests},
                                         Flood{"NestedAnswers", nested_answers},
                                         Flood{"EndlessAnswers", endless_answers}, Flood{"LongAnswers", long_answers}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace brdma::test
