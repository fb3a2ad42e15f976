// io/udp/transmit_socket.cc - making, probing and using a sending socket.
#include "io/udp/transmit_socket.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "io/daemon/refusal.h"
#include "io/udp/icmp_shield.h"
#include "io/udp/open_socket.h"
#include "io/udp/socket_address.h"
#include "io/udp/socket_options.h"
#include "memory/guard.h"
#include "wire/crc/icrc.h"

namespace brdma::io {
namespace {

static_assert(sizeof(Slice) == sizeof(iovec) && offsetof(Slice, data) == offsetof(iovec, iov_base) &&
                  offsetof(Slice, size) == offsetof(iovec, iov_len),
              "slices go to sendmsg as they are");

constexpr int kDefaultHopLimit = 64;
constexpr std::uint16_t kPortFirst = 0xC000;  // RoCEv2's range of source ports (IBTA A17.9.2)
constexpr int kPortTries = 32;
constexpr std::uint32_t kGsoRefusalsMax = 8;  // then the route is assumed not to support GSO

// Errors that may concern the single GSO message only.
bool may_work_singly(int error) { return error == EINVAL || error == EIO || error == EMSGSIZE || error == EOPNOTSUPP; }

// One of its ends has no meaning without an interface.
bool needs_interface(const Transmit& transmit) {
  return !transmit.destination.is_v4() && (is_link_local(transmit.destination) || is_link_local(transmit.source));
}

void set_fault(SendReport& report, std::size_t unsent) {
  report.fault = true;
  report.unsent = static_cast<std::uint16_t>(unsent);
}

// Ancillary data of one sendmsg: source address, traffic class, hop limit, segment size.
class Control {
 public:
  template <class T>
  void add(int level, int type, const T& value) {
    auto* header = reinterpret_cast<cmsghdr*>(bytes_.data() + used_);
    header->cmsg_level = level;
    header->cmsg_type = type;
    header->cmsg_len = CMSG_LEN(sizeof(T));
    std::memcpy(CMSG_DATA(header), &value, sizeof(T));
    used_ += CMSG_SPACE(sizeof(T));
  }
  void attach(msghdr& message) {
    message.msg_control = used_ == 0 ? nullptr : bytes_.data();
    message.msg_controllen = used_;
  }

 private:
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(in6_pktinfo)) + CMSG_SPACE(sizeof(int)) * 3> bytes_;
  std::size_t used_ = 0;
};

}  // namespace

// Destination and ancillary data of a batch; msghdr points into it.
struct TransmitSocket::Address {
  union {
    sockaddr_in6 v6;
    sockaddr_in v4;
  } to{};
  socklen_t to_size = 0;
  Control control;

  Address(const TransmitSocket& socket, const Transmit& transmit) {
    if (socket.dual_stack_) {
      set_v6(socket.options_, transmit);
    } else {
      set_v4(socket.options_, transmit);
    }
    const bool v4 = transmit.destination.is_v4();
    const int level = v4 ? int{IPPROTO_IP} : int{IPPROTO_IPV6};
    if (transmit.traffic_class != 0) control.add(level, v4 ? IP_TOS : IPV6_TCLASS, int{transmit.traffic_class});
    if (transmit.hop_limit != kDefaultHopLimit && transmit.hop_limit != 0)
      control.add(level, v4 ? IP_TTL : IPV6_HOPLIMIT, int{transmit.hop_limit});
  }
  void set_v6(const TransmitSocketOptions& options, const Transmit& transmit) {
    const std::uint32_t scope = needs_interface(transmit) ? options.ifindex : 0;
    to.v6.sin6_family = AF_INET6;
    to.v6.sin6_port = htons(options.destination_port);
    to.v6.sin6_addr = to_in6_addr(transmit.destination);
    to.v6.sin6_scope_id = scope;
    to_size = sizeof(to.v6);
    if (!transmit.source.is_zero())
      control.add(IPPROTO_IPV6, IPV6_PKTINFO, in6_pktinfo{to_in6_addr(transmit.source), scope});
  }
  void set_v4(const TransmitSocketOptions& options, const Transmit& transmit) {
    to.v4.sin_family = AF_INET;
    to.v4.sin_port = htons(options.destination_port);
    to.v4.sin_addr = to_in_addr(transmit.destination);
    to_size = sizeof(to.v4);
    if (!transmit.source.is_zero())
      control.add(IPPROTO_IP, IP_PKTINFO, in_pktinfo{0, to_in_addr(transmit.source), in_addr{}});
  }
  void attach(msghdr& message) {
    message.msg_name = &to;
    message.msg_namelen = to_size;
    control.attach(message);
  }
};

