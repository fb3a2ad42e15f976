#include "io/xdp/xdp_transmit.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/check.h"
#include "io/xdp/xdp_abi.h"
#include "io/xdp/xdp_frame.h"
#include "memory/guard.h"

namespace brdma::io {
namespace {

// A call sends 32 descriptors at least, unless it drops one: after this many calls the kernel makes no progress.
constexpr unsigned kKicksMax = 2 * kXdpTransmitChunks;

constexpr std::size_t kPartsMax = 17;  // of a packet: 64 KiB and its headers

FileDescriptor copy_of(int fd) { return FileDescriptor{::fcntl(fd, F_DUPFD_CLOEXEC, 3)}; }

}  // namespace

Result<XdpTransmit, ContextError> XdpTransmit::open(int socket_fd, int memory_fd, const XdpReply& reply) {
  XdpTransmit made;
  made.socket_ = copy_of(socket_fd);
  if (!made.socket_.valid() || !made.map_all(memory_fd, reply))
    return ContextError{errno, std::string{"mapping an AF_XDP socket: "} + strerror(errno)};
  made.scratch_ = std::make_unique<Scratch>();
  // Without this option the kernel sends 32 descriptors a call.
  const int budget = static_cast<int>(reply.transmit_chunks);
  (void)::setsockopt(made.fd(), SOL_XDP, kXdpMaxTxBudget, &budget, sizeof budget);
  return made;
}

bool XdpTransmit::map_all(int memory_fd, const XdpReply& reply) {
  xdp_mmap_offsets offsets{};
  socklen_t size = sizeof offsets;
  if (::getsockopt(fd(), SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &size) != 0) return false;
  const std::uint32_t entries = reply.transmit_chunks;
  first_address_ = std::uint64_t{reply.receive_chunks} * kXdpChunkBytes;
  memory_ = Mapping::shared(memory_fd, std::size_t{entries} * kXdpChunkBytes, first_address_);
  transmit_mapping_ = Mapping::shared(fd(), offsets.tx.desc + entries * sizeof(xdp_desc), XDP_PGOFF_TX_RING);
  completion_mapping_ =
      Mapping::shared(fd(), offsets.cr.desc + entries * sizeof(std::uint64_t), XDP_UMEM_PGOFF_COMPLETION_RING);
  if (!memory_.valid() || !transmit_mapping_.valid() || !completion_mapping_.valid()) return false;
  transmit_ = XdpRing<xdp_desc>{{transmit_mapping_.data(), offsets.tx, entries}};
  completion_ = XdpRing<std::uint64_t>{{completion_mapping_.data(), offsets.cr, entries}};
  filled_ = transmit_.filled();
  free_.reserve(entries);
  for (std::uint32_t i = entries; i-- > 0;) free_.push_back(first_address_ + std::uint64_t{i} * kXdpChunkBytes);
  return true;
}

void XdpTransmit::reclaim() {
  const std::uint32_t produced = completion_.produced();
  std::uint32_t at = completion_.consumed();
  if (at == produced) return;
  for (; at != produced; ++at) free_.push_back(completion_.at(at) & ~std::uint64_t{kXdpChunkBytes - 1});
  completion_.consume_to(at);
  BRDMA_CHECK(free_.size() <= transmit_.size());
}

// Copies the batch into the ring. kSent: it is there.
inline XdpTransmit::Report XdpTransmit::queue(const Transmit& transmit, const Way& way) {
  using Outcome = Report::Outcome;
  const std::size_t headers = frame_headers_size(transmit.destination);
  const std::size_t frame = headers + transmit.segment_bytes;
  const std::size_t chunks_a_packet = (frame + kXdpChunkBytes - 1) / kXdpChunkBytes;
  const std::size_t needed = transmit.segments * chunks_a_packet;
  if (frame - kEthernetHeader > way.hop->mtu || needed > transmit_.size()) return {Outcome::kUseUdp};
  reclaim();
  Report report;
  // While the interface was down the ring has filled: only a call makes the kernel empty it.
  if (free_.size() < needed && transmit_.taken() != filled_) {
    report.outcome = kick(report.refused);
    if (report.outcome != Outcome::kSent) return report;
    reclaim();
  }
  // The ring has as many places as there are chunks: checking the chunks is enough.
  if (free_.size() < needed) {
    report.outcome = Outcome::kWaits;
    return report;
  }
  (void)split_batch(transmit, scratch_->pieces, scratch_->packets);
  const std::uint32_t before = filled_;
  for (std::size_t i = 0; i < transmit.segments; ++i) {
    if (write_packet(transmit, i, way)) [[likely]]
      continue;
    for (; filled_ != before; --filled_) free_.push_back(transmit_.at(filled_ - 1).addr);
    report.outcome = Outcome::kFault;
    return report;
  }
  transmit_.fill_to(filled_);
  sent_ += transmit.segments;
  return report;
}

XdpTransmit::Report XdpTransmit::send(const Transmit& transmit, const Way& way) {
  using Outcome = Report::Outcome;
  if (dead_ != 0) return {Outcome::kUseUdp};
  Report report;
  if (!queued_) {
    batch_begin_ = filled_;
    report = queue(transmit, way);
    if (report.outcome != Outcome::kSent) return report;
  }
  report.outcome = kick(report.refused);
  queued_ = report.outcome == Outcome::kWaits;
  return report;
}

// A packet in consecutive chunks.
struct XdpTransmit::Frame {
  struct Part {
    std::uint64_t address = 0;
    std::size_t size = 0;
  };
  XdpTransmit& owner;
  std::array<Part, kPartsMax> parts{};
  std::size_t used = 0;

