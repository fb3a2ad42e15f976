// sim/streams/endpoint_pair.h - a queue pair on each of two hosts, connected. Its owner makes the traffic.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "sim/world.h"
#include "support/arena.h"
#include "support/endpoint.h"

namespace brdma::test {

class EndpointPair {
 public:
  // The arenas, frozen, outlive this.
  EndpointPair(sim::World& world, std::array<sim::Host*, 2> hosts, const EndpointConfig& config,
               std::array<Arena*, 2> arenas) {
    for (std::size_t side = 0; side < 2; ++side) {
      ends_[side] = std::make_unique<Endpoint>(world, *hosts[side], config, *arenas[side]);
      ends_[side]->start();
    }
    ends_[0]->connect(*ends_[1]);
    ends_[1]->connect(*ends_[0]);
  }
  // Of the first host, of the second.
  [[nodiscard]] Endpoint& operator[](std::size_t side) { return *ends_[side]; }
  void destroy() {
    for (auto& end : ends_) end->destroy();
  }

 private:
  std::array<std::unique_ptr<Endpoint>, 2> ends_;
};

}  // namespace brdma::test
