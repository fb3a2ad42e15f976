// base/ip_address.h - an IP address as RoCEv2 writes it in a GID: 16 bytes, IPv4 as ::ffff:a.b.c.d (IBTA annex A17).
#pragma once

#include <array>
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
    for (std::size_t i = 0; i < 10; ++i) {
      if (bytes[i] != 0) return false;
    }
    return bytes[10] == 0xFF && bytes[11] == 0xFF;
  }
  [[nodiscard]] constexpr bool is_zero() const { return *this == IpAddress{}; }
  friend constexpr auto operator<=>(const IpAddress&, const IpAddress&) = default;
};

}  // namespace brdma
