// base/seed.h - what all random numbers of a run begin from. 64 bits, where a run is to repeat; 128 from the kernel
// (io/system/secret_seed.h) for whoever must not be guessed.
#pragma once

#include <cstdint>

namespace brdma {

struct Seed {
  constexpr Seed(std::uint64_t low = 1, std::uint64_t high = 0) : low(low), high(high) {}  // a number is a seed
  std::uint64_t low, high;
};

}  // namespace brdma
