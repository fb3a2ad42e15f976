#include "recovery/path_spray.h"

#include <algorithm>

namespace brdma::recovery {
namespace {

// least_rtt: one batch in so many goes in turn, so that an improved path is found.
constexpr std::uint32_t kExploreEvery = 32;
constexpr std::int64_t kWeightOne = 1'000'000'000'000;
constexpr std::int64_t kLossFactor = 32;
constexpr std::int64_t kPpm = 1'000'000;

bool allowed(std::span<const PathFacts> paths, std::size_t path, std::optional<std::uint8_t> avoid) {
  return paths[path].usable && !(avoid && *avoid == path);
}

// A path not measured yet weighs as much as the best of the others, so that it is tried.
std::int64_t weight(std::span<const PathFacts> paths, std::size_t path) {
  std::int64_t trip = paths[path].round_trip.ns();
  for (std::size_t i = 0; trip == 0 && i < paths.size(); ++i) trip = paths[i].round_trip.ns();
  trip = std::max<std::int64_t>(trip, 1000);
  return std::max<std::int64_t>(kWeightOne / trip * kPpm / (kPpm + kLossFactor * paths[path].loss_ppm), 1);
}

}  // namespace

std::uint8_t Spray::choose(std::span<const PathFacts> paths, std::optional<std::uint8_t> avoid) const {
  switch (policy_) {
    case Spraying::kLeastRtt:
      return batches_ % kExploreEvery == 0 ? next_in_turn(paths, avoid) : shortest(paths, avoid);
    case Spraying::kWeighted:
      return heaviest(paths, avoid);
    case Spraying::kRoundRobin:
      break;
  }
  return next_in_turn(paths, avoid);
}

std::uint8_t Spray::next_in_turn(std::span<const PathFacts> paths, std::optional<std::uint8_t> avoid) const {
  for (std::size_t i = 1; i <= paths.size(); ++i) {
    const std::size_t path = (last_ + i) % paths.size();
    if (allowed(paths, path, avoid)) return static_cast<std::uint8_t>(path);
  }
  return avoid ? choose(paths, std::nullopt) : std::uint8_t{0};
}

std::uint8_t Spray::shortest(std::span<const PathFacts> paths, std::optional<std::uint8_t> avoid) const {
  std::optional<std::size_t> best;
  for (std::size_t path = 0; path < paths.size(); ++path) {
    if (!allowed(paths, path, avoid)) continue;
    if (!best || paths[path].round_trip < paths[*best].round_trip) best = path;  // not measured: tried first
  }
  return best ? static_cast<std::uint8_t>(*best) : next_in_turn(paths, avoid);
}

// The path with the most credit, its share of this batch included.
std::uint8_t Spray::heaviest(std::span<const PathFacts> paths, std::optional<std::uint8_t> avoid) const {
  std::optional<std::size_t> best;
  std::int64_t most = 0;
  for (std::size_t path = 0; path < paths.size(); ++path) {
    if (!allowed(paths, path, avoid)) continue;
    const std::int64_t due = credit_[path] + weight(paths, path);
    if (best && due <= most) continue;
    best = path;
    most = due;
  }
  return best ? static_cast<std::uint8_t>(*best) : next_in_turn(paths, avoid);
}

void Spray::took(std::span<const PathFacts> paths, std::uint8_t path) {
  last_ = path;
  ++batches_;
  if (policy_ != Spraying::kWeighted) return;
  std::int64_t all = 0;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!paths[i].usable) continue;
    const std::int64_t share = weight(paths, i);
    credit_[i] += share;
    all += share;
  }
  credit_[path] -= all;
}

}  // namespace brdma::recovery
