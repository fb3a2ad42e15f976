// wire/crc/small_crc.h - CRC-32 (zlib's polynomial) of the start of a RoCEv2 packet, or of all of a small one, by
// carry-less multiplication. A library's code takes any number of bytes and needs BTH masked in memory. That costs a
// copy, or a byte written right before it is read as part of a vector, for which the processor waits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace brdma::wire {

// Longer runs go to code that folds more bytes at a time.
inline constexpr std::size_t kSmallCrcMin = 16, kSmallCrcMax = 252;

namespace internal {
extern const bool small_crc_able;  // this machine has the instructions
}
// True for a supported size: a multiple of four, as the bytes before a packet's payload and the padded payload are.
[[nodiscard]] inline bool small_crc_takes(std::size_t size) {
  return internal::small_crc_able && size >= kSmallCrcMin && size <= kSmallCrcMax && size % 4 == 0;
}

// A running CRC (zlib's convention: complemented before and after) over `packet`, which begins with BTH: its byte 4
// counts as 0xff. Precondition: small_crc_takes(packet.size()).
[[nodiscard]] std::uint32_t small_crc(std::uint32_t crc, ConstBytes packet);

}  // namespace brdma::wire
