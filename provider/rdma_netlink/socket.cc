#include "rdma_netlink/socket.h"

#include <linux/capability.h>
#include <linux/netlink.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "device_files/device_files.h"
#include "rdma_cm/user_memory.h"
#include "rdma_netlink/answer.h"
#include "rdma_netlink/daemon_source.h"

namespace brdma::provider {
namespace {

constexpr std::size_t kRequestMax = 64 * 1024;

struct Waiting {
  std::mutex lock;
  std::map<std::uint32_t, std::deque<nldev::Bytes>> answers;  // by the socket's port id
  int helper = -1;                                            // sends the answers
  std::uint32_t helper_port = 0;
};

// Never destroyed: hooks run until the very end of the process.
Waiting& waiting() {
  static auto* const instance = new Waiting;
  return *instance;
}
std::atomic<bool> something_waits{false};
std::atomic<std::uint32_t> first_uverbs{0};

std::uint32_t port_by(int (*query)(int, sockaddr*, socklen_t*), int fd) {
  sockaddr_nl address{};
  socklen_t bytes = sizeof address;
  if (query(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0 || address.nl_family != AF_NETLINK) return 0;
  return address.nl_pid;
}
int query_name(int fd, sockaddr* out, socklen_t* bytes) { return ::getsockname(fd, out, bytes); }
int query_peer(int fd, sockaddr* out, socklen_t* bytes) { return ::getpeername(fd, out, bytes); }
std::uint32_t own_port(int fd) { return port_by(&query_name, fd); }
std::uint32_t peer_port(int fd) { return port_by(&query_peer, fd); }

// By system call: these are hooks of ours, which would look at the descriptor again.
int system_bind(int fd) {
  const sockaddr_nl any{AF_NETLINK, 0, 0, 0};
  return static_cast<int>(::syscall(SYS_bind, fd, &any, sizeof any));
}
int system_connect(int fd, std::uint32_t port) {
  const sockaddr_nl peer{AF_NETLINK, 0, port, 0};
  return static_cast<int>(::syscall(SYS_connect, fd, &peer, sizeof peer));
}
ssize_t system_send(int fd, const nldev::Bytes& bytes, std::uint32_t port) {
  const sockaddr_nl to{AF_NETLINK, 0, port, 0};
  return ::syscall(SYS_sendto, fd, bytes.data(), bytes.size(), MSG_DONTWAIT, &to, sizeof to);
}

// The socket that answers; -1 with errno. The program may have closed it among others. With the lock held.
int helper_of(Waiting& all) {
  if (all.helper >= 0 && own_port(all.helper) == all.helper_port && all.helper_port != 0) return all.helper;
  const int fd = static_cast<int>(::syscall(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK));
  if (fd < 0) return -1;
  if (system_bind(fd) != 0) {
    ::syscall(SYS_close, fd);
    return -1;
  }
  all.helper = fd;
  all.helper_port = own_port(fd);
  return fd;
}

// Connects the program's socket to ours, and forgets what strangers have sent to it before. With the lock held.
bool attach(Waiting& all, int fd) {
  if (helper_of(all) < 0) return false;
  if (own_port(fd) == 0 && system_bind(fd) != 0) return false;
  if (peer_port(fd) == all.helper_port) return true;
  if (system_connect(fd, all.helper_port) != 0) return false;
  std::array<std::byte, 16> scrap{};
  while (::syscall(SYS_recvfrom, fd, scrap.data(), scrap.size(), MSG_DONTWAIT | MSG_TRUNC, nullptr, nullptr) >= 0) {
  }
  return true;
}

// With the lock held. What does not fit waits.
void deliver(Waiting& all, std::uint32_t port) {
  const auto found = all.answers.find(port);
  if (found == all.answers.end()) return;
  auto& queue = found->second;
  while (!queue.empty()) {
    const ssize_t sent = system_send(all.helper, queue.front(), port);
    if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)) return;
    queue.pop_front();  // sent, or the program's socket is gone
  }
  all.answers.erase(found);
  something_waits.store(!all.answers.empty(), std::memory_order_relaxed);
}

bool has_network_rights() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> rights{};
  if (::syscall(SYS_capget, &header, rights.data()) != 0) return false;
  return (rights[0].effective >> CAP_NET_ADMIN & 1) != 0;
}

bool has_option(int fd, int option) {
  int value = 0;
  socklen_t bytes = sizeof value;
  return ::getsockopt(fd, SOL_NETLINK, option, &value, &bytes) == 0 && value != 0;
}

