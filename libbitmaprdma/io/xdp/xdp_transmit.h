// io/xdp/xdp_transmit.h - the transmitting side of an AF_XDP socket from brdmad (io/xdp/xdp_protocol.h).
//
// A batch's packets are copied into chunks of shared memory, behind Ethernet, IP and UDP headers; a packet longer than
// a chunk takes two. A system call makes the kernel take them (a driver without copying may do it by itself); it is
// repeated until the kernel has taken all. Chunks come back by the completion ring. Owns copies of the descriptors. One
// thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/datagram.h"
#include "base/result.h"
#include "bitmaprdma/context.h"
#include "io/netdev/neighbours.h"
#include "io/system/file_descriptor.h"
#include "io/system/mapping.h"
#include "io/udp/split_batch.h"
#include "io/xdp/late_copies.h"
#include "io/xdp/xdp_protocol.h"
#include "io/xdp/xdp_rings.h"

namespace brdma::io {

class XdpTransmit {
 public:
  // Descriptors of an answered request, which are copied; `reply` is its reply, with transmit_chunks.
  static Result<XdpTransmit, ContextError> open(int socket_fd, int memory_fd, const XdpReply& reply);

  struct Way {
    const NextHop* hop = nullptr;
    std::uint16_t source_port = 0, destination_port = kRoceUdpPort;
    bool ids_count = true;  // IPv4's identification of a batch's packets: 0, 1, 2 ..; else all 0
  };
  struct Report {
    enum class Outcome : std::uint8_t {
      kSent,
      kWaits,   // no room, or the kernel cannot take all now: call send() again with the same batch
      kFault,   // its memory is missing; nothing has left
      kUseUdp,  // too large a batch, too long packets, the interface is down or gone; no packet of it has left
    };
    Outcome outcome = Outcome::kSent;
    // Packets that the interface dropped at once: down, without a carrier; when it is gone, those that it had not
    // taken. With any outcome: they may be of earlier batches that were still in the ring.
    std::uint32_t refused = 0;
  };
  Report send(const Transmit& transmit, const Way& way);
  // Instead of resending a waiting batch: returns the number of its packets that will not leave.
  [[nodiscard]] std::uint32_t give_up(const Transmit& transmit);

  [[nodiscard]] int fd() const { return socket_.get(); }
  // Packets put into the ring, except refused ones.
  [[nodiscard]] std::uint64_t sent() const { return sent_; }
  // The kernel's last errno when the socket died: its interface is gone. 0: it lives.
  [[nodiscard]] int dead() const { return dead_; }

 private:
  struct Scratch {
    std::array<iovec, kSplitPiecesMax> pieces;
    std::array<PacketPieces, kSegmentsMax> packets;
  };
  struct Frame;
  XdpTransmit() = default;
  [[nodiscard]] bool map_all(int memory_fd, const XdpReply& reply);
  void reclaim();
  [[nodiscard, gnu::always_inline]] Report queue(const Transmit& transmit, const Way& way);
  [[nodiscard]] Report::Outcome kick(std::uint32_t& refused);
  [[nodiscard]] std::uint32_t end_ring();
  [[nodiscard]] bool write_packet(const Transmit& transmit, std::size_t index, const Way& way);
  [[nodiscard]] std::byte* chunk(std::uint64_t address) const { return memory_.data() + (address - first_address_); }

  FileDescriptor socket_;
  Mapping memory_, transmit_mapping_, completion_mapping_;
  XdpRing<xdp_desc> transmit_;
  XdpRing<std::uint64_t> completion_;
  std::uint64_t first_address_ = 0;
  std::vector<std::uint64_t> free_;  // chunks
  std::uint32_t filled_ = 0;         // transmit ring's next place
  std::uint32_t batch_begin_ = 0;    // place of the last batch; filled_: it is not in the ring
  LateCopies late_copies_;
  bool queued_ = false;  // the waiting batch is in the ring
  int dead_ = 0;
  std::uint64_t sent_ = 0;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace brdma::io
