// A polynomial over GF(2) is written as CRC-32 has it: the coefficient of its highest power is bit 0. Where two 64-bit
// values a and b are polynomials below x^64 in that way, the 128 bits of their carry-less product are a * b * x: hence
// exponents here are one less than one expects.
#include "wire/small_crc.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#include <array>
#endif

namespace brdma::wire {

#if defined(__x86_64__)
namespace {

constexpr std::size_t kBlock = 16, kWord = 4;
constexpr std::uint64_t kPolynomial = 0x1'DB71'0641;  // with its x^32
constexpr std::uint64_t kQuotient = 0x1'F701'1641;    // x^64 divided by it

bool machine_can() {
  constexpr unsigned kPclmul = 1u << 1, kOsxsaveAndAvx = (1u << 27) | (1u << 28);
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & kPclmul) != 0 && (c & kOsxsaveAndAvx) == kOsxsaveAndAvx;
}

// x^exponent modulo the polynomial, as a polynomial below x^64.
constexpr std::uint64_t power(std::size_t exponent) {
  std::uint64_t value = 0x8000'0000;  // 1, below x^32
  for (; exponent > 0; --exponent) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial >> 1 : 0);
  return value << 32;
}

struct alignas(kBlock) Factors {
  std::uint64_t low = 0, high = 0;  // of a block's first and second eight bytes
};
// What a block is multiplied by where so many bytes follow it.
constexpr Factors factors(std::size_t bytes_behind) {
  return {power(8 * bytes_behind + 63), power(8 * bytes_behind - 1)};
}

constexpr auto kFactors = [] {
  std::array<Factors, (kSmallCrcMax - kBlock) / kWord + 1> table{};
  for (std::size_t words = 1; words < table.size(); ++words) table[words] = factors(words * kWord);
  return table;
}();

// Byte 4 of BTH (FECN, BECN, reserved) is masked.
constexpr Factors kMasked{0xFF'0000'0000, 0};
// Read from `n` bytes in: keeps the last n bytes of a block.
alignas(kBlock) constexpr std::array<std::uint64_t, 4> kKeepLast{0, 0, ~std::uint64_t{0}, ~std::uint64_t{0}};
constexpr Factors kTo96And64{power(95), power(63)}, kDivision{kQuotient, kPolynomial};
constexpr Factors kLast32{0xFFFF'FFFF, 0xFFFF'FFFF};

#define BRDMA_CLMUL [[gnu::target("avx,pclmul"), gnu::always_inline]] inline

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

}  // namespace

const bool internal::small_crc_able = machine_can();

// The first block by itself; those that end where the packet ends one after the other, without a loop, which would be
// as many instructions again; what lies between as a block that begins with zeros.
[[gnu::target("avx,pclmul")]] std::uint32_t small_crc(std::uint32_t crc, ConstBytes packet) {
  const std::byte* const begin = packet.data();
  const std::byte* const end = begin + packet.size();
  const __m128i first =
      _mm_xor_si128(_mm_or_si128(load(begin), load(&kMasked)), _mm_cvtsi32_si128(static_cast<int>(~crc)));
  const std::size_t behind = packet.size() - kBlock;
  if (behind == 0) return ~reduce(first);
  __m128i rest = _mm_setzero_si128();
  if (const std::size_t odd = behind % kBlock; odd != 0)
    rest = _mm_and_si128(load(begin + odd), load(reinterpret_cast<const std::byte*>(kKeepLast.data()) + odd));
#define BRDMA_BLOCK(n)                                                                   \
  case n:                                                                                \
    rest = _mm_xor_si128(times(rest, kFactors[kBlock / kWord]), load(end - (n)*kBlock)); \
    [[fallthrough]];
  switch (behind / kBlock) {
    BRDMA_BLOCK(14)
    BRDMA_BLOCK(13)
    BRDMA_BLOCK(12)
    BRDMA_BLOCK(11)
    BRDMA_BLOCK(10)
    BRDMA_BLOCK(9)
    BRDMA_BLOCK(8)
    BRDMA_BLOCK(7)
    BRDMA_BLOCK(6)
    BRDMA_BLOCK(5)
    BRDMA_BLOCK(4)
    BRDMA_BLOCK(3)
    BRDMA_BLOCK(2)
    BRDMA_BLOCK(1)
    default:
      break;
  }
#undef BRDMA_BLOCK
  return ~reduce(_mm_xor_si128(rest, times(first, kFactors[behind / kWord])));
}
static_assert((kSmallCrcMax - kBlock) / kBlock == 14);

#undef BRDMA_CLMUL
#else

const bool internal::small_crc_able = false;
std::uint32_t small_crc(std::uint32_t crc, ConstBytes) { return crc; }

#endif

}  // namespace brdma::wire