// For sending packet by packet: rare with GSO, so made at first use.
struct TransmitSocket::Scratch {
  std::array<iovec, kSplitPiecesMax> pieces;
  std::array<PacketPieces, kSegmentsMax> packets;
  std::array<mmsghdr, kSegmentsMax> messages;
  std::array<std::byte, 64 * 1024> copies;  // of packets whose ICRC had to be changed
};

TransmitSocket::TransmitSocket(const TransmitSocketOptions& options) : options_(options) {}

TransmitSocket::TransmitSocket(TransmitSocket&& other) noexcept
    : options_(other.options_),
      fd_(std::exchange(other.fd_, -1)),
      blocked_fd_(other.blocked_fd_),
      dual_stack_(other.dual_stack_),
      gso_(other.gso_),
      port_(other.port_),
      shield_(std::move(other.shield_)),
      packets_done_(other.packets_done_),
      gso_refusals_(other.gso_refusals_),
      scratch_(std::move(other.scratch_)),
      peers_(std::move(other.peers_)) {}

TransmitSocket::~TransmitSocket() {
  if (fd_ >= 0) close(fd_);
}

Result<TransmitSocket, ContextError> TransmitSocket::open(const TransmitSocketOptions& options) {
  TransmitSocket socket{options};
  if (const int error = socket.open_socket(); error != 0)
    return ContextError{error, refusal("no UDP socket to send from can be opened", error) +
                                   (error == EADDRINUSE ? ": all ports are in use" : "")};
  socket.gso_ = options.gso && socket.probe_gso();
  if (options.connect) {
    socket.peers_ = std::make_unique<PeerSockets>(PeerSockets::Options{.source_port = socket.port_,
                                                                       .destination_port = options.destination_port,
                                                                       .ifindex = options.ifindex,
                                                                       .send_buffer_bytes = options.send_buffer_bytes});
  }
  return socket;
}

int TransmitSocket::open_socket() {
  fd_ = io::open_socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  dual_stack_ = fd_ >= 0 && set_option(fd_, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (!dual_stack_) {
    if (fd_ >= 0) close(fd_);
    fd_ = io::open_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  }
  if (fd_ < 0) return errno;
  ignore_path_mtu(fd_, dual_stack_, /*sends=*/true);
  set_option(fd_, IPPROTO_IP, IP_TTL, kDefaultHopLimit);
  if (dual_stack_) set_option(fd_, IPPROTO_IPV6, IPV6_UNICAST_HOPS, kDefaultHopLimit);
  set_option(fd_, SOL_SOCKET, SO_SNDBUF, options_.send_buffer_bytes);
  receive_nothing(fd_);
  bind_port();
  // Only now: connected sockets and shields may share the port, other contexts may not.
  set_option(fd_, SOL_SOCKET, SO_REUSEPORT, 1);
  if (dual_stack_ && port_ != 0) shield_.reset(open_icmp_shield(port_));
  return port_ != 0 ? 0 : (errno != 0 ? errno : EADDRINUSE);
}

namespace {

union LocalAddress {
  sockaddr_in6 v6;
  sockaddr_in v4;
};

// Of RoCEv2's range.
std::uint16_t random_port() {
  std::uint16_t draw = 0;
  if (getrandom(&draw, sizeof(draw), 0) != sizeof(draw)) draw = static_cast<std::uint16_t>(getpid());
  return kPortFirst | draw;
}

// `port` 0: any. False: the port is in use, or errno says why.
bool bind_to(int fd, bool dual_stack, std::uint16_t port) {
  LocalAddress local{};
  if (dual_stack) {
    local.v6.sin6_family = AF_INET6;
    local.v6.sin6_port = htons(port);
  } else {
    local.v4.sin_family = AF_INET;
    local.v4.sin_port = htons(port);
  }
  const socklen_t size = dual_stack ? sizeof(local.v6) : sizeof(local.v4);
  return bind(fd, reinterpret_cast<const sockaddr*>(&local), size) == 0;
}

// 0: unknown, errno says why.
std::uint16_t bound_port(int fd, bool dual_stack) {
  LocalAddress local{};
  socklen_t size = dual_stack ? sizeof(local.v6) : sizeof(local.v4);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size) != 0) return 0;
  return ntohs(dual_stack ? local.v6.sin6_port : local.v4.sin_port);
}

}  // namespace

