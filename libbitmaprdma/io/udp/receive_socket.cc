// io/udp/receive_socket.cc - options of a receiving socket, and recvmsg with its ancillary data.
#include "io/udp/receive_socket.h"

#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <optional>
#include <utility>

#include "io/udp/socket_address.h"
#include "io/udp/socket_options.h"

namespace brdma::io {
namespace {

template <class T>
T control_value(const cmsghdr* header) {
  T value{};
  std::memcpy(&value, CMSG_DATA(header), sizeof(value));
  return value;
}

// Room for every ancillary message that enable_metadata() enables.
constexpr std::size_t kControlBytes = CMSG_SPACE(sizeof(in6_pktinfo)) + CMSG_SPACE(sizeof(in_pktinfo)) +
                                      CMSG_SPACE(sizeof(int)) * 3 + CMSG_SPACE(sizeof(std::uint32_t)) +
                                      CMSG_SPACE(sizeof(timespec));

// Of an ancillary message: level and type as they lie in its header.
constexpr std::uint64_t metadata_kind(int level, int type) {
  return std::uint64_t{static_cast<std::uint32_t>(type)} << 32 | static_cast<std::uint32_t>(level);
}

// The ancillary messages that enable_metadata() enables. The kernel's running count of dropped datagrams, if it came.
std::optional<std::uint32_t> read_metadata(const std::array<std::byte, kControlBytes>& control, std::size_t bytes,
                                           ReceivedMessage& out) {
  msghdr message{};
  message.msg_control = const_cast<std::byte*>(control.data());
  message.msg_controllen = bytes;
  std::optional<std::uint32_t> drops;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    switch (metadata_kind(header->cmsg_level, header->cmsg_type)) {
      case metadata_kind(SOL_UDP, UDP_GRO):
        if (const int segment = control_value<int>(header); segment > 0)
          out.segment_bytes = static_cast<std::size_t>(segment);
        break;
      case metadata_kind(IPPROTO_IPV6, IPV6_PKTINFO): {
        const auto arrived = control_value<in6_pktinfo>(header);
        out.datagram.destination = from_in6_addr(arrived.ipi6_addr);
        if (is_link_local(out.datagram.destination)) out.scope = arrived.ipi6_ifindex;
        break;
      }
      case metadata_kind(IPPROTO_IP, IP_PKTINFO):
        out.datagram.destination = from_in_addr(control_value<in_pktinfo>(header).ipi_addr);
        break;
      case metadata_kind(IPPROTO_IPV6, IPV6_TCLASS):
        out.datagram.traffic_class = static_cast<std::uint8_t>(control_value<int>(header));
        break;
      case metadata_kind(IPPROTO_IP, IP_TOS):
        out.datagram.traffic_class = control_value<std::uint8_t>(header);
        break;
      case metadata_kind(SOL_SOCKET, SO_RXQ_OVFL):
        drops = control_value<std::uint32_t>(header);
        break;
      case metadata_kind(SOL_SOCKET, SCM_TIMESTAMPNS): {
        const auto stamp = control_value<timespec>(header);
        out.stamp = std::int64_t{stamp.tv_sec} * 1'000'000'000 + stamp.tv_nsec;
        break;
      }
      default:
        break;
    }
  }
  return drops;
}

int granted_buffer(int fd) {
  int granted = 0;
  socklen_t size = sizeof(granted);
  return getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &granted, &size) == 0 ? granted : 0;
}

// What this process would be granted for `wanted`: tried on a socket of its own. 0: not known.
int grantable(int wanted) {
  const int trial = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (trial < 0) return 0;
  set_option(trial, SOL_SOCKET, SO_RCVBUF, wanted);
  const int granted = granted_buffer(trial);
  ::close(trial);
  return granted;
}

}  // namespace

ReceiveSocket::ReceiveSocket(int fd, bool dual_stack, const ReceiveSocketOptions& options)
    : fd_(fd), dual_stack_(dual_stack), buffer_(std::make_unique<std::byte[]>(kMessageBytesMax)) {
  gro_ = set_option(fd_, SOL_UDP, UDP_GRO, options.gro ? 1 : 0) && options.gro;
  enable_metadata();
  take_multicast(false);
  enlarge_buffer(options.buffer_bytes);
}

