// run/engine_host.h - a host of a scenario: an engine with one completion queue and one region, and queue pairs between
// two of them. Every flow is one WRITE, whose data nobody reads: all hosts share the memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scenario/scenario.h"
#include "sim/world.h"

namespace brdma::simulator {

class EngineHost {
 public:
  // `number`: from 0. `memory` outlives this; its size bounds a flow. `completions`: most at a time.
  EngineHost(sim::World& world, sim::HostConfig config, const ProtocolPlan& plan, std::span<std::byte> memory);

  void make_objects(std::uint32_t completions);
  [[nodiscard]] sim::Host& host() { return host_; }
  [[nodiscard]] const ProtocolPlan& plan() const { return plan_; }
  [[nodiscard]] bool negotiates() const { return brdma::negotiates(plan_.recovery.mode); }

  // Completions since the last call; nothing to do if there is none.
  template <class Take>
  void take_completions(const Take& take) {
    if (host_.notifications().empty()) return;
    host_.notifications().clear();
    std::vector<Completion> done(kCompletions);
    for (std::size_t count; (count = host_.engine().poll_cq(cq_, done)) != 0;) {
      for (std::size_t i = 0; i < count; ++i) take(done[i]);
    }
    host_.engine().request_notify(cq_, false);
  }

 private:
  friend class EngineConnection;
  static constexpr std::size_t kCompletions = 64;

  const ProtocolPlan& plan_;
  std::span<std::byte> memory_;
  sim::Host& host_;
  ProtectionDomain* pd_ = nullptr;
  MemoryRegion* region_ = nullptr;
  CompletionQueue* cq_ = nullptr;
};

// A queue pair on each of two hosts, connected. Flows go from the first to the second.
class EngineConnection {
 public:
  EngineConnection(sim::World& world, EngineHost& from, EngineHost& to, std::uint32_t mtu);
  void close();
  // `id` comes back with the completion.
  void write(std::uint64_t bytes, std::uint64_t id);

 private:
  struct End {
    EngineHost* host;
    QueuePair* pair;
  };
  [[nodiscard]] static QueuePair* make_pair(EngineHost& host);
  void connect(const End& own, const End& peer, std::uint32_t mtu) const;

  sim::World* world_;
  End from_, to_;
};

}  // namespace brdma::simulator
