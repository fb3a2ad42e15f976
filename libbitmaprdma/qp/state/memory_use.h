// qp/state/memory_use.h - memory of one queue pair, in bytes, by purpose. Objects and their allocations; blocks of the
// engine's pools count while in use. Regions, completion queues and the application's memory are not included.
#pragma once

#include <cstddef>

namespace brdma {
class QueuePair;
}

namespace brdma::qp {

struct MemoryUse {
  std::size_t windows = 0;    // bitmaps and entries of both directions, of all paths; early packets with their payload
  std::size_t recovery = 0;   // further bitmap recovery state: gap records, tolerance, feedback order, loss recovery
  std::size_t transport = 0;  // state of any RC queue pair: identity, sequence numbers, timers, congestion, counts
  std::size_t queues = 0;     // work requests, their messages, waiting responses

  [[nodiscard]] std::size_t total() const { return windows + recovery + transport + queues; }
  MemoryUse& operator+=(const MemoryUse& other) {
    windows += other.windows;
    recovery += other.recovery;
    transport += other.transport;
    queues += other.queues;
    return *this;
  }
};

[[nodiscard]] MemoryUse memory_use(const QueuePair& pair);

}  // namespace brdma::qp
