// recovery/path_spray.h - which of several paths the next batch takes (docs/explanation/recovery.md). Pure objects:
// they name a path from the facts known of each; the caller sends there. Integers only.
//
//   round_robin  one after the other
//   least_rtt    the one with the shortest smoothed round trip; sometimes another, to get RTT samples of it
//   weighted     in turn, in proportion to 1 / (round trip * (1 + 32 * loss))
//
// A path that is set aside (not usable) is never named while another is usable. `avoid` is the path that lost the
// packet to be retransmitted; it is named only if there is no other.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/config.h"
#include "base/units.h"

namespace brdma::recovery {

struct PathFacts {
  bool usable = true;
  Duration round_trip;         // smoothed; 0: not measured yet
  std::uint32_t loss_ppm = 0;  // recent
};

class Spray {
 public:
  explicit Spray(Spraying policy) : policy_(policy) {}

  // At least one path, at most kPathsMax. Changes nothing: the same until took().
  [[nodiscard]] std::uint8_t choose(std::span<const PathFacts> paths, std::optional<std::uint8_t> avoid) const;
  // A batch has left on `path`.
  void took(std::span<const PathFacts> paths, std::uint8_t path);

 private:
  [[nodiscard]] std::uint8_t next_in_turn(std::span<const PathFacts> paths, std::optional<std::uint8_t> avoid) const;
  [[nodiscard]] std::uint8_t shortest(std::span<const PathFacts> paths, std::optional<std::uint8_t> avoid) const;
  [[nodiscard]] std::uint8_t heaviest(std::span<const PathFacts> paths, std::optional<std::uint8_t> avoid) const;

  Spraying policy_;
  std::uint8_t last_ = kPathsMax - 1;
  std::uint32_t batches_ = 0;
  std::array<std::int64_t, kPathsMax> credit_{};  // weighted: credit of its share not used yet
};

}  // namespace brdma::recovery
