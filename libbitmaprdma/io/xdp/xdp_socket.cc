#include "io/xdp/xdp_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/fetch_ahead.h"
#include "io/xdp/xdp_abi.h"
#include "io/xdp/xdp_frame.h"

namespace brdma::io {
namespace {

// Bytes of a frame: its headers, or all of a small message.
constexpr std::size_t kFetchedAhead = 160;

}  // namespace

XdpSocket::XdpSocket(XdpDescriptors descriptors, const XdpReply& reply)
    : descriptors_(std::move(descriptors)), mode_(reply.mode), queue_(reply.queue) {}

Result<XdpSocket, ContextError> XdpSocket::open(XdpDescriptors descriptors, const XdpReply& reply) {
  XdpSocket socket{std::move(descriptors), reply};
  if (!socket.map_all(reply)) return ContextError{errno, std::string{"mapping an AF_XDP socket: "} + strerror(errno)};
  socket.joined_ = std::make_unique<std::byte[]>(kFrameBytesMax);
  for (std::uint32_t i = 0; i < reply.receive_chunks; ++i) socket.fill_.give(std::uint64_t{i} * kXdpChunkBytes);
  socket.publish_given();
  return socket;
}

bool XdpSocket::map_all(const XdpReply& reply) {
  xdp_mmap_offsets offsets{};
  socklen_t size = sizeof offsets;
  if (::getsockopt(fd(), SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &size) != 0) return false;
  const std::uint32_t entries = reply.receive_chunks;
  memory_ = Mapping::shared(descriptors_.memory.get(), std::size_t{entries} * kXdpChunkBytes);
  receive_mapping_ = Mapping::shared(fd(), offsets.rx.desc + entries * sizeof(xdp_desc), XDP_PGOFF_RX_RING);
  if (!memory_.valid() || !receive_mapping_.valid() || !fill_.map(fd(), offsets.fr, entries)) return false;
  receive_ = XdpRing<xdp_desc>{{receive_mapping_.data(), offsets.rx, entries}};
  position_ = produced_ = receive_.consumed();
  return true;
}

void XdpSocket::publish_given() {
  receive_.consume_to(position_);
  fill_.publish(fd());
}

bool XdpSocket::receive(ReceivedMessage& out) {
  if (lent_) fill_.give(*std::exchange(lent_, std::nullopt));
  while (const auto frame = next_frame()) {
    if (parse_roce_frame(*frame, out.datagram)) {
      out.bytes = out.datagram.bytes;
      out.segment_bytes = out.bytes.size();
      out.by_xdp = true;
      out.stamp = 0;
      return true;
    }
    ++unreadable_;
    if (lent_) fill_.give(*std::exchange(lent_, std::nullopt));
  }
  if (fill_.unpublished() != 0) publish_given();
  return false;
}

std::optional<ConstBytes> XdpSocket::next_frame() {
  if (fill_.unpublished() >= kGiveBackAt) publish_given();
  if (position_ == produced_) {
    produced_ = receive_.produced();
    if (position_ == produced_) return std::nullopt;
    // Packets from this machine are in the cache of their sender's processor: fetch their lines together with the
    // descriptor, not one after the other. Chunks come in the order of giving, except those of packets that the kernel
    // dropped.
    fetch_ahead(memory_.data() + fill_.at(position_) + offset_in_chunk_, kFetchedAhead);
  }
  const std::uint32_t first = position_;
  std::uint32_t last = first;
  // A packet's descriptors are published together.
  while ((receive_.at(last).options & kXdpPacketContinues) != 0 && last + 1 != produced_) ++last;
  position_ = last + 1;
  if (first != last) return join(first, last);
  const xdp_desc& descriptor = receive_.at(first);
  lent_ = descriptor.addr;
  offset_in_chunk_ = descriptor.addr % kXdpChunkBytes;
  return ConstBytes{memory_.data() + descriptor.addr, descriptor.len};
}

ConstBytes XdpSocket::join(std::uint32_t first, std::uint32_t last) {
  std::size_t size = 0;
  for (std::uint32_t i = first; i != last + 1; ++i) {
    const xdp_desc& descriptor = receive_.at(i);
    const std::size_t part = std::min<std::size_t>(descriptor.len, kFrameBytesMax - size);
    std::memcpy(joined_.get() + size, memory_.data() + descriptor.addr, part);
    size += part;
    fill_.give(descriptor.addr);
  }
  return {joined_.get(), size};
}

std::uint64_t XdpSocket::take_drops() {
  xdp_statistics statistics{};
  socklen_t size = sizeof statistics;
  if (::getsockopt(fd(), SOL_XDP, XDP_STATISTICS, &statistics, &size) != 0) return 0;
  // An empty fill ring counts as dropped too.
  const std::uint64_t drops = statistics.rx_dropped + statistics.rx_ring_full;
  return drops - std::exchange(drops_seen_, drops);
}

}  // namespace brdma::io
