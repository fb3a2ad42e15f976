// base/secret_random.h - unpredictable random numbers, for tokens, keys and numbers that peers see. Random
// (base/random.h) is faster, but four of its numbers reveal all others. The same seed gives the same numbers here too;
// outside of tests its 128 bits come from getrandom.
// SipHash-2-4 (algorithm of Aumasson and Bernstein, public domain; our own code) of a counter, with a key of 128 bits.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/random.h"
#include "base/seed.h"

namespace brdma {

class SecretRandom {
 public:
  // An independent stream for a component.
  SecretRandom(Seed seed, std::string_view component) {
    Random keys{seed.low, component};
    for (std::uint64_t& word : key_) word = keys.next();
    if (seed.high != 0) key_[1] ^= Random{seed.high, component}.next();
  }
  std::uint64_t next() {
    std::array<std::uint64_t, 4> v{key_[0] ^ 0x736F6D6570736575u, key_[1] ^ 0x646F72616E646F6Du,
                                   key_[0] ^ 0x6C7967656E657261u, key_[1] ^ 0x7465646279746573u};
    absorb(v, count_++);
    absorb(v, std::uint64_t{8} << 56);  // the length of the hashed input
    v[2] ^= 0xFF;
    for (int i = 0; i < 4; ++i) round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
  }
  // Uniform in [0, bound); bound > 0.
  std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }

 private:
  static constexpr std::uint64_t rotl(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  static void absorb(std::array<std::uint64_t, 4>& v, std::uint64_t word) {
    v[3] ^= word;
    round(v);
    round(v);
    v[0] ^= word;
  }
  static void round(std::array<std::uint64_t, 4>& v) {
    v[0] += v[1];
    v[1] = rotl(v[1], 13) ^ v[0];
    v[0] = rotl(v[0], 32);
    v[2] += v[3];
    v[3] = rotl(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotl(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotl(v[1], 17) ^ v[2];
    v[2] = rotl(v[2], 32);
  }
  std::array<std::uint64_t, 2> key_{};
  std::uint64_t count_ = 0;
};

}  // namespace brdma
