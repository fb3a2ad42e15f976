// base/bit_order.h - bit order of bitmaps: the lowest packet is the most significant bit of a word on the wire, and the
// least significant one in memory.
#pragma once

#include <cstdint>

namespace brdma {

[[nodiscard]] constexpr std::uint32_t reverse_bits(std::uint32_t v) {
  v = ((v >> 1) & 0x5555'5555u) | ((v & 0x5555'5555u) << 1);
  v = ((v >> 2) & 0x3333'3333u) | ((v & 0x3333'3333u) << 2);
  v = ((v >> 4) & 0x0F0F'0F0Fu) | ((v & 0x0F0F'0F0Fu) << 4);
  return __builtin_bswap32(v);
}

}  // namespace brdma