  [[nodiscard]] std::byte* bytes(const Part& part) const { return owner.chunk(part.address); }
  void take_chunk() {
    BRDMA_CHECK(used < parts.size() && !owner.free_.empty());
    parts[used++] = {owner.free_.back(), 0};
    owner.free_.pop_back();
  }
  void give_back() {
    for (std::size_t i = 0; i < used; ++i) owner.free_.push_back(parts[i].address);
  }
  [[nodiscard]] bool append(const iovec& piece);
  void put_checksum_v6(std::size_t payload);
  void put_descriptors();
};

// False: not all of the piece is readable.
[[gnu::always_inline]] inline bool XdpTransmit::Frame::append(const iovec& piece) {
  for (std::size_t done = 0; done < piece.iov_len;) {
    if (parts[used - 1].size == kXdpChunkBytes) take_chunk();
    Part& part = parts[used - 1];
    const std::size_t take = std::min<std::size_t>(piece.iov_len - done, kXdpChunkBytes - part.size);
    if (!memory::copy(bytes(part) + part.size, static_cast<const std::byte*>(piece.iov_base) + done, take)) [[unlikely]]
      return false;
    part.size += take;
    done += take;
  }
  return true;
}

[[gnu::always_inline]] inline void XdpTransmit::Frame::put_checksum_v6(std::size_t payload) {
  static_assert(kPartsMax >= 2 && kXdpChunkBytes % 2 == 0);
  const ConstBytes first{bytes(parts[0]), parts[0].size};
  std::uint64_t rest = 0;
  for (std::size_t i = 1; i < used; ++i) rest += internet_sum({bytes(parts[i]), parts[i].size});
  store_be16(bytes(parts[0]) + kUdpChecksumAtV6, udp_checksum_v6(first, payload, rest));
}

[[gnu::always_inline]] inline void XdpTransmit::Frame::put_descriptors() {
  for (std::size_t i = 0; i < used; ++i) {
    xdp_desc& descriptor = owner.transmit_.at(owner.filled_++);
    descriptor.addr = parts[i].address;
    descriptor.len = static_cast<std::uint32_t>(parts[i].size);
    descriptor.options = i + 1 < used ? kXdpPacketContinues : 0;
  }
}

// Headers, then the pieces. False: a piece is not readable; its chunks are free again.
bool XdpTransmit::write_packet(const Transmit& transmit, std::size_t index, const Way& way) {
  const PacketPieces& packet = scratch_->packets[index];
  const std::span<const iovec> pieces{scratch_->pieces.data() + packet.first, packet.count};
  std::size_t payload = 0;
  for (const iovec& piece : pieces) payload += piece.iov_len;
  const FrameHeaders headers{.source = transmit.source,
                             .destination = transmit.destination,
                             .source_port = way.source_port,
                             .destination_port = way.destination_port,
                             .traffic_class = transmit.traffic_class,
                             .hop_limit = transmit.hop_limit == 0 ? std::uint8_t{64} : transmit.hop_limit,
                             .identification = way.ids_count ? static_cast<std::uint16_t>(index) : std::uint16_t{0}};
  Frame frame{*this};
  frame.take_chunk();
  Frame::Part& first = frame.parts[0];
  first.size = write_frame_headers(headers, way.hop->destination, way.hop->source, payload, frame.bytes(first));
  for (const iovec& piece : pieces) {
    if (frame.append(piece)) [[likely]]
      continue;
    frame.give_back();
    return false;
  }
  if (!transmit.destination.is_v4()) frame.put_checksum_v6(payload);
  frame.put_descriptors();
  return true;
}

// Until the kernel has taken everything in the ring. Adds the packets that the interface dropped to `refused`.
XdpTransmit::Report::Outcome XdpTransmit::kick(std::uint32_t& refused) {
  using Outcome = Report::Outcome;
  for (unsigned i = 0; i < kKicksMax; ++i) {
    if (!transmit_.needs_wakeup() || transmit_.taken() == filled_) return Outcome::kSent;
    if (::syscall(SYS_sendto, fd(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) >= 0) continue;
    switch (errno) {
      case EAGAIN:  // its budget is used up, or the driver's queue is full
      case EINTR:
        break;
      case EBUSY:  // it dropped one
        ++refused;
        --sent_;
        break;
      case ENOBUFS:
      case ENOMEM:
        return Outcome::kWaits;
      case ENETDOWN:  // for now; the ring's packets leave later, as late copies
        late_copies_.add(batch_begin_, filled_, transmit_.taken());
        return Outcome::kUseUdp;
      default:
        dead_ = errno;
        refused += end_ring();
        return Outcome::kUseUdp;
    }
  }
  return Outcome::kWaits;
}

// The socket is dead: what it has not taken does not leave. The number of packets that do not leave by UDP either; the
// last batch does.
std::uint32_t XdpTransmit::end_ring() {
  std::uint32_t lost = 0;
  for (std::uint32_t place = transmit_.taken(); place != filled_; ++place) {
    if ((transmit_.at(place).options & kXdpPacketContinues) != 0) continue;
    --sent_;
    const bool of_last_batch = place - batch_begin_ < filled_ - batch_begin_;
    if (!of_last_batch && !late_copies_.contains(place)) ++lost;
  }
  return lost;
}

// Packets in the ring were copied and leave with the next ones.
std::uint32_t XdpTransmit::give_up(const Transmit& transmit) {
  return std::exchange(queued_, false) ? 0 : transmit.segments;
}

}  // namespace brdma::io
