// io/shard/slot_filter.h - is a packet for a queue pair of this shard? The kernel steers a merged message whole, by its
// first packet; another slot's packet in it must not reach our queue pairs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace brdma::io {

class SlotFilter {
 public:
  // The leased slot, and how many low bits of a queue pair number it has.
  SlotFilter(std::uint32_t slot, std::uint32_t bits) : slot_(slot), mask_((1u << bits) - 1) {}

  // `slots`: all of the engine's. A packet too short for a queue pair number passes: the engine counts it.
  [[nodiscard]] bool passes(ConstBytes packet, const std::vector<std::uint32_t>& slots) const {
    constexpr std::size_t kQpn = 5;  // of BTH
    if (packet.size() < kQpn + 3 || (load_be16(&packet[kQpn + 1]) & mask_) == slot_) [[likely]]
      return true;
    const std::uint32_t qpn = load_be24(&packet[kQpn]);
    constexpr std::uint32_t kMulticastQpn = 0xFF'FFFF;  // received by every socket
    return qpn == kMulticastQpn || std::ranges::find(slots, qpn & mask_) != slots.end();
  }

 private:
  std::uint32_t slot_, mask_;
};

}  // namespace brdma::io
