// wire/crc/crc_polynomial.h - CRC-32 as arithmetic on polynomials over GF(2): the effect of changed bytes on a packet's
// CRC, without reading the packet again. Reflected as the CRC is: bit 31 is x^0, bit 0 is x^31.
#pragma once

#include <cstddef>
#include <cstdint>

namespace brdma::wire::crc {

inline constexpr std::uint32_t kPolynomial = 0xEDB8'8320;
inline constexpr std::uint32_t kOne = 0x8000'0000;

[[nodiscard]] constexpr std::uint32_t times_x(std::uint32_t a) { return (a >> 1) ^ ((a & 1) != 0 ? kPolynomial : 0); }

[[nodiscard]] constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = times_x(b);
  }
  return product;
}

// x^(8n): the effect of n bytes of input on the register.
[[nodiscard]] constexpr std::uint32_t shift_by_bytes(std::size_t n) {
  std::uint32_t power = kOne >> 8;  // x^8
  std::uint32_t result = kOne;
  for (; n != 0; n >>= 1) {
    if ((n & 1) != 0) result = multiply(result, power);
    power = multiply(power, power);
  }
  return result;
}

}  // namespace brdma::wire::crc
