// base/fetch_ahead.h - memory that will be needed soon comes into the cache meanwhile: what it takes overlaps with
// other work, and with each other. A hint: no address is wrong.
#pragma once

#include <cstddef>
#include <cstdint>

namespace brdma {

inline void fetch_ahead(const void* data, std::size_t bytes) {
  constexpr std::uintptr_t kLine = 64;
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  for (std::uintptr_t at = begin & ~(kLine - 1); at < begin + bytes; at += kLine)
    __builtin_prefetch(reinterpret_cast<const void*>(at));
}

}  // namespace brdma
