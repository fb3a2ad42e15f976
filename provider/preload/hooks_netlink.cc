// Hooks: RDMA_NETLINK where the kernel has none (rdma_netlink/socket.h). Other sockets pay one load and one comparison.
#include <dlfcn.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <string_view>

#include "device_files/device_files.h"
#include "preload/descriptors.h"
#include "preload/real.h"
#include "preload/view.h"
#include "rdma_netlink/socket.h"

using brdma::preload::Node;
using brdma::preload::node_marks;

// Compiler-made calls of programs built with _FORTIFY_SOURCE; declared nowhere.
extern "C" {
ssize_t __recv_chk(int fd, void* into, size_t count, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void* into, size_t count, size_t room, int flags, sockaddr* from, socklen_t* bytes);
}

namespace {

BRDMA_REAL(socket);
BRDMA_REAL(send);
BRDMA_REAL(sendto);
BRDMA_REAL(sendmsg);
BRDMA_REAL(recv);
BRDMA_REAL(recvfrom);
BRDMA_REAL(recvmsg);
BRDMA_REAL(__recv_chk);
BRDMA_REAL(__recvfrom_chk);

// Before main, so that no signal handler is the first to call dlsym.
__attribute__((constructor)) void prepare() {
  real_socket.resolve();
  real_send.resolve();
  real_sendto.resolve();
  real_sendmsg.resolve();
  real_recv.resolve();
  real_recvfrom.resolve();
  real_recvmsg.resolve();
  real___recv_chk.resolve();
  real___recvfrom_chk.resolve();
}

bool is_netlink(int fd) { return node_marks.node(fd) == Node::kNetlink && brdma::provider::is_rdma_netlink(fd); }

// libibverbs and librdmacm read the device files where the kernel has no RDMA_NETLINK, and nothing else if it has one.
// They ask through libnl, which a program may use itself: it has no libibverbs then.
bool is_rdma_core(const void* caller) {
  Dl_info info{};
  if (::dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return false;
  const std::string_view path{info.dli_fname};
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (!name.starts_with("libnl-3.so")) return name.starts_with("libibverbs") || name.starts_with("librdmacm");
  void* const libibverbs = ::dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (libibverbs == nullptr) return false;
  ::dlclose(libibverbs);
  return true;
}

// Around a read: what waits is delivered, and the sender is the kernel.
class Reading {
 public:
  explicit Reading(int fd) : fd_(is_netlink(fd) ? fd : -1) {
    if (fd_ >= 0) brdma::provider::rdma_netlink_refill(fd_);
  }
  ssize_t done(ssize_t result, sockaddr* from, socklen_t bytes) const {
    if (fd_ < 0) return result;
    brdma::provider::rdma_netlink_refill(fd_);
    if (result >= 0) brdma::provider::rdma_netlink_from_kernel(from, bytes);
    return result;
  }

 private:
  int fd_;
};

ssize_t send_netlink(int fd, const void* bytes, size_t count, const sockaddr* to, socklen_t to_bytes) {
  const iovec part{const_cast<void*>(bytes), count};
  return brdma::provider::rdma_netlink_send(fd, &part, 1, to, to_bytes);
}

}  // namespace

BRDMA_HOOK int socket(int domain, int type, int protocol) noexcept {
  if (domain != AF_NETLINK || protocol != NETLINK_RDMA) return real_socket.get()(domain, type, protocol);
  if (is_rdma_core(BRDMA_CALLER)) {
    errno = EPROTONOSUPPORT;
    return -1;
  }
  const bool beside_kernel = brdma::preload::shows_kernel_devices();
  if (beside_kernel) {
    const int kernels = real_socket.get()(domain, type, protocol);
    if (kernels >= 0) return kernels;
  }
  const int fd = brdma::provider::open_rdma_netlink(type, beside_kernel ? brdma::preload::kKernelNodesMax : 0);
  if (fd >= 0) node_marks.mark(fd, Node::kNetlink);
  return fd;
}

BRDMA_HOOK ssize_t send(int fd, const void* bytes, size_t count, int flags) {
  if (is_netlink(fd)) [[unlikely]]
    return send_netlink(fd, bytes, count, nullptr, 0);
  return real_send.get()(fd, bytes, count, flags);
}

BRDMA_HOOK ssize_t sendto(int fd, const void* bytes, size_t count, int flags, const sockaddr* to, socklen_t to_bytes) {
  if (is_netlink(fd)) [[unlikely]]
    return send_netlink(fd, bytes, count, to, to_bytes);
  return real_sendto.get()(fd, bytes, count, flags, to, to_bytes);
}

BRDMA_HOOK ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (is_netlink(fd) && message != nullptr) [[unlikely]]
    return brdma::provider::rdma_netlink_send(fd, message->msg_iov, message->msg_iovlen,
                                              static_cast<const sockaddr*>(message->msg_name), message->msg_namelen);
  return real_sendmsg.get()(fd, message, flags);
}

BRDMA_HOOK ssize_t recv(int fd, void* into, size_t count, int flags) {
  const Reading reading(fd);
  return reading.done(real_recv.get()(fd, into, count, flags), nullptr, 0);
}

BRDMA_HOOK ssize_t recvfrom(int fd, void* into, size_t count, int flags, sockaddr* from, socklen_t* bytes) {
  const Reading reading(fd);
  const ssize_t got = real_recvfrom.get()(fd, into, count, flags, from, bytes);
  return reading.done(got, from, bytes != nullptr && got >= 0 ? *bytes : 0);
}

BRDMA_HOOK ssize_t recvmsg(int fd, msghdr* message, int flags) {
  const Reading reading(fd);
  const ssize_t got = real_recvmsg.get()(fd, message, flags);
  return got < 0 ? reading.done(got, nullptr, 0)
                 : reading.done(got, static_cast<sockaddr*>(message->msg_name), message->msg_namelen);
}

BRDMA_HOOK ssize_t __recv_chk(int fd, void* into, size_t count, size_t room, int flags) {
  const Reading reading(fd);
  return reading.done(real___recv_chk.get()(fd, into, count, room, flags), nullptr, 0);
}

BRDMA_HOOK ssize_t __recvfrom_chk(int fd, void* into, size_t count, size_t room, int flags, sockaddr* from,
                                  socklen_t* bytes) {
  const Reading reading(fd);
  const ssize_t got = real___recvfrom_chk.get()(fd, into, count, room, flags, from, bytes);
  return reading.done(got, from, bytes != nullptr && got >= 0 ? *bytes : 0);
}
