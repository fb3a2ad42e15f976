#include "wire/crc/small_crc.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include <array>

#include "wire/crc/clmul.h"
#endif

namespace brdma::wire {

#if defined(__x86_64__)
namespace {

using namespace clmul;  // a source file, no header

constexpr std::size_t kWord = 4;

bool machine_can() {
  constexpr unsigned kPclmul = 1u << 1, kOsxsaveAndAvx = (1u << 27) | (1u << 28);
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & kPclmul) != 0 && (c & kOsxsaveAndAvx) == kOsxsaveAndAvx;
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

}  // namespace

const bool internal::small_crc_able = machine_can();

// The first block by itself. The blocks at the packet's end one after the other: a loop would double the instructions.
// The bytes between as a block that begins with zeros.
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

#else

const bool internal::small_crc_able = false;
std::uint32_t small_crc(std::uint32_t crc, ConstBytes) { return crc; }

#endif

}  // namespace brdma::wire
