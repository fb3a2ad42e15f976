// values/message.h - the content of messages, by which the other side sees that a message is whole and the right one.
//
// Each page (4096 bytes from the message's start) begins so; the rest of it is a pattern that is written once:
//   byte 0: the message's number, xor the page's index times an odd constant (8 bytes, little endian; of a message
//   below
//           8 bytes its low bytes)
//   byte 8: CRC-32C of the page's bytes from 12 on (4 bytes); 0: none was computed. Absent in a page below 16 bytes
// Cost: some 12 bytes written and 8 read a page; with CRC, one pass over the message on each side (ISA-L).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace brdma::perf {

constexpr std::size_t kPageBytes = 4096;

// Fills memory with a pattern that differs at each place.
void fill_pattern(std::span<std::byte> memory, std::uint64_t seed);

// Writes number and, if asked for, CRCs into a message.
void seal(std::span<std::byte> message, std::uint64_t number, bool with_crc);

enum class Flaw { kNone, kNumber, kPage, kCrc };
struct Checked {
  Flaw flaw = Flaw::kNone;
  bool by_crc = false;  // at least one page's CRC was computed; a message below 16 bytes has none
};
// `with_crc`: it was sealed with CRCs. `whole`: the message ends where it was sealed to end; else (a READ of a part)
// the last page's CRC is of other bytes.
[[nodiscard]] Checked check(std::span<const std::byte> message, std::uint64_t number, bool whole, bool with_crc);
[[nodiscard]] const char* flaw_name(Flaw flaw);

}  // namespace brdma::perf
