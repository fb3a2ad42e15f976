// memory/copy.h - copying into memory that another thread of the program watches.
#pragma once

#include <cstddef>

#include "base/bytes.h"
#include "memory/guard.h"

namespace brdma {

// The end becomes visible after all else: programs wait for a WRITE by polling its last byte, or its last word. A copy
// keeps no order by itself. An aligned last word of eight bytes appears as a whole; otherwise the last byte does.
// False: part of the memory is missing (memory/guard.h).
[[nodiscard]] inline bool copy_end_last(std::byte* to, ConstBytes from) {
  return from.empty() || memory::place(to, from.data(), from.size());
}

}  // namespace brdma
