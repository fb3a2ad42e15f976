// brdma-switch/datapath/packet_port.h - one port of the switch: packet sockets on the near end of a host's veth pair.
// Frames come through memory-mapped rings (TPACKET_V2): no call for each frame, and each is visible as soon as it is
// complete. Their size does not depend on net.core.rmem_max, which users cannot raise. Frames leave by sendmmsg. In
// both directions an OffloadHeader marks a checksum that is left to be completed, and a batch of datagrams.
//
// A ring's slots are as long as its longest frame, and a batch may have 64 KB. So batches have a ring of their own with
// few long slots, and single frames another with many short ones. A filter on each socket selects by length.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/bytes.h"
#include "io/system/file_descriptor.h"

namespace brdma::lab {

// struct virtio_net_hdr of the kernel's ABI, in front of each frame, in both directions. Defined here because
// <linux/virtio_net.h> is not valid C++ and, on some systems, lacks batches of datagrams.
struct OffloadHeader {
  std::uint8_t flags = 0;  // kNeedsChecksum
  std::uint8_t gso_type = 0;
  std::uint16_t header_size = 0;
  std::uint16_t gso_size = 0;         // payload bytes of each segment
  std::uint16_t checksum_start = 0;   // with kNeedsChecksum: the sum starts here, ...
  std::uint16_t checksum_offset = 0;  // ... and is stored at this offset from there
};
static_assert(sizeof(OffloadHeader) == 10);
inline constexpr std::uint8_t kNeedsChecksum = 1;
inline constexpr std::uint8_t kGsoNone = 0;
inline constexpr std::uint8_t kGsoUdpDatagrams = 5;  // Linux 6.2 on

struct ReceivedFrame {
  ConstBytes bytes;  // in the ring, until release()
  OffloadHeader offload;
  std::int64_t arrival_ns = 0;  // by the kernel's real-time clock: only for comparison with each other
  bool truncated = false;
};

// A packet socket that receives the frames of one range of lengths.
class ReceiveRing {
 public:
  // Frames of length_min to length_max bytes. Throws std::system_error.
  ReceiveRing(const std::string& interface, std::size_t length_min, std::size_t length_max, std::size_t ring_bytes);
  ~ReceiveRing();
  ReceiveRing(const ReceiveRing&) = delete;
  ReceiveRing& operator=(const ReceiveRing&) = delete;

  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] std::optional<ReceivedFrame> receive() const;  // the oldest frame; the same one until release()
  void release();
  [[nodiscard]] std::uint64_t take_overruns();

 private:
  [[nodiscard]] std::byte* slot() const;

  io::FileDescriptor socket_;
  std::byte* ring_ = nullptr;
  std::size_t ring_bytes_ = 0;
  std::size_t block_size_ = 0, frames_per_block_ = 0, frame_size_ = 0, frame_count_ = 0;
  std::size_t next_ = 0;
};

class PacketPort {
 public:
  // Throws std::system_error with a sentence. `frame_max`: the longest single frame; `batches`: longer ones come too.
  PacketPort(const std::string& interface, std::size_t frame_max, bool batches, std::size_t ring_bytes);

  // Readable when a frame is there.
  [[nodiscard]] int single_fd() const { return singles_.fd(); }
  [[nodiscard]] int batch_fd() const { return batches_ ? batches_->fd() : -1; }

  [[nodiscard]] std::optional<ReceivedFrame> receive();  // in the order of arrival; the same one until release()
  void release() { received_from_->release(); }
  // Number of `messages` that the kernel took (each: OffloadHeader, then the frame); 0 if the first was refused.
  std::size_t send(std::span<mmsghdr> messages);
  // Frames lost since the last call because a ring was full: the switch was too slow.
  [[nodiscard]] std::uint64_t take_overruns();

  // Whether this kernel passes batches of datagrams through packet sockets. `interface` must be up; the probe has no
  // receiver.
  [[nodiscard]] static bool passes_datagram_batches(const std::string& interface);

 private:
  ReceiveRing singles_;
  std::optional<ReceiveRing> batches_;
  ReceiveRing* received_from_ = nullptr;
  bool past_queueing_ = true;
};

}  // namespace brdma::lab
