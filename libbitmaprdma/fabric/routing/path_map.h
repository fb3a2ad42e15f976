// fabric/routing/path_map.h - the path of a flow among several: one UDP source port, one path, as routers choose
// equal-cost paths by addresses and ports. The order of a source's ports replaces a hash: the n ports of a queue pair
// take n different paths, as a hash would do only by chance.
// A fixed table with linear probing; flows without a place in it use their port number. Nothing ages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace brdma::fabric {

class PathMap {
 public:
  // `source`: 48 bits, not 0 (a MAC address, a host's number). No flow has port 0.
  std::uint32_t find(std::uint64_t source, std::uint16_t port) {
    Entry* const flow = entry(source << 16 | port);
    if (flow == nullptr) return port;
    if (flow->is_new) {
      Entry* const seen = entry(source << 16);  // number of its known flows
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
