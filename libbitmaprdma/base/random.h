// base/random.h - seeded random numbers, the same with every library and machine (the standard's distributions are
// not). One 64-bit seed a run. Each component draws from its own stream, made from the seed and a name: a new component
// does not change the others' numbers. xoshiro256** seeded by splitmix64 (Blackman and Vigna, public domain algorithm,
// our own code).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace brdma {

class Random {
 public:
  explicit Random(std::uint64_t seed) {
    for (auto& word : state_) word = splitmix(seed);
  }
  // An independent stream for a component.
  Random(std::uint64_t seed, std::string_view component) : Random(seed ^ hash(component)) {}

  std::uint64_t next() {
    const std::uint64_t result = rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotl(state_[3], 45);
    return result;
  }
  // Uniform in [0, bound); bound > 0. Multiply-shift: bias below 2^-32 for the bounds used here.
  std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  // True `per_million` times in a million.
  bool chance_per_million(std::uint32_t per_million) { return per_million != 0 && below(1'000'000) < per_million; }

 private:
  static constexpr std::uint64_t rotl(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  static std::uint64_t splitmix(std::uint64_t& x) {
    std::uint64_t z = (x += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  static constexpr std::uint64_t hash(std::string_view text) {
    std::uint64_t h = 0xCBF29CE484222325u;  // FNV-1a
    for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
    return h;
  }
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace brdma
