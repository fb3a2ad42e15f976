#include "sim/packet_pool.h"

namespace brdma::sim {

PacketIndex PacketPool::take() {
  if (free_.empty()) {
    packets_.emplace_back();
    return static_cast<PacketIndex>(packets_.size() - 1);
  }
  const PacketIndex index = free_.back();
  free_.pop_back();
  Packet& packet = packets_[index];
  packet.frame_bytes = 0;
  packet.spoilt = false;
  packet.bytes.clear();
  return index;
}

std::optional<PacketIndex> PacketPool::duplicate(PacketIndex index) {
  const PacketIndex copy = take();
  packets_[copy] = packets_[index];
  return copy;
}

void PacketPool::corrupt(PacketIndex index, std::uint64_t random) {
  packets_[index].spoilt = true;
  if (packets_[index].frame_bytes != 0) return;
  auto& bytes = packets_[index].bytes;
  if (bytes.empty()) return;
  const std::uint64_t bit = random % (bytes.size() * 8);
  bytes[bit / 8] ^= std::byte{1} << (bit % 8);
}

}  // namespace brdma::sim
