// congestion/scaled.h - integer products of bytes, rates and times that do not overflow.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace brdma::congestion {

inline constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

// value * numerator / denominator, at most 2^60.
[[nodiscard]] constexpr std::uint64_t scale(std::uint64_t value, std::uint64_t numerator, std::uint64_t denominator) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 60;
  const auto result = static_cast<unsigned __int128>(value) * numerator / denominator;
  return result > kMost ? kMost : static_cast<std::uint64_t>(result);
}
// Of a time that is not negative.
[[nodiscard]] constexpr std::uint64_t ns(Duration duration) { return static_cast<std::uint64_t>(duration.ns()); }
// Bytes that a rate (bytes a second) delivers in a time.
[[nodiscard]] constexpr std::uint64_t bytes_in(std::uint64_t rate, Duration time) {
  return scale(rate, ns(time), kNsPerSecond);
}

}  // namespace brdma::congestion
