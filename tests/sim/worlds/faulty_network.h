// sim/worlds/faulty_network.h - the present state of a random world's links: faulty, silent for a while as a whole or
// on one path, and clean once the faults are over.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "sim/world.h"
#include "worlds/world_settings.h"

namespace brdma::test {

class FaultyNetwork {
 public:
  // Joins the hosts. `settings` and `hosts` outlive this.
  FaultyNetwork(sim::World& world, const WorldSettings& settings, const std::vector<sim::Host*>& hosts);
  void begin(const Silence& silence) { change(silence, 1); }
  void end(const Silence& silence) { change(silence, -1); }
  // From now on packets are lost only for lack of room.
  void end_faults();

 private:
  struct State {
    int silent = 0;  // overlapping silences
    std::array<int, fabric::kLinkPathsMax> silent_paths{};
  };
  void change(const Silence& silence, int by);
  void configure(std::size_t link);
  [[nodiscard]] fabric::LinkConfig config_of(std::size_t link, std::size_t side) const;

  sim::World& world_;
  const WorldSettings& settings_;
  const std::vector<sim::Host*>& hosts_;
  std::vector<State> states_;
  bool clean_ = false;
};

}  // namespace brdma::test
