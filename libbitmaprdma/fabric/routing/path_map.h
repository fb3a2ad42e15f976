// fabric/routing/path_map.h - which of several paths a flow takes, as routers with equal-cost paths choose by addresses
// and ports: one UDP source port, one path. In place of a hash the order counts in which the ports of a source are seen
// first: so the n ports of a queue pair take n different paths, which a hash would give them by chance only.
// A fixed table with linear probing; flows that find no place in it go by their port number. Nothing ages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace brdma::fabric {

class PathMap {
 public:
  // `source`: 48 bits, not 0 (a MAC address, a host's number). Port 0 is no flow's.
  std::uint32_t find(std::uint64_t source, std::uint16_t port) {
    Entry* const flow = entry(source << 16 | port);
    if (flow == nullptr) return port;
    if (flow->is_new) {
      Entry* const seen = entry(source << 16);  // how many of its flows are known
      flow->is_new = false;
      flow->value = seen == nullptr ? port : seen->value++;
      if (seen != nullptr) seen->is_new = false;
    }
    return flow->value;
  }

 private:
  static constexpr std::size_t kSlots = 4096;
  static constexpr std::size_t kProbesMax = 16;
  struct Entry {
    std::uint64_t key = 0;  // 0 = free
    std::uint32_t value = 0;
    bool is_new = true;
  };
  [[nodiscard]] Entry* entry(std::uint64_t key) {
    for (std::size_t i = 0; i < kProbesMax; ++i) {
      Entry& place = entries_[(((key * 0x9E3779B97F4A7C15u) >> 52) + i) % kSlots];
      if (place.key == 0) place.key = key;
      if (place.key == key) return &place;
    }
    return nullptr;
  }

  std::array<Entry, kSlots> entries_{};
};

}  // namespace brdma::fabric
