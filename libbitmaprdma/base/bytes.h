// base/bytes.h - loads and stores in wire order. The caller has checked the size: a view's size is fixed before it
// reads.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace brdma {

using ConstBytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

[[nodiscard]] inline std::uint8_t load_u8(const std::byte* p) { return std::to_integer<std::uint8_t>(*p); }
[[nodiscard]] inline std::uint16_t load_be16(const std::byte* p) {
  std::uint16_t v;
  std::memcpy(&v, p, 2);
  return __builtin_bswap16(v);
}
[[nodiscard]] inline std::uint32_t load_be32(const std::byte* p) {
  std::uint32_t v;
  std::memcpy(&v, p, 4);
  return __builtin_bswap32(v);
}
[[nodiscard]] inline std::uint32_t load_be24(const std::byte* p) {
  return (std::uint32_t{load_u8(p)} << 16) | load_be16(p + 1);
}
[[nodiscard]] inline std::uint64_t load_be64(const std::byte* p) {
  std::uint64_t v;
  std::memcpy(&v, p, 8);
  return __builtin_bswap64(v);
}
inline void store_u8(std::byte* p, std::uint8_t v) { *p = std::byte{v}; }
inline void store_be16(std::byte* p, std::uint16_t v) {
  v = __builtin_bswap16(v);
  std::memcpy(p, &v, 2);
}
inline void store_be32(std::byte* p, std::uint32_t v) {
  v = __builtin_bswap32(v);
  std::memcpy(p, &v, 4);
}
inline void store_be24(std::byte* p, std::uint32_t v) {
  store_u8(p, static_cast<std::uint8_t>(v >> 16));
  store_be16(p + 1, static_cast<std::uint16_t>(v));
}
inline void store_be64(std::byte* p, std::uint64_t v) {
  v = __builtin_bswap64(v);
  std::memcpy(p, &v, 8);
}
// Little endian: byte order of the ICRC.
[[nodiscard]] inline std::uint32_t load_le32(const std::byte* p) {
  std::uint32_t v;
  std::memcpy(&v, p, 4);
  return v;
}
inline void store_le32(std::byte* p, std::uint32_t v) { std::memcpy(p, &v, 4); }

static_assert(std::endian::native == std::endian::little, "the byte swaps above assume a little-endian machine");

}  // namespace brdma
