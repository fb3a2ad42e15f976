#include "udp/socket_group.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/datagram.h"
#include "io/daemon/lease_protocol.h"
#include "io/udp/socket_options.h"
#include "udp/port_owner.h"

namespace brdma::daemon {
namespace {

constexpr rlim_t kFilesNeeded = kSlotsAtFirst + 64;  // sockets and some leases
constexpr std::chrono::milliseconds kPortWait{1000}, kPortPoll{10};
constexpr int kLeasedBufferBytes = 8 << 20;  // the kernel doubles it: about 2,000 packets of MTU 4096
constexpr std::uint32_t kDrainMax = 65'536;

ContextError system_error(const std::string& what) {
  return {errno, "cannot " + what + " for UDP port " + std::to_string(kRoceUdpPort) + ": " + std::strerror(errno)};
}

// 0 or an errno value.
int bind_any(int fd, bool dual_stack, std::uint16_t port) {
  if (dual_stack) {
    const int zero = 0;
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(port);
    return ::bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0 ? 0 : errno;
  }
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0 ? 0 : errno;
}

io::FileDescriptor make_socket(bool dual_stack) {
  return io::FileDescriptor{::socket(dual_stack ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
}

// False in a kernel without IPv6, or where it is switched off.
bool ipv6_works() {
  const io::FileDescriptor fd = make_socket(/*dual_stack=*/true);
  return fd.valid() && bind_any(fd.get(), /*dual_stack=*/true, 0) == 0;
}

// A bind without SO_REUSEPORT fails if anybody has the port. Joining the remains of another group would shift all
// indices. The kernel notifies nobody when a port becomes free, hence the polling.
ContextError wait_for_free_port(bool dual_stack) {
  const auto deadline = std::chrono::steady_clock::now() + kPortWait;
  for (;;) {
    const io::FileDescriptor probe = make_socket(dual_stack);
    if (!probe.valid()) return system_error("make a socket");
    const int error = bind_any(probe.get(), dual_stack, kRoceUdpPort);
    if (error == 0) return {};
    if (error != EADDRINUSE) {
      errno = error;
      return system_error("bind a socket");
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return {EADDRINUSE,
              "UDP port " + std::to_string(kRoceUdpPort) + " is taken " + describe_port_owner(kRoceUdpPort)};
    }
    ::poll(nullptr, 0, static_cast<int>(kPortPoll.count()));
  }
}

std::uint16_t instruction(int code) { return static_cast<std::uint16_t>(code); }

// A chain of comparisons for a run of slots with the same lessee; other slots continue behind it.
void add_run(std::vector<sock_filter>& code, std::span<const ExtraSlot> run) {
  for (std::size_t i = 0; i < run.size(); ++i) {
    const bool last = i + 1 == run.size();
    code.push_back({instruction(BPF_JMP | BPF_JEQ | BPF_K), static_cast<std::uint8_t>(run.size() - 1 - i),
                    static_cast<std::uint8_t>(last ? 1 : 0), run[i].slot});
  }
  code.push_back({instruction(BPF_RET | BPF_K), 0, 0, run.front().lessee});
}

std::vector<sock_filter> steering_filter(std::uint32_t sockets, std::span<const ExtraSlot> extra) {
  constexpr std::size_t kRunMax = 128;  // a jump spans at most 255 instructions
  std::vector<sock_filter> code{
      {instruction(BPF_LD | BPF_W | BPF_ABS), 0, 0, 4},  // with the QP number; a shorter packet ends here with 0
      {instruction(BPF_ALU | BPF_AND | BPF_K), 0, 0, io::kSlotCount - 1},
      {instruction(BPF_JMP | BPF_JGE | BPF_K), 1, 0, sockets},
      {instruction(BPF_RET | BPF_A), 0, 0, 0},
  };
  for (std::size_t first = 0; first < extra.size();) {
    std::size_t end = first + 1;
    while (end < extra.size() && end - first < kRunMax && extra[end].lessee == extra[first].lessee) ++end;
    add_run(code, extra.subspan(first, end - first));
    first = end;
  }
  code.push_back({instruction(BPF_RET | BPF_K), 0, 0, 0});
  return code;
}

Result<io::FileDescriptor, ContextError> open_member(bool dual_stack) {
  io::FileDescriptor fd = make_socket(dual_stack);
  if (!fd.valid()) return system_error("make a socket");
  const int one = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
  // RoCEv2 sends UDP checksum 0 (IBTA A17.3), which the kernel drops over IPv6 unless this option is set.
  if (dual_stack) ::setsockopt(fd.get(), SOL_UDP, UDP_NO_CHECK6_RX, &one, sizeof one);
  if (const int error = bind_any(fd.get(), dual_stack, kRoceUdpPort); error != 0) {
    errno = error;
    return system_error("bind a socket");
  }
  io::ignore_path_mtu(fd.get(), dual_stack, /*sends=*/false);
  set_idle(fd.get());
  return fd;
}

// A lessee cannot change the steering of others. Slot 0 is never leased: the daemon uses its socket for that.
void lock_filter(int fd) {
  const int one = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &one, sizeof one);
}

}  // namespace

ContextError raise_file_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max < kFilesNeeded) {
    return {EMFILE, "brdmad needs " + std::to_string(kFilesNeeded) + " open files, the limit is " +
                        std::to_string(limit.rlim_max) + ": raise it (ulimit -Hn)"};
  }
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return {};
}

std::uint64_t file_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

Result<SocketGroup, ContextError> open_socket_group() {
  if (ContextError error = raise_file_limit(); error.error != 0) return error;
  SocketGroup group;
  group.dual_stack = ipv6_works();
  if (ContextError error = wait_for_free_port(group.dual_stack); error.error != 0) return error;
  if (ContextError error = grow(group, kSlotsAtFirst); error.error != 0) return error;
  if (ContextError error = steer(group, {}); error.error != 0) return error;
  return group;
}

// The last one is tried first, because it may fail: then none takes the place of another.
ContextError grow(SocketGroup& group, std::uint32_t count) {
  const std::size_t before = group.sockets.size();
  while (group.sockets.size() < count) {
    auto opened = open_member(group.dual_stack);
    if (!opened) {
      while (group.sockets.size() > before) group.sockets.pop_back();
      return opened.reason();
    }
    if (!group.sockets.empty()) lock_filter(opened.value().get());
    group.sockets.push_back(std::move(opened).value());
  }
  return {};
}

ContextError steer(const SocketGroup& group, std::span<const ExtraSlot> extra) {
  std::vector<sock_filter> code = steering_filter(static_cast<std::uint32_t>(group.sockets.size()), extra);
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  if (::setsockopt(group.sockets.front().get(), SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) != 0)
    return system_error("attach the steering filter");
  return {};
}

std::uint32_t drain(int socket_fd) {
  std::uint32_t count = 0;
  char byte = 0;
  while (count < kDrainMax) {
    // A pending ICMP error on the socket ends the call too, but is gone then.
    if (::recv(socket_fd, &byte, sizeof byte, MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    ++count;
  }
  return count;
}

void set_leased_buffer(int socket_fd) {
  const int bytes = kLeasedBufferBytes;
  if (::setsockopt(socket_fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0) {
    ::setsockopt(socket_fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);  // the kernel cuts it to net.core.rmem_max
  }
}

void set_idle(int socket_fd) {
  io::take_multicast(socket_fd, /*dual_stack=*/true, false);  // else each of hundreds gets a copy of any joined group
  const int least = 0;                                        // the kernel raises it to its minimum
  ::setsockopt(socket_fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
}

}  // namespace brdma::daemon
