// base/seed.h - the seed of all random numbers of a run: 64 bits for repeatable runs, 128 from the kernel
// (io/system/secret_seed.h) for unpredictable ones.
#pragma once

#include <cstdint>

namespace brdma {

struct Seed {
  constexpr Seed(std::uint64_t low = 1, std::uint64_t high = 0) : low(low), high(high) {}  // a number is a seed
  std::uint64_t low, high;
};

}  // namespace brdma
