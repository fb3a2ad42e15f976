// fabric/switch/red_marker.h - ECN marking by queue length (RFC 3168): none below `low`, all from `high` on, between
// them with a chance that grows linearly up to `chance` (RED's curve on the current length, as in DCQCN's switches:
// Kmin, Kmax, Pmax).
#pragma once

#include <cstdint>

#include "base/random.h"

namespace brdma::fabric {

struct MarkingConfig {
  std::uint64_t low_bytes = 0;        // Kmin
  std::uint64_t high_bytes = 0;       // Kmax, at least Kmin
  std::uint32_t chance_ppm = 10'000;  // Pmax, at `high`
  friend bool operator==(const MarkingConfig&, const MarkingConfig&) = default;
};

// `queued`: bytes that wait before the packet. Draws a number only where the chance is neither none nor certain.
[[nodiscard]] inline bool marks(const MarkingConfig& config, std::uint64_t queued, Random& random) {
  if (queued < config.low_bytes) return false;
  if (queued >= config.high_bytes) return true;
  const auto part = static_cast<unsigned __int128>(queued - config.low_bytes) * config.chance_ppm;
  return random.chance_per_million(static_cast<std::uint32_t>(part / (config.high_bytes - config.low_bytes)));
}

}  // namespace brdma::fabric
