// memory_regions/reachable.h - checks whether this process may read, or write, a range of its own memory, as the kernel
// does when it pins a region's pages, but without pinning.
#pragma once

#include <cstddef>
#include <cstdint>

namespace brdma::provider {

enum class Access : std::uint8_t { kRead, kWrite };
enum class Pages : std::uint8_t {
  kAsTheyAre,  // none is made present
  kMayBeMade,  // a few may be, as if accessed; their contents do not change
};

// False: a part of [address, address + length) is not mapped, its protection forbids it, or it is after the end of its
// file. The cost depends on the number of mappings, not on the length. With kernels before 6.11, and in processes
// without /proc, only a number of pages at even distances is checked: true then means less. Any thread; errno is
// unchanged.
[[nodiscard]] bool is_reachable(const void* address, std::size_t length, Access access, Pages pages);

}  // namespace brdma::provider