// A free port of RoCEv2's range where one is found soon, else any.
void TransmitSocket::bind_port() {
  for (int attempt = 0; attempt <= kPortTries; ++attempt) {
    if (!bind_to(fd_, dual_stack_, attempt < kPortTries ? random_port() : std::uint16_t{0})) continue;
    port_ = bound_port(fd_, dual_stack_);
    return;
  }
}

// Sends a full batch to this socket itself, whose filter drops it. If that is impossible (loopback is down), the
// kernel's support of the option must suffice; first batches detect a route that refuses.
bool TransmitSocket::probe_gso() {
  if (!set_option(fd_, SOL_UDP, UDP_SEGMENT, 0)) return false;
  constexpr std::uint16_t kPacket = 8;
  const std::array<std::byte, kSegmentsMax * kPacket> bytes{};
  const Slice slice{bytes.data(), bytes.size()};
  Transmit batch;
  batch.destination = IpAddress::v4(127, 0, 0, 1);
  batch.segments = kSegmentsMax;
  batch.segment_bytes = kPacket;
  batch.bytes = static_cast<std::uint32_t>(bytes.size());
  batch.slices = {&slice, 1};
  const std::uint16_t port = std::exchange(options_.destination_port, port_);
  bool singly = false;
  (void)send_whole(batch, singly);
  options_.destination_port = port;
  return !singly;
}

SendReport TransmitSocket::send(const Transmit& transmit) {
  SendReport report;
  const bool whole = packets_done_ == 0 && (transmit.segments == 1 || gso_);
  blocked_fd_ = -1;
  if (whole && peers_ != nullptr && send_connected(transmit, report)) return report;
  const bool unreachable = report.unreachable;
  report = send_unconnected(transmit, whole);
  report.unreachable = unreachable;
  if (peers_ != nullptr && !report.blocked && !report.fault && report.refused == 0) peers_->sent_unconnected(transmit);
  return report;
}

SendReport TransmitSocket::send_unconnected(const Transmit& transmit, bool whole) {
  if (whole) {
    bool singly = false;
    const SendReport report = send_whole(transmit, singly);
    if (!singly) {
      if (transmit.segments > 1) gso_refusals_ = 0;
      return report;
    }
    ++gso_refusals_;
  }
  SendReport report;
  send_singly(transmit, report);
  // Refused either way: the packets are the cause, not GSO.
  if (report.refused > 0) gso_refusals_ = 0;
  if (gso_refusals_ >= kGsoRefusalsMax) gso_ = false;
  return report;
}

std::uint32_t TransmitSocket::give_up(const Transmit& transmit) {
  return transmit.segments - std::exchange(packets_done_, 0u);
}

namespace {

// A small packet is in one piece: then the system reads no message header and no list.
long send_piece(int fd, const Slice& piece) {
  return syscall(SYS_sendto, fd, piece.data, piece.size, MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0);
}

long send_slices(int fd, const Transmit& transmit) {
  Control control;
  if (transmit.segments > 1) control.add(SOL_UDP, UDP_SEGMENT, transmit.segment_bytes);
  msghdr message{};
  control.attach(message);
  message.msg_iov = reinterpret_cast<iovec*>(const_cast<Slice*>(transmit.slices.data()));
  message.msg_iovlen = transmit.slices.size();
  return send_message(fd, message);
}

}  // namespace

