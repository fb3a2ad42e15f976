#include "sim/packet_pool.h"

namespace brdma::sim {

PacketIndex PacketPool::take() {
  if (free_.empty()) {
    packets_.emplace_back();
    return static_cast<PacketIndex>(packets_.size() - 1);
  }
  const PacketIndex index = free_.back();
  free_.pop_back();
  packets_[index].bytes.clear();
  return index;
}

std::optional<PacketIndex> PacketPool::duplicate(PacketIndex index) {
  const PacketIndex copy = take();
  packets_[copy] = packets_[index];
  return copy;
}

void PacketPool::corrupt(PacketIndex index, std::uint64_t random) {
  auto& bytes = packets_[index].bytes;
  if (bytes.empty()) return;
  const std::uint64_t bit = random % (bytes.size() * 8);
  bytes[bit / 8] ^= std::byte{1} << (bit % 8);
}

}  // namespace brdma::sim
