// brdma-switch/datapath/transmit_batch.h - packets that leave by one port at the same time, in as few messages as
// possible. Consecutive datagrams of one flow and size are joined into one frame, which the receiving host's kernel
// takes at once. Nothing is copied: the first packet's headers, then every packet's payload in place. Joining is
// invisible to a host: lengths, identifications and order are those of the single packets.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "datapath/packet_port.h"
#include "fabric/packet_pool.h"
#include "forwarding/switch_packet.h"

namespace brdma::lab {

class TransmitBatch {
 public:
  static constexpr std::size_t kPacketsMax = 256;
  static constexpr std::size_t kJoinedMax = 64;           // every kernel with this offload takes so many segments
  static constexpr std::size_t kJoinedBytesMax = 65'000;  // below the 65'535 of an IP packet

  TransmitBatch(fabric::PacketPool& pool, bool join) : pool_(pool), join_(join) {}

  [[nodiscard]] bool full() const { return packet_count_ == kPacketsMax; }
  [[nodiscard]] bool empty() const { return packet_count_ == 0; }
  // Takes the packet's buffer. Precondition: not full.
  void add(const SwitchPacket& packet);
  // Sends and gives all buffers back. Returns the number of packets that the kernel refused.
  std::size_t flush(PacketPort& port);

 private:
  struct Message {
    SwitchPacket first;
    std::size_t segments = 0;
    std::size_t payload_size = 0;  // of each segment but the last
    std::size_t total_payload = 0;
    std::size_t first_iovec = 0;
    bool closed = false;  // a shorter segment came: it must be the last
  };
  [[nodiscard]] bool joins(const Message& message, const SwitchPacket& packet);
  void finish(Message& message, std::size_t index);

  fabric::PacketPool& pool_;
  bool join_;
  std::size_t packet_count_ = 0, message_count_ = 0, iovec_count_ = 0;
  std::array<fabric::PacketPool::Index, kPacketsMax> buffers_{};
  std::array<Message, kPacketsMax> messages_{};
  std::array<iovec, 3 * kPacketsMax> iovecs_{};
  std::array<OffloadHeader, kPacketsMax> offloads_{};
  std::array<mmsghdr, kPacketsMax> headers_{};
};

}  // namespace brdma::lab
