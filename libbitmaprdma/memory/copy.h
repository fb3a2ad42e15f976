// memory/copy.h - copying into memory that another thread of the program watches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"

namespace brdma {

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
    std::memcpy(to, from.data(), before);
    __atomic_store_n(reinterpret_cast<std::uint64_t*>(to + before), word, __ATOMIC_RELEASE);
  } else {
    std::memcpy(to, from.data(), size - 1);
    std::byte last = from[size - 1];
    __atomic_store(end - 1, &last, __ATOMIC_RELEASE);
  }
}

}  // namespace brdma
