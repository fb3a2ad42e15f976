// qp/state/memory_use.h - what one queue pair costs, in bytes, by what they are for. Heads and what they have
// allocated; blocks of the engine's pools count where they are in use. Regions, completion queues and the application's
// memory are not in here.
#pragma once

#include <cstddef>

namespace brdma::qp {

struct MemoryUse {
  std::size_t windows = 0;    // bitmaps and entries of both directions, of all paths; early packets with their payload
  std::size_t recovery = 0;   // what bitmap recovery keeps besides: gap records, tolerance, order of feedback, repairs
  std::size_t transport = 0;  // what any RC queue pair has: identity, sequence numbers, timers, congestion, counts
  std::size_t queues = 0;     // work requests, the messages made of them, answers that wait

  [[nodiscard]] std::size_t total() const { return windows + recovery + transport + queues; }
  MemoryUse& operator+=(const MemoryUse& other) {
    windows += other.windows;
    recovery += other.recovery;
    transport += other.transport;
    queues += other.queues;
    return *this;
  }
};

}  // namespace brdma::qp
