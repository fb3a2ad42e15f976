// fabric/routing/mac_table.h - the port of each MAC address, by its last frame. A fixed table with linear probing:
// frames to addresses without a place in it are flooded, which is slow but right. Nothing ages: a lab is short-lived,
// and the next frame updates a moved address.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "fabric/routing/frame.h"

namespace brdma::fabric {

class MacTable {
 public:
  void learn(MacAddress source, std::uint32_t port) {
    if (is_group(source) || source == 0) return;
    for (std::size_t i = 0; i < kProbesMax; ++i) {
      Entry& entry = entries_[slot(source, i)];
      if (entry.mac != 0 && entry.mac != source) continue;
      entry = {source, port};
      return;
    }
  }
  [[nodiscard]] std::optional<std::uint32_t> find(MacAddress destination) const {
    if (is_group(destination)) return std::nullopt;
    for (std::size_t i = 0; i < kProbesMax; ++i) {
      const Entry& entry = entries_[slot(destination, i)];
      if (entry.mac == destination) return entry.port;
      if (entry.mac == 0) break;
    }
    return std::nullopt;
  }

 private:
  static constexpr std::size_t kSlots = 1024;
  static constexpr std::size_t kProbesMax = 16;
  struct Entry {
    MacAddress mac = 0;  // 0 = free: no host has it
    std::uint32_t port = 0;
  };
  static std::size_t slot(MacAddress mac, std::size_t probe) {
    return static_cast<std::size_t>(((mac * 0x9E3779B97F4A7C15u) >> 54) + probe) % kSlots;
  }
  std::array<Entry, kSlots> entries_{};
};

}  // namespace brdma::fabric
