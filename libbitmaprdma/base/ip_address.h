// base/ip_address.h - an IP address in the form of a RoCEv2 GID: 16 bytes, IPv4 as ::ffff:a.b.c.d (IBTA annex A17).
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>

namespace brdma {

struct IpAddress {
  std::array<std::uint8_t, 16> bytes{};

  static constexpr IpAddress v4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d) {
    return IpAddress{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, a, b, c, d}};
  }
  [[nodiscard]] constexpr bool is_v4() const {
    // Ten bytes 0, two bytes 0xff: the first word, and the first half of the second.
    const auto both = words();
    return both[0] == 0 && static_cast<std::uint32_t>(both[1]) == 0xFFFF'0000;
  }
  [[nodiscard]] constexpr bool is_zero() const { return *this == IpAddress{}; }
  // As two words: a comparison of bytes is a call of the C library, twice a packet.
  [[nodiscard]] constexpr std::array<std::uint64_t, 2> words() const {
    return std::bit_cast<std::array<std::uint64_t, 2>>(bytes);
  }
  [[gnu::always_inline]] friend constexpr bool operator==(const IpAddress& a, const IpAddress& b) {
    const auto x = a.words(), y = b.words();
    return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
  }
  friend constexpr auto operator<=>(const IpAddress& a, const IpAddress& b) { return a.bytes <=> b.bytes; }
};

}  // namespace brdma
