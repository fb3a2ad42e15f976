// reachable.h - may this process read, or write, a range of its own memory? What the kernel finds out when it pins a
// region's pages, without pinning them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace brdma::provider {

enum class Access : std::uint8_t { kRead, kWrite };
enum class Pages : std::uint8_t {
  kAsTheyAre,  // none is made present
  kMayBeMade,  // a few may be, as if they had been touched; what is in them does not change
};

// False: a part of [address, address + length) is not mapped, its protection forbids it, or it lies behind the end of
// its file. Does not depend on how long the range is, but on how many mappings it spans.
// Kernels before 6.11, and processes without /proc, are asked about a number of pages in even distances only: true then
// says less. Any thread; errno is left as it was.
[[nodiscard]] bool is_reachable(const void* address, std::size_t length, Access access, Pages pages);

}  // namespace brdma::provider
