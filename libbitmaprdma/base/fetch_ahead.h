// base/fetch_ahead.h - prefetch of memory into the cache: its latency overlaps with other work and other prefetches. A
// hint: no address is wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace brdma {

namespace internal {
// Without a visible effect, GCC removes calls of a function that only prefetches.
inline void has_an_effect() { __asm__ volatile(""); }
}  // namespace internal

inline void fetch_ahead(const void* data, std::size_t bytes) {
  constexpr std::uintptr_t kLine = 64;
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  for (std::uintptr_t at = begin & ~(kLine - 1); at < begin + bytes; at += kLine)
    __builtin_prefetch(reinterpret_cast<const void*>(at));
  internal::has_an_effect();
}
// Likewise for a size known at compile time: an instruction a line.
template <std::size_t kBytes>
void fetch_ahead(const void* data) {
  constexpr std::size_t kLine = 64;
  const auto* const bytes = static_cast<const char*>(data);
  [bytes]<std::size_t... kPlace>(std::index_sequence<kPlace...>) {
    (__builtin_prefetch(bytes + kPlace * kLine), ...);
    internal::has_an_effect();
  }
  (std::make_index_sequence<(kBytes + kLine - 1) / kLine>());
  if constexpr (kBytes > 1) __builtin_prefetch(bytes + kBytes - 1);
  internal::has_an_effect();
}

}  // namespace brdma
