// wire/crc/clmul.h - CRC-32 by carry-less multiplication: shared by small_crc.cc and wide_crc.cc. x86 only; the caller
// is compiled for `avx` and `pclmul` and has checked that the machine has them. A polynomial over GF(2) is written as
// in CRC-32: the coefficient of its highest power is bit 0. If two 64-bit values a and b are such polynomials below
// x^64, the 128 bits of their carry-less product are a * b * x; hence exponents here are one less than expected.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#define BRDMA_CLMUL [[gnu::target("avx,pclmul"), gnu::always_inline]] inline

namespace brdma::wire::clmul {

inline constexpr std::size_t kBlock = 16;
inline constexpr std::uint64_t kPolynomial = 0x1'DB71'0641;  // with its x^32
inline constexpr std::uint64_t kQuotient = 0x1'F701'1641;    // x^64 divided by it

// x^exponent modulo the polynomial, as a polynomial below x^64.
constexpr std::uint64_t power(std::size_t exponent) {
  std::uint64_t value = 0x8000'0000;  // 1, below x^32
  for (; exponent > 0; --exponent) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial >> 1 : 0);
  return value << 32;
}

struct alignas(kBlock) Factors {
  std::uint64_t low = 0, high = 0;  // of a block's first and second eight bytes
};
// The factors of a block that `bytes_behind` bytes follow.
constexpr Factors factors(std::size_t bytes_behind) {
  return {power(8 * bytes_behind + 63), power(8 * bytes_behind - 1)};
}

inline constexpr Factors kTo96And64{power(95), power(63)}, kDivision{kQuotient, kPolynomial};
inline constexpr Factors kLast32{0xFFFF'FFFF, 0xFFFF'FFFF};

BRDMA_CLMUL __m128i load(const void* at) { return _mm_loadu_si128(static_cast<const __m128i*>(at)); }

BRDMA_CLMUL __m128i times(__m128i block, const Factors& factors) {
  const __m128i by = load(&factors);
  return _mm_xor_si128(_mm_clmulepi64_si128(block, by, 0x00), _mm_clmulepi64_si128(block, by, 0x11));
}

// `sum` times x^32 modulo the polynomial: to 96 bits, to 64, and the rest by Barrett's division.
BRDMA_CLMUL std::uint32_t reduce(__m128i sum) {
  const __m128i to = load(&kTo96And64), division = load(&kDivision);
  const __m128i last32 = load(&kLast32);
  const __m128i second_half = _mm_slli_si128(_mm_srli_si128(sum, 8), 4);
  sum = _mm_xor_si128(_mm_clmulepi64_si128(sum, to, 0x00), second_half);
  sum = _mm_xor_si128(_mm_clmulepi64_si128(sum, to, 0x10), sum);  // in the upper half
  const __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(sum, last32), division, 0x01);
  const __m128i product = _mm_clmulepi64_si128(_mm_and_si128(quotient, last32), division, 0x10);
  return static_cast<std::uint32_t>(_mm_extract_epi32(sum, 3) ^ _mm_extract_epi32(product, 1));
}

}  // namespace brdma::wire::clmul
#endif