nldev::Asker asker_of(int fd) {
  nldev::Asker asker;
  asker.port = own_port(fd);
  asker.is_admin = has_network_rights();
  asker.capped = has_option(fd, NETLINK_CAP_ACK);
  asker.explained = has_option(fd, NETLINK_EXT_ACK);
  struct stat node {};
  if (::stat(preload::kNodeTarget, &node) == 0) asker.node = node.st_rdev;
  asker.first = first_uverbs.load(std::memory_order_relaxed);
  return asker;
}

// The request, copied out of the program's memory; none with errno.
std::optional<nldev::Bytes> gather(const iovec* parts, std::size_t count) {
  nldev::Bytes whole;
  for (std::size_t i = 0; i < count; ++i) {
    iovec part{};
    if (!copy_from_program(&part, parts + i, sizeof part)) return errno = EFAULT, std::nullopt;
    if (part.iov_len > kRequestMax - whole.size()) return errno = EMSGSIZE, std::nullopt;
    const std::size_t at = whole.size();
    whole.resize(at + part.iov_len);
    if (!copy_from_program(whole.data() + at, part.iov_base, part.iov_len)) return errno = EFAULT, std::nullopt;
  }
  return whole;
}

// 0: the kernel's, or none is named; else an errno value.
int check_address(const sockaddr* to, socklen_t bytes) {
  if (to == nullptr || bytes == 0) return 0;
  sockaddr_nl address{};
  if (bytes < sizeof address) return EINVAL;
  if (!copy_from_program(&address, to, sizeof address)) return EFAULT;
  if (address.nl_family != AF_NETLINK) return EINVAL;
  return address.nl_pid == 0 && address.nl_groups == 0 ? 0 : EPERM;
}

ssize_t fail(int error) {
  errno = error;
  return -1;
}

}  // namespace

int open_rdma_netlink(int type, std::uint32_t first_node) {
  first_uverbs.store(first_node, std::memory_order_relaxed);
  return static_cast<int>(::syscall(SYS_socket, AF_NETLINK, type, NETLINK_USERSOCK));
}

bool is_rdma_netlink(int fd) {
  int domain = 0, protocol = 0;
  socklen_t bytes = sizeof domain;
  if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) != 0 || domain != AF_NETLINK) return false;
  bytes = sizeof protocol;
  return ::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &bytes) == 0 && protocol == NETLINK_USERSOCK;
}

ssize_t rdma_netlink_send(int fd, const iovec* parts, std::size_t count, const sockaddr* to, socklen_t to_bytes) try {
  if (const int error = check_address(to, to_bytes); error != 0) return fail(error);
  const auto request = gather(parts, count);
  if (!request) return -1;
  Waiting& all = waiting();
  {
    const std::lock_guard held{all.lock};
    if (!attach(all, fd)) return -1;
  }
  const nldev::Asker asker = asker_of(fd);
  nldev::DaemonSource source;
  std::vector<nldev::Bytes> answers = nldev::answers(*request, asker, source);
  const std::lock_guard held{all.lock};
  auto& queue = all.answers[asker.port];
  std::move(answers.begin(), answers.end(), std::back_inserter(queue));
  something_waits.store(true, std::memory_order_relaxed);
  deliver(all, asker.port);
  return static_cast<ssize_t>(request->size());
} catch (const std::bad_alloc&) {
  return fail(ENOMEM);
}

void rdma_netlink_refill(int fd) {
  if (!something_waits.load(std::memory_order_relaxed)) return;
  const int saved_errno = errno;
  const std::uint32_t port = own_port(fd);
  Waiting& all = waiting();
  {
    const std::lock_guard held{all.lock};
    deliver(all, port);
  }
  errno = saved_errno;
}

void rdma_netlink_from_kernel(sockaddr* from, socklen_t bytes) {
  sockaddr_nl address{};
  if (from == nullptr || bytes < sizeof address) return;
  std::memcpy(&address, from, sizeof address);
  if (address.nl_family != AF_NETLINK) return;
  address.nl_pid = 0;
  std::memcpy(from, &address, sizeof address);
}

void rdma_netlink_closed(int fd) {
  if (!something_waits.load(std::memory_order_relaxed)) return;
  const std::uint32_t port = own_port(fd);
  Waiting& all = waiting();
  const std::lock_guard held{all.lock};
  all.answers.erase(port);
  something_waits.store(!all.answers.empty(), std::memory_order_relaxed);
}

}  // namespace brdma::provider
