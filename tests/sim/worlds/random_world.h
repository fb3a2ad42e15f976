// sim/worlds/random_world.h - one seed makes a world: hosts, queue pairs between them, traffic in both directions, and
// a network and programs that misbehave for a while. The result must be right (each operation once, in order, every
// byte) and done within a bound after the faults have stopped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/retransmissions.h"

namespace brdma::test {

// Recovery modes of the hosts: all in bitmap mode, all judging losses as TCP does, at least one going back N, else some
// as standard peers.
enum class WorldMode : std::uint8_t { kBitmap, kSelective, kStandard, kGoBackN, kWan };

struct WorldResult {
  std::vector<std::string> findings;  // empty: success
  std::string settings;               // the world in a few lines
  std::string trace;                  // if asked for
  WorldMode mode = WorldMode::kBitmap;
  std::uint64_t packets = 0, lost = 0, reordered = 0, retransmitted = 0, bytes = 0;
  std::uint64_t fetched = 0;         // packets whose data was passed by local reference
  std::uint64_t group_messages = 0;  // received by UC, UD, and RC with a shared queue or windows (message_group.h)
  std::uint64_t by_cause[kRetransmissions.size()] = {};  // of the retransmitted, in that order
  std::int64_t virtual_ns = 0;
  std::uint64_t digest = 0;  // if asked for (wire_digest.h)

  [[nodiscard]] bool ok() const { return findings.empty(); }
};

struct WorldOptions {
  bool traced = false;
  bool digest = false;
  bool canary = false;  // corrupts one byte of memory: the checks must find it
};
[[nodiscard]] WorldResult run_random_world(std::uint64_t seed, const WorldOptions& options = {});

}  // namespace brdma::test
