// qp/turn/scheduling_entry.h - a queue pair's entry in the engine's schedule: its place among the ready ones, its
// share of a turn, its timer. Intrusive, so that no container is searched per packet. The engine alone reads and writes
// it (device/transmit.cc, device/timers.h, device/engine.cc); of a queue pair's own rules only QueuePair::joins()
// depends on it.
#pragma once

#include <cstdint>

#include "qp/queues/completion_queue.h"
#include "registry/command_queues.h"

namespace brdma {

class QueuePair;

namespace qp {

struct SchedulingEntry {
  // Number of the queue pair posted to after it; 0: none (device/objects.cc).
  [[nodiscard]] std::uint32_t posted_next() const { return next_qpn; }
  void set_posted_next(std::uint32_t qpn) { next_qpn = qpn; }

  // Counts its packets in flight where its requests complete; at its end, none.
  void set_in_flight(CompletionQueue& cq, std::uint32_t packets) {
    cq.in_flight += packets - counted_in_flight;
    counted_in_flight = packets;
  }

  // Links of registry::CommandQueues.
  QueuePair* ready_next = nullptr;
  QueuePair* ready_previous = nullptr;
  registry::ReadyQueue ready_queue = registry::ReadyQueue::kNone;
  bool timer_is_stale : 1 = false;      // listed among those whose deadline is to be read again
  bool is_touched : 1 = false;          // listed in touched()
  bool known_idle : 1 = false;          // result of the last is_idle(); no event since
  bool begins_batch : 1 = false;        // its next packets do not follow others' (device/transmit.cc)
  std::int16_t turn_left = 0;           // words of 4 bytes left of its turn; below 0: of the next (device/transmit.cc)
  std::uint32_t counted_in_flight = 0;  // in its completion queue's count
  std::uint32_t timer_slot = static_cast<std::uint32_t>(-1);
  std::uint32_t next_qpn = 0;
};

}  // namespace qp
}  // namespace brdma
