// sim/event_queue.h - scheduled actions, ordered by time and then by insertion number: at equal times in the order of
// scheduling, on every machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/units.h"

namespace brdma::sim {

class EventQueue {
 public:
  using Action = std::function<void()>;

  void at(Instant when, Action action) {
    heap_.push_back({when, inserted_++, std::move(action)});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  [[nodiscard]] std::optional<Instant> next() const {
    return heap_.empty() ? std::nullopt : std::optional{heap_.front().when};
  }
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  // The earliest action. Precondition: not empty.
  Action take() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    Action action = std::move(heap_.back().action);
    heap_.pop_back();
    return action;
  }

 private:
  struct Event {
    Instant when;
    std::uint64_t number;
    Action action;
  };
  static bool later(const Event& a, const Event& b) { return a.when != b.when ? a.when > b.when : a.number > b.number; }
  std::vector<Event> heap_;
  std::uint64_t inserted_ = 0;
};

}  // namespace brdma::sim