void ReceiveSocket::enable_metadata() {
  if (dual_stack_) {
    set_option(fd_, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);  // covers IPv4 packets too, as ::ffff:a.b.c.d
    set_option(fd_, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
  } else {
    set_option(fd_, IPPROTO_IP, IP_PKTINFO, 1);
  }
  set_option(fd_, IPPROTO_IP, IP_RECVTOS, 1);
  set_option(fd_, SOL_SOCKET, SO_RXQ_OVFL, 1);
  set_option(fd_, SOL_SOCKET, SO_TIMESTAMPNS, 1);
  std::array<std::uint32_t, SK_MEMINFO_VARS> info{};
  socklen_t size = sizeof(info);
  if (getsockopt(fd_, SOL_SOCKET, SO_MEMINFO, info.data(), &size) == 0) overflow_seen_ = info[SK_MEMINFO_DROPS];
}

// Without CAP_NET_ADMIN the kernel grants net.core.rmem_max at most, and would shrink a larger buffer of brdmad's to
// it.
void ReceiveSocket::enlarge_buffer(int wanted) {
  if (!set_option(fd_, SOL_SOCKET, SO_RCVBUFFORCE, wanted) && grantable(wanted) > granted_buffer(fd_))
    set_option(fd_, SOL_SOCKET, SO_RCVBUF, wanted);
  buffer_bytes_ = static_cast<std::uint32_t>(std::max(granted_buffer(fd_), 0));
}

void ReceiveSocket::take_multicast(bool take) const { io::take_multicast(fd_, dual_stack_, take); }

std::uint32_t ReceiveSocket::take_overflow() {
  const std::uint32_t overflow = overflow_;
  overflow_ = 0;
  return overflow;
}

// What recvmsg fills.
struct ReceiveSocket::Slot {
  explicit Slot(std::byte* buffer) : part{buffer, kMessageBytesMax} {}
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  void prepare(msghdr& into) {
    into.msg_name = &from;
    into.msg_namelen = sizeof(from);
    into.msg_iov = &part;
    into.msg_iovlen = 1;
    into.msg_control = control.data();
    into.msg_controllen = control.size();
  }

  union {
    sockaddr_in6 v6;
    sockaddr_in v4;
  } from{};
  alignas(cmsghdr) std::array<std::byte, kControlBytes> control;
  iovec part;
  std::size_t control_bytes = 0;
};

// The message behind the one that was returned.
struct ReceiveSocket::Next {
  std::unique_ptr<std::byte[]> buffer = std::make_unique_for_overwrite<std::byte[]>(kMessageBytesMax);
  Slot slot{buffer.get()};
  std::optional<std::size_t> bytes;  // none: no message
};

ReceiveSocket::~ReceiveSocket() = default;
ReceiveSocket::ReceiveSocket(ReceiveSocket&& other) noexcept = default;

// The calls are not the C library's: those are cancellation points, and a thread cancelled here would keep the shard's
// lock.
bool ReceiveSocket::receive(ReceivedMessage& out) {
  if (next_ != nullptr && next_->bytes) [[unlikely]] {
    read_message(next_->slot, *std::exchange(next_->bytes, std::nullopt), out);
    return true;
  }
  Slot slot{buffer_.get()};
  msghdr message{};
  slot.prepare(message);
  const ssize_t size = syscall(SYS_recvmsg, fd_, &message, MSG_DONTWAIT);
  if (size < 0) return false;  // EAGAIN; any other error means no packet either
  slot.control_bytes = message.msg_controllen;
  read_message(slot, static_cast<std::size_t>(size), out);
  return true;
}

bool ReceiveSocket::receive_and_look(ReceivedMessage& out, bool& last) {
  last = false;
  if (has_next()) return receive(out);
  if (next_ == nullptr) next_ = std::make_unique<Next>();
  Slot slot{buffer_.get()};
  std::array<mmsghdr, 2> messages{};
  slot.prepare(messages[0].msg_hdr);
  next_->slot.prepare(messages[1].msg_hdr);
  const long count = syscall(SYS_recvmmsg, fd_, messages.data(), messages.size(), MSG_DONTWAIT, nullptr);
  last = count < 2;
  if (count < 1) return false;
  slot.control_bytes = messages[0].msg_hdr.msg_controllen;
  if (!last) {
    next_->slot.control_bytes = messages[1].msg_hdr.msg_controllen;
    next_->bytes = messages[1].msg_len;
  }
  read_message(slot, messages[0].msg_len, out);
  return true;
}

bool ReceiveSocket::has_next() const { return next_ != nullptr && next_->bytes; }

void ReceiveSocket::read_message(const Slot& slot, std::size_t size, ReceivedMessage& out) {
  Datagram& datagram = out.datagram;
  datagram = Datagram{};
  out.by_xdp = false;
  out.stamp = 0;
  out.scope = 0;
  if (slot.from.v6.sin6_family == AF_INET6) {
    datagram.source = from_in6_addr(slot.from.v6.sin6_addr);
    datagram.source_port = ntohs(slot.from.v6.sin6_port);
  } else {
    datagram.source = from_in_addr(slot.from.v4.sin_addr);
    datagram.source_port = ntohs(slot.from.v4.sin_port);
  }
  out.bytes = ConstBytes{static_cast<const std::byte*>(slot.part.iov_base), size};
  out.segment_bytes = out.bytes.size();
  if (const auto drops = read_metadata(slot.control, slot.control_bytes, out)) {
    overflow_ += *drops - overflow_seen_;
    overflow_seen_ = *drops;
  }
}

}  // namespace brdma::io
