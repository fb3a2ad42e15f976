#include "xdp/xdp_grant.h"

#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>

#include "io/xdp/xdp_abi.h"
#include "xdp/xdp_steering.h"

namespace brdma::daemon {
namespace {

using io::XdpMode;

constexpr std::uint32_t kChunksMax = 1u << 16;

struct Interface {
  std::array<char, IF_NAMESIZE> name{};
  std::uint32_t mtu = 0;
  std::uint32_t queues = 1;
};

// False: there is none.
bool ask_interface(std::uint32_t ifindex, Interface& out) {
  if (::if_indextoname(ifindex, out.name.data()) == nullptr) return false;
  const io::FileDescriptor any{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  ifreq request{};
  std::copy(out.name.begin(), out.name.end(), request.ifr_name);
  if (::ioctl(any.get(), SIOCGIFMTU, &request) != 0) return false;
  out.mtu = static_cast<std::uint32_t>(request.ifr_mtu);
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  request.ifr_data = reinterpret_cast<char*>(&channels);
  if (::ioctl(any.get(), SIOCETHTOOL, &request) == 0)
    out.queues = std::clamp(channels.rx_count + channels.combined_count, 1u, kXdpQueuesMax);
  return true;
}

template <class T>
bool set_xdp(int fd, int option, const T& value) {
  return ::setsockopt(fd, SOL_XDP, option, &value, sizeof value) == 0;
}

bool valid_size(std::uint32_t chunks) { return chunks == 0 || (std::has_single_bit(chunks) && chunks <= kChunksMax); }

std::size_t memory_bytes(const XdpWish& wish) {
  return (std::size_t{wish.receive_chunks} + wish.transmit_chunks) * io::kXdpChunkBytes;
}

// The memory for packets: pages that both processes can map. Sealed, so that one process cannot shrink it and crash the
// other.
io::FileDescriptor make_memory(std::size_t bytes) {
  io::FileDescriptor memory{::memfd_create("brdma-umem", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!memory.valid() || ::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    memory.reset();
  return memory;
}

// Registers the memory with the socket. Our mapping may go at once: the kernel holds the pages.
bool register_memory(int socket_fd, int memory_fd, std::size_t bytes) {
  void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
  if (base == MAP_FAILED) return false;
  xdp_umem_reg region{};
  region.addr = reinterpret_cast<std::uint64_t>(base);
  region.len = bytes;
  region.chunk_size = io::kXdpChunkBytes;
  const bool done = set_xdp(socket_fd, XDP_UMEM_REG, region);
  const int error = errno;
  ::munmap(base, bytes);
  errno = error;
  return done;
}

// An unbound socket with memory and rings; errno where it is not valid.
io::FileDescriptor make_socket(const XdpWish& wish, int memory_fd, std::size_t bytes) {
  io::FileDescriptor fd{::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0)};
  // The kernel requires a completion ring even of sockets that do not transmit, and likewise a fill ring.
  if (!fd.valid() || !register_memory(fd.get(), memory_fd, bytes) ||
      !set_xdp(fd.get(), XDP_UMEM_FILL_RING, std::max(wish.receive_chunks, 1u)) ||
      !set_xdp(fd.get(), XDP_UMEM_COMPLETION_RING, std::max(wish.transmit_chunks, 1u)) ||
      (wish.receive_chunks > 0 && !set_xdp(fd.get(), XDP_RX_RING, wish.receive_chunks)) ||
      (wish.transmit_chunks > 0 && !set_xdp(fd.get(), XDP_TX_RING, wish.transmit_chunks))) {
    const int error = errno;
    fd.reset();
    errno = error;
  }
  return fd;
}

bool bind_queue(int fd, std::uint32_t ifindex, std::uint32_t queue, XdpMode mode) {
  sockaddr_xdp address{};
  address.sxdp_family = AF_XDP;
  address.sxdp_ifindex = ifindex;
  address.sxdp_queue_id = queue;
  address.sxdp_flags = static_cast<std::uint16_t>(io::kXdpUseMultiBuffer | XDP_USE_NEED_WAKEUP |
                                                  (mode == XdpMode::kZeroCopy ? XDP_ZEROCOPY : XDP_COPY));
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

XdpHook hook_of(XdpMode mode) { return mode == XdpMode::kGeneric ? XdpHook::kGeneric : XdpHook::kDriver; }

std::string said(const char* what, int error) { return std::string{what} + ": " + std::strerror(error); }

// On the first queue without a socket.
Result<XdpGrant, ContextError> bind_some_queue(const XdpWish& wish, const Interface& interface, XdpMode mode) {
  const std::size_t bytes = memory_bytes(wish);
  XdpGrant grant;
  grant.mode = mode;
  grant.memory = make_memory(bytes);
  if (!grant.memory.valid()) return ContextError{errno, said("no memory for packets", errno)};
  grant.socket = make_socket(wish, grant.memory.get(), bytes);
  if (!grant.socket.valid()) return ContextError{errno, said("no AF_XDP socket", errno)};
  for (; grant.queue < interface.queues; ++grant.queue) {
    if (bind_queue(grant.socket.get(), wish.ifindex, grant.queue, mode)) return grant;
    if (errno != EBUSY) return ContextError{errno, said("the queue does not take an AF_XDP socket", errno)};
  }
  return ContextError{EBUSY, "every receive queue of the interface (" + std::to_string(interface.queues) +
                                 ") has an AF_XDP socket already"};
}

// All queues are taken, one by a process that has ended.
bool some_queue_is_being_freed(const XdpWish& wish, const Interface& interface, const XdpSteering& steering) {
  if (!wish.leased) return false;
  for (std::uint32_t queue = 0; queue < interface.queues; ++queue) {
    const std::uint32_t slot = steering.slot_of(queue);
    if (slot == wish.slot || !wish.leased(slot)) return true;
  }
  return false;
}

Result<XdpGrant, ContextError> grant_in(const XdpWish& wish, const Interface& interface, XdpMode mode) {
  if (wish.receive_chunks == 0) return bind_some_queue(wish, interface, mode);
  std::optional<XdpSteering> attached;
  if (wish.steering == nullptr) {
    auto made = XdpSteering::attach(wish.ifindex, interface.mtu, hook_of(mode));
    if (!made && made.reason().error == EBUSY && wish.leaving != 0 && is_attached(wish.leaving, wish.ifindex))
      return ContextError{EAGAIN, "the XDP program of a process that has ended is still attached to the interface"};
    if (!made) return made.reason();
    attached = std::move(made).value();
  }
  const XdpSteering& steering = attached ? *attached : *wish.steering;
  auto bound = bind_some_queue(wish, interface, mode);
  // If the program was gone too, the socket's owner is gone.
  if (!bound && bound.reason().error == EBUSY && (attached || some_queue_is_being_freed(wish, interface, steering)))
    return ContextError{EAGAIN, bound.reason().message};
  if (!bound) return bound;
  XdpGrant grant = std::move(bound).value();
  if (const Status steered = steering.steer(grant.queue, wish.slot, grant.socket.get()); !steered.ok())
    return ContextError{steered.error(), said("steering to the AF_XDP socket", steered.error())};
  grant.link.reset(::fcntl(steering.link.get(), F_DUPFD_CLOEXEC, 0));
  if (!grant.link.valid()) return ContextError{errno, said("steering to the AF_XDP socket", errno)};
  grant.attached = std::move(attached);
  return grant;
}

}  // namespace

Result<XdpGrant, ContextError> grant_xdp(const XdpWish& wish) {
  if (!valid_size(wish.receive_chunks) || !valid_size(wish.transmit_chunks) || memory_bytes(wish) == 0)
    return ContextError{EINVAL, "sizes of AF_XDP rings are powers of two, at most 65536"};
  Interface interface;
  if (!ask_interface(wish.ifindex, interface)) return ContextError{ENODEV, "no such interface"};
  if (wish.mode != XdpMode::kAuto) return grant_in(wish, interface, wish.mode);
  ContextError reason;
  for (const XdpMode mode : {XdpMode::kZeroCopy, XdpMode::kNative, XdpMode::kGeneric}) {
    if ((mode == XdpMode::kGeneric && !wish.generic_too) || (mode == XdpMode::kZeroCopy && !wish.zero_copy_too))
      continue;
    auto granted = grant_in(wish, interface, mode);
    if (granted) return granted;
    reason = granted.reason();
    if (reason.error == EPERM || reason.error == EBUSY || reason.error == EAGAIN)
      break;  // the other modes would fail in the same way
  }
  return reason;
}

}  // namespace brdma::daemon
