// sim/worlds/draws.h - shorthands for draws of settings.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "base/units.h"

namespace brdma::test {

[[nodiscard]] inline bool one_in(Random& random, std::uint64_t count) { return random.below(count) == 0; }
[[nodiscard]] inline std::uint32_t draw(Random& random, std::uint64_t from, std::uint64_t to) {
  return static_cast<std::uint32_t>(from + random.below(to - from + 1));
}
[[nodiscard]] inline Duration draw_up_to(Random& random, Duration most) {
  return Duration::from_ns(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most.ns()) + 1)));
}

}  // namespace brdma::test
