#include "daemon_fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

#include "base/datagram.h"
#include "io/daemon/daemon_client.h"
#include "io/daemon/lease_protocol.h"
#include "private_network.h"

namespace brdma::test {

void DaemonTest::SetUp() {
  ::setenv("BRDMA_DAEMON", BRDMAD_PATH, 1);
  ::setenv("BRDMA_IDLE_SECONDS", "60", 1);
  ::setenv("HOME", "/nonexistent", 1);
  ::unsetenv("XDG_CONFIG_HOME");
  if (::access(BRDMAD_PATH, X_OK) != 0) GTEST_SKIP() << "this user may not execute " << BRDMAD_PATH;
  if (!enter_private_network()) GTEST_SKIP() << "no network namespace to be had";
}

void DaemonTest::TearDown() {
  const auto version = io::query_daemon({{"query", "version"}});
  if (!version) return;
  const io::FileDescriptor process = watch_process(version.value()["pid"]);
  const auto ended = io::query_daemon({{"query", "shutdown"}, {"force", true}});
  EXPECT_TRUE(ended.ok()) << ended.reason().message;
  EXPECT_TRUE(ends_within(process));
}

DeviceInfo loopback_device() {
  DeviceInfo device;
  device.name = "brdma_lo";
  device.netdev = "lo";
  return device;
}

io::Lease lease_or_die() {
  auto lease = io::acquire_lease(loopback_device());
  if (lease) return std::move(lease).value();
  ADD_FAILURE() << "errno " << lease.reason().error << ": " << lease.reason().message;
  return {};
}

std::string lease_refusal(int error) {
  const auto lease = io::acquire_lease(loopback_device());
  if (lease) {
    ADD_FAILURE() << "got a lease where errno " << error << " was expected";
    return {};
  }
  EXPECT_EQ(lease.reason().error, error) << lease.reason().message;
  return lease.reason().message;
}

json ask(const json& question) {
  const auto answer = io::query_daemon(question);
  if (answer) return answer.value();
  ADD_FAILURE() << question << ": errno " << answer.reason().error << ": " << answer.reason().message;
  return json::object();
}

json ask(const char* query) { return ask(json{{"query", query}}); }
pid_t holder_pid() { return ask("version").value("pid", -1); }
pid_t worker_pid() { return ask("version").value("worker_pid", -1); }

bool ask_until(const char* query, const std::function<bool(const json&)>& done) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    const auto answer = io::query_daemon({{"query", query}});
    if (answer && done(answer.value())) return true;
    ::sched_yield();
  }
  return false;
}

bool leases_become(std::size_t count) {
  return ask_until("leases", [count](const json& answer) { return answer["leases"].size() == count; });
}

bool wait_for_event(int fd, short events, std::chrono::milliseconds at_most) {
  pollfd poll_fd{fd, events, 0};
  int ready = 0;
  while ((ready = ::poll(&poll_fd, 1, static_cast<int>(at_most.count()))) < 0 && errno == EINTR) {
  }
  return ready > 0;
}

io::FileDescriptor watch_process(pid_t pid) {
  return io::FileDescriptor{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
}

bool ends_within(const io::FileDescriptor& process, std::chrono::milliseconds at_most) {
  return !process.valid() || wait_for_event(process.get(), POLLIN, at_most);
}

Child::Child(const std::function<int()>& body) : pid_(::fork()) {
  if (pid_ == 0) ::_exit(body());
}

Child::~Child() { kill_and_reap(); }
Child::Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

int Child::join() {
  int status = 0;
  if (pid_ <= 0 || !ends_within(watch_process(pid_)) || ::waitpid(pid_, &status, 0) != pid_) return 1000;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void Child::kill_and_reap() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

int run_brdmad(const char* option, const char* second) {
  return Child([&] {
           const int null = ::open("/dev/null", O_RDWR);
           for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
           ::execl(BRDMAD_PATH, "brdmad", option, second, nullptr);
           return 127;
         })
      .join();
}

Gate::Gate() {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) std::abort();
  wait_end.reset(ends[0]);
  signal_end.reset(ends[1]);
}

bool Gate::wait(std::chrono::milliseconds at_most) const { return wait_for_event(wait_end.get(), POLLIN, at_most); }

Companion::Companion(const std::function<int(Gate& ready, const Gate& stop)>& body)
    : child_([&] {
        stop_.signal_end.reset();
        return body(ready_, stop_);
      }) {
  ready_.open();
  EXPECT_TRUE(ready_.wait());
}

int Companion::end() {
  stop_.open();
  return child_.join();
}

io::FileDescriptor listen_as_daemon(int backlog) {
  io::FileDescriptor listener{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, io::kDaemonName.data(), io::kDaemonName.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + io::kDaemonName.size());
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return {};
  if (::listen(listener.get(), backlog) != 0) return {};
  return listener;
}

void send_to_qpn(std::uint32_t qpn, bool ipv6, unsigned segments, std::size_t bytes, bool udp_checksum) {
  std::vector<std::uint8_t> data(bytes * segments);
  for (unsigned i = 0; i < segments; ++i) {
    std::uint8_t* packet = data.data() + i * bytes;
    if (bytes > 7) {
      packet[5] = static_cast<std::uint8_t>(qpn >> 16);
      packet[6] = static_cast<std::uint8_t>(qpn >> 8);
      packet[7] = static_cast<std::uint8_t>(qpn);
    }
  }
  const io::FileDescriptor fd{::socket(ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  const int segment = static_cast<int>(bytes), on = 1;
  if (!udp_checksum) {
    ASSERT_EQ(::setsockopt(fd.get(), SOL_UDP, UDP_NO_CHECK6_TX, &on, sizeof on), 0) << std::strerror(errno);
  }
  if (segments > 1) {
    ASSERT_EQ(::setsockopt(fd.get(), SOL_UDP, UDP_SEGMENT, &segment, sizeof segment), 0) << std::strerror(errno);
  }
  sockaddr_storage to{};
  socklen_t length = sizeof(sockaddr_in);
  if (ipv6) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(to);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(kRoceUdpPort);
    v6.sin6_addr = in6addr_loopback;
    length = sizeof v6;
  } else {
    auto& v4 = reinterpret_cast<sockaddr_in&>(to);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(kRoceUdpPort);
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  ASSERT_EQ(::sendto(fd.get(), data.data(), data.size(), 0, reinterpret_cast<const sockaddr*>(&to), length),
            static_cast<ssize_t>(data.size()))
      << std::strerror(errno);
}

std::vector<std::vector<std::uint8_t>> receive_all(int socket_fd, std::size_t expected) {
  std::vector<std::vector<std::uint8_t>> result;
  while (result.size() < expected && wait_for_event(socket_fd, POLLIN, 5s)) {
    std::array<std::uint8_t, 65536> buffer{};
    const ssize_t got = ::recv(socket_fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got >= 0) result.emplace_back(buffer.data(), buffer.data() + got);
  }
  return result;
}

bool can_change_user() {
  std::ifstream map("/proc/self/uid_map");
  unsigned first = 0, outside = 0, count = 0;
  map >> first >> outside >> count;
  return ::geteuid() == 0 && count > 1;
}

}  // namespace brdma::test
