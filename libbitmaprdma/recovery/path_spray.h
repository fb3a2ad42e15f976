// recovery/path_spray.h - which of several paths the next batch takes (spec 1: multipath). Pure objects: told what is
// known of each path, they name one; who asks sends there. Integers only.
//
//   round_robin  one after the other
//   least_rtt    the one with the shortest smoothed round trip; now and then another, or nothing would be heard of it
//   weighted     in turn, as often as 1 / (round trip * (1 + 32 * loss)) says
//
// A path that is set aside (not usable) is never named while another is usable; `avoid`, the path that a packet to be
// sent again was lost on, only where there is no other.
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
  std::uint32_t loss_ppm = 0;  // of late
};

class Spray {
 public:
  explicit Spray(Spraying policy) : policy_(policy) {}

  // At least one path, at most kPathsMax. Changes nothing: the same until took() is told.
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
  std::array<std::int64_t, kPathsMax> credit_{};  // weighted: what a path has not had yet of its share
};

}  // namespace brdma::recovery
