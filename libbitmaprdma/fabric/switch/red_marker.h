// fabric/switch/red_marker.h - ECN marking by congestion (RFC 3168, design ER-7): none below `low`, all from `high` on,
// between them with a chance that grows linearly up to `chance` (RED's curve on the current value, as in DCQCN's
// switches: Kmin, Kmax, Pmax). The value is one of three that a packet finds when it arrives:
//   kLength     of its class's queue, bytes
//   kDelay      time until it will leave the queue, nanoseconds: fabric/switch/output_queue.h
//   kOccupancy  of the memory that the ports share, parts per million; 0 without such a memory
#pragma once

#include <cstdint>

#include "base/random.h"

namespace brdma::fabric {

enum class MarkedBy : std::uint8_t { kLength, kDelay, kOccupancy };

struct MarkingConfig {
  std::uint64_t low = 0;              // Kmin
  std::uint64_t high = 0;             // Kmax, at least Kmin
  std::uint32_t chance_ppm = 10'000;  // Pmax, at `high`
  MarkedBy by = MarkedBy::kLength;
  friend bool operator==(const MarkingConfig&, const MarkingConfig&) = default;
};

// Draws a number only where the chance is neither none nor certain.
[[nodiscard]] inline bool marks(const MarkingConfig& config, std::uint64_t value, Random& random) {
  if (value < config.low) return false;
  if (value >= config.high) return true;
  const auto part = static_cast<unsigned __int128>(value - config.low) * config.chance_ppm;
  return random.chance_per_million(static_cast<std::uint32_t>(part / (config.high - config.low)));
}

}  // namespace brdma::fabric
