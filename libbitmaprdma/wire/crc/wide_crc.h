// wire/crc/wide_crc.h - CRC-32 (zlib's polynomial) of long runs of bytes, 32 bytes at a time without carries. For
// machines with AVX2 and VPCLMULQDQ but no AVX-512, as AMD's Zen 3 and Intel's Alder Lake: isa-l takes 16 bytes at a
// time there, twice as long. With AVX-512 isa-l takes 64.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace brdma::wire {

inline constexpr std::size_t kWideCrcMin = 256;

namespace internal {
extern const bool wide_crc_able;  // this machine has the instructions
extern const bool wide_crc_pays;  // and isa-l would not be faster
}  // namespace internal
[[nodiscard]] inline bool wide_crc_takes(std::size_t size) { return size >= kWideCrcMin && size % 16 == 0; }

// A running CRC (zlib's convention: complemented before and after) over `bytes`.
// Precondition: wide_crc_able, wide_crc_takes(bytes.size()).
[[nodiscard]] std::uint32_t wide_crc(std::uint32_t crc, ConstBytes bytes);

}  // namespace brdma::wire
