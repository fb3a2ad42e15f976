// memory/copy.h - copying into memory that another thread of the program watches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"

namespace brdma {

// memcpy(), but where it lies: `rep movsb`, by which libraries copy some thousand bytes, takes twenty to forty times as
// long on AMD's Zen 3 where the destination begins 1 to 31 bytes behind the source, pages left aside (4096 bytes 1.7 us
// instead of 50 to 80 ns; Zen 4 is said to do the same). Pieces of 2 KiB are below what they take it for.
inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t size) {
  constexpr std::size_t kPage = 4096, kSlow = 31, kPiece = 2048;
  const auto behind = reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from);
  if (size > kPiece && (behind - 1) % kPage < kSlow) [[unlikely]] {
    std::size_t piece = kPiece;
    __asm__("" : "+r"(piece));  // of a size that it knows the compiler makes a string instruction itself
    for (; size > piece; to += piece, from += piece, size -= piece) std::memcpy(to, from, piece);
  }
  std::memcpy(to, from, size);
}

// The end becomes visible after all else: programs wait for a WRITE by polling its last byte, or the word that ends it.
// memcpy() keeps no order (for sizes of a packet it writes the end early, and its string instructions as they like). A
// word of eight bytes that ends the copy, and is aligned, appears as a whole; else the last byte does.
inline void copy_end_last(std::byte* to, ConstBytes from) {
  const std::size_t size = from.size();
  if (size == 0) return;
  std::byte* const end = to + size;
  if (size >= sizeof(std::uint64_t) && reinterpret_cast<std::uintptr_t>(end) % sizeof(std::uint64_t) == 0) {
    const std::size_t before = size - sizeof(std::uint64_t);
    std::uint64_t word;
    std::memcpy(&word, from.data() + before, sizeof word);
    copy_bytes(to, from.data(), before);
    __atomic_store_n(reinterpret_cast<std::uint64_t*>(to + before), word, __ATOMIC_RELEASE);
  } else {
    copy_bytes(to, from.data(), size - 1);
    std::byte last = from[size - 1];
    __atomic_store(end - 1, &last, __ATOMIC_RELEASE);
  }
}

}  // namespace brdma
