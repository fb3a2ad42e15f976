#include "wire/crc/wide_crc.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include <array>

#include "wire/crc/clmul.h"
#endif

namespace brdma::wire {

#if defined(__x86_64__)
namespace {

using namespace clmul;  // a source file, no header

constexpr std::size_t kVector = 32;
constexpr std::size_t kVectors = 4;  // at a time: a product is awaited only when the next three are in progress
constexpr std::size_t kStride = kVectors * kVector;
static_assert(kWideCrcMin >= kStride);

struct Cpuid {
  unsigned a = 0, b = 0, c = 0, d = 0;
  Cpuid(unsigned leaf, unsigned subleaf) { __get_cpuid_count(leaf, subleaf, &a, &b, &c, &d); }
};

// Registers that the system saves per thread: the halves of AVX, and the additions of AVX-512.
std::uint64_t kept_registers() {
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

constexpr std::uint64_t kAvxKept = 0x06, kAvx512Kept = 0xE6;

bool machine_can() {
  constexpr unsigned kFirst = 1u << 1 | 1u << 27 | 1u << 28;  // leaf 1, ecx: PCLMULQDQ, OSXSAVE, AVX
  constexpr unsigned kAvx2 = 1u << 5;                         // leaf 7, ebx
  constexpr unsigned kVpclmulqdq = 1u << 10;                  // leaf 7, ecx
  if ((Cpuid{1, 0}.c & kFirst) != kFirst || (kept_registers() & kAvxKept) != kAvxKept) return false;
  const Cpuid more{7, 0};
  return (more.b & kAvx2) != 0 && (more.c & kVpclmulqdq) != 0;
}
bool has_avx512() {
  constexpr unsigned kAvx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // leaf 7, ebx: F, DQ, BW, VL
  return (Cpuid{7, 0}.b & kAvx512) == kAvx512 && (kept_registers() & kAvx512Kept) == kAvx512Kept;
}

#define BRDMA_WIDE [[gnu::target("avx2,pclmul,vpclmulqdq"), gnu::always_inline]] inline

BRDMA_WIDE __m256i load_wide(const std::byte* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }
BRDMA_WIDE __m256i both_lanes(const Factors& factors) { return _mm256_broadcastsi128_si256(load(&factors)); }

// Each lane times the factors, xor `next`.
BRDMA_WIDE __m256i fold(__m256i vector, __m256i by, __m256i next) {
  const __m256i first = _mm256_clmulepi64_epi128(vector, by, 0x00), second = _mm256_clmulepi64_epi128(vector, by, 0x11);
  return _mm256_xor_si256(_mm256_xor_si256(first, next), second);
}

constexpr Factors kByStride = factors(kStride), kByBlock = factors(kBlock);
constexpr std::array<Factors, kVectors> kByVectors{Factors{}, factors(kVector), factors(2 * kVector),
                                                   factors(3 * kVector)};

}  // namespace

const bool internal::wide_crc_able = machine_can();
const bool internal::wide_crc_pays = wide_crc_able && !has_avx512();

[[gnu::target("avx2,pclmul,vpclmulqdq")]] std::uint32_t wide_crc(std::uint32_t crc, ConstBytes bytes) {
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size();
  __m256i a = load_wide(at), b = load_wide(at + kVector), c = load_wide(at + 2 * kVector),
          d = load_wide(at + 3 * kVector);
  a = _mm256_xor_si256(a, _mm256_zextsi128_si256(_mm_cvtsi32_si128(static_cast<int>(~crc))));
  const __m256i by = both_lanes(kByStride);
  for (at += kStride; static_cast<std::size_t>(end - at) >= kStride; at += kStride) {
    a = fold(a, by, load_wide(at));
    b = fold(b, by, load_wide(at + kVector));
    c = fold(c, by, load_wide(at + 2 * kVector));
    d = fold(d, by, load_wide(at + 3 * kVector));
  }
  d = fold(a, both_lanes(kByVectors[3]), d);
  d = fold(b, both_lanes(kByVectors[2]), d);
  d = fold(c, both_lanes(kByVectors[1]), d);
  for (; static_cast<std::size_t>(end - at) >= kVector; at += kVector)
    d = fold(d, both_lanes(kByVectors[1]), load_wide(at));
  __m128i rest = _mm_xor_si128(times(_mm256_castsi256_si128(d), kByBlock), _mm256_extracti128_si256(d, 1));
  if (at != end) rest = _mm_xor_si128(times(rest, kByBlock), load(at));
  return ~reduce(rest);
}

#else

const bool internal::wide_crc_able = false, internal::wide_crc_pays = false;
std::uint32_t wide_crc(std::uint32_t crc, ConstBytes) { return crc; }

#endif

}  // namespace brdma::wire
