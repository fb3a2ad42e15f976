// memory/copy.h - copying into memory that another thread of the program watches.
#pragma once

#include <cstddef>

#include "base/bytes.h"
#include "memory/guard.h"

namespace brdma {

// The end becomes visible after all else: programs wait for a WRITE by polling its last byte, or the word that ends it.
// A copy keeps no order by itself. A word of eight bytes that ends it, and is aligned, appears as a whole; else the
// last byte does. False: not all of the memory is there (memory/guard.h).
[[nodiscard]] inline bool copy_end_last(std::byte* to, ConstBytes from) {
  return from.empty() || memory::place(to, from.data(), from.size());
}

}  // namespace brdma