// False: not sent, for another reason than room. The unconnected socket then shows whether the batch or the route is
// the cause, or only an earlier error.
bool TransmitSocket::send_connected(const Transmit& transmit, SendReport& report) {
  const int fd = peers_->find(transmit);
  if (fd < 0) return false;
  const long sent = transmit.segments == 1 && transmit.slices.size() == 1 ? send_piece(fd, transmit.slices.front())
                                                                          : send_slices(fd, transmit);
  if (sent >= 0) [[likely]]
    return true;
  const int error = errno;
  if (error == EAGAIN) {  // not the other socket: the two buffers together exceed the requested size
    report.blocked = true;
    blocked_fd_ = fd;
    return true;
  }
  if (error == EFAULT) {
    set_fault(report, transmit.segments);
    return true;
  }
  report.unreachable = error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH;
  peers_->failed(fd, error);
  return false;
}

SendReport TransmitSocket::send_whole(const Transmit& transmit, bool& retry_singly) {
  Address address{*this, transmit};
  if (transmit.segments > 1) address.control.add(SOL_UDP, UDP_SEGMENT, transmit.segment_bytes);
  msghdr message{};
  address.attach(message);
  message.msg_iov = reinterpret_cast<iovec*>(const_cast<Slice*>(transmit.slices.data()));
  message.msg_iovlen = transmit.slices.size();
  const long sent = send_message(fd_, message);
  SendReport report;
  if (sent >= 0) return report;
  report.error = errno;
  if (report.error == EAGAIN) {
    report.blocked = true;
  } else if (report.error == EFAULT) {
    set_fault(report, transmit.segments);
  } else if (transmit.segments > 1 && may_work_singly(report.error)) {
    retry_singly = true;
  } else {
    report.refused = transmit.segments;
  }
  return report;
}

// The kernel writes identification 0 into a single packet, but the ICRC of a standard batch's packet i was made for i.
// False: not all of the packet is readable.
bool TransmitSocket::correct_icrc(const Transmit& transmit, std::span<iovec> pieces, PacketPieces& packet,
                                  std::byte* copy) const {
  std::size_t size = 0;
  for (const iovec& piece : pieces.subspan(packet.first, packet.count)) {
    if (!memory::copy(copy + size, static_cast<const std::byte*>(piece.iov_base), piece.iov_len)) return false;
    size += piece.iov_len;
  }
  const wire::IcrcPath path{transmit.source, transmit.destination, port_, options_.destination_port, 0};
  const std::uint32_t icrc = wire::packet_icrc(path, ConstBytes{copy, size});
  std::memcpy(copy + size - sizeof(icrc), &icrc, sizeof(icrc));  // little endian, as this machine
  pieces[packet.first] = iovec{copy, size};
  packet.count = 1;
  return true;
}

void TransmitSocket::send_singly(const Transmit& transmit, SendReport& report) {
  if (scratch_ == nullptr) scratch_ = std::make_unique<Scratch>();
  const std::size_t count = split_batch(transmit, scratch_->pieces, scratch_->packets);
  const bool counted_ids = transmit.standard && transmit.destination.is_v4();
  Address address{*this, transmit};
  for (std::size_t i = packets_done_; i < count; ++i) {
    PacketPieces& packet = scratch_->packets[i];
    std::byte* const copy = scratch_->copies.data() + i * transmit.segment_bytes;
    if (counted_ids && i > 0 && !correct_icrc(transmit, scratch_->pieces, packet, copy)) {
      set_fault(report, count - std::exchange(packets_done_, 0u));
      return;
    }
    msghdr& message = scratch_->messages[i].msg_hdr;
    message = msghdr{};
    address.attach(message);
    message.msg_iov = scratch_->pieces.data() + packet.first;
    message.msg_iovlen = packet.count;
  }
  while (packets_done_ < count) {
    const long sent = syscall(SYS_sendmmsg, fd_, scratch_->messages.data() + packets_done_, count - packets_done_,
                              MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
      packets_done_ += static_cast<std::uint32_t>(sent);
    } else if (errno == EAGAIN) {
      report.blocked = true;
      return;
    } else if (errno == EFAULT) {
      set_fault(report, count - packets_done_);
      break;
    } else if (errno != EINTR) {
      report.error = errno;
      ++report.refused;
      ++packets_done_;
    }
  }
  packets_done_ = 0;
}

}  // namespace brdma::io
