// sim/packet_pool.h - the packets in flight in a world. Links carry indices; buffers are reused, so a running world
// does not allocate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "base/units.h"

namespace brdma::sim {

struct Packet {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint16_t ip_id = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  Instant arrived;  // at the host's socket
  // A frame of a model (station.h): its bytes are the model's own, and this is its size on the wire. 0: none; the size
  // is that of the bytes and the headers.
  std::uint32_t frame_bytes = 0;
  bool spoilt = false;           // a bit was flipped; of frames, whose bytes stay
  std::vector<std::byte> bytes;  // UDP payload: BTH .. ICRC
};

using PacketIndex = std::uint32_t;

// Also the part of a fabric::Link's owner that handles packets.
class PacketPool {
 public:
  PacketIndex take();
  void give_back(PacketIndex index) { free_.push_back(index); }
  [[nodiscard]] Packet& operator[](PacketIndex index) { return packets_[index]; }
  [[nodiscard]] std::size_t in_use() const { return packets_.size() - free_.size(); }

  std::optional<PacketIndex> duplicate(PacketIndex index);
  void corrupt(PacketIndex index, std::uint64_t random);  // flips one bit
  void discard(PacketIndex index) { give_back(index); }

 private:
  std::deque<Packet> packets_;  // references stay valid while it grows
  std::vector<PacketIndex> free_;
};

}  // namespace brdma::sim
