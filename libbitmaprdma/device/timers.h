// device/timers.h - the queue pairs' deadlines: a heap in which each queue pair knows its place, so that moving one
// costs a few steps and no search. Equal deadlines come in the order in which they were set. A queue pair's deadline
// and its packets in flight are read once a round, not once a packet: stale ones are listed until refresh().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "qp/state/queue_pair.h"

namespace brdma::device {

class Timers {
 public:
  // Sets, moves or (nullopt) takes away the queue pair's deadline.
  void set(QueuePair* qp, std::optional<Instant> deadline);
  void take_away(QueuePair* qp) {
    if (qp->timer_slot != kNowhere) erase(qp->timer_slot);
  }
  [[nodiscard]] std::optional<Instant> earliest() const {
    return heap_.empty() ? std::nullopt : std::optional<Instant>(heap_.front().deadline);
  }
  // The queue pair's deadline may have changed.
  void note_stale(QueuePair* qp) {
    if (qp->timer_is_stale) return;
    qp->timer_is_stale = true;
    stale_.push_back(qp);
  }
  // Reads the deadlines and the packets in flight of stale ones. An idle queue pair has neither.
  void refresh();
  // The queue pair ends.
  void forget(QueuePair* qp) {
    take_away(qp);
    std::erase(stale_, qp);
  }
  // Takes out the queue pair with the earliest deadline if that is not after `now`, else null.
  QueuePair* take_due(Instant now);

 private:
  struct Entry {
    Instant deadline;
    std::uint64_t order = 0;
    QueuePair* qp = nullptr;
    [[nodiscard]] bool before(const Entry& other) const {
      return deadline != other.deadline ? deadline < other.deadline : order < other.order;
    }
  };
  static constexpr std::uint32_t kNowhere = static_cast<std::uint32_t>(-1);
  void put(std::size_t at, const Entry& entry);
  void sift(std::size_t at, const Entry& entry);
  void erase(std::size_t at);

  std::vector<Entry> heap_;
  std::vector<QueuePair*> stale_;
  std::uint64_t order_ = 0;
};

}  // namespace brdma::device
