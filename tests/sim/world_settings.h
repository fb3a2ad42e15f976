// sim/world_settings.h - everything that a seed decides about a random world before it runs, as plain values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "fabric/link.h"
#include "random_world.h"
#include "support/endpoint.h"
#include "support/traffic.h"

namespace brdma::test {

// By side: [0] is host "a", [1] is host "b".
template <class T>
using Sides = std::array<T, 2>;

struct ConnectionSettings {
  Sides<EndpointConfig> endpoints;
  Sides<TrafficConfig> traffic;
  bool ends_in_error = false;  // b refuses a's last request; b itself asks for nothing
};

struct WorldSettings {
  Sides<EngineConfig> engines;
  Sides<sim::HostConfig> hosts;  // without the engine's
  std::vector<ConnectionSettings> connections;
  fabric::LinkConfig clean;
  Sides<fabric::LinkConfig> faulty;  // what a side sends into until faults_last is over
  Duration faults_last;
  Duration partition;  // a time of total loss, somewhere in there; 0: none

  // Both sides negotiate bitmap mode.
  [[nodiscard]] bool agree() const {
    return engines[0].recovery.mode == RecoveryMode::kBitmap && engines[1].recovery.mode == RecoveryMode::kBitmap;
  }
  [[nodiscard]] WorldMode mode() const {
    if (agree()) return WorldMode::kBitmap;
    const auto goes_back = [](const EngineConfig& engine) { return engine.recovery.mode == RecoveryMode::kGoBackN; };
    return goes_back(engines[0]) || goes_back(engines[1]) ? WorldMode::kGoBackN : WorldMode::kStandard;
  }
  [[nodiscard]] bool corrupts() const {
    return faulty[0].impairments.corrupt_ppm != 0 || faulty[1].impairments.corrupt_ppm != 0;
  }
  [[nodiscard]] std::string text() const;
};

[[nodiscard]] WorldSettings draw_world(Random& random);

// Shorthands for draws.
[[nodiscard]] inline bool one_in(Random& random, std::uint64_t count) { return random.below(count) == 0; }
[[nodiscard]] inline std::uint32_t draw(Random& random, std::uint64_t from, std::uint64_t to) {
  return static_cast<std::uint32_t>(from + random.below(to - from + 1));
}
[[nodiscard]] inline Duration draw_up_to(Random& random, Duration most) {
  return Duration::from_ns(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most.ns()) + 1)));
}

}  // namespace brdma::test
