// qp/state/async_events.h - asynchronous events of a queue pair that the engine has not taken yet. An event that is
// raised again before it is taken is one event.
#pragma once

#include <bit>
#include <cstdint>

namespace brdma::qp {

class AsyncEvents {
 public:
  // `event`: enum ibv_event_type, below 32.
  void raise(int event) { raised_ |= 1u << event; }
  [[nodiscard]] bool any() const { return raised_ != 0; }
  // One at a time, by number; -1: none.
  [[nodiscard]] int take() {
    if (raised_ == 0) return -1;
    const int event = std::countr_zero(raised_);
    raised_ &= raised_ - 1;
    return event;
  }
  void clear() { raised_ = 0; }

 private:
  std::uint32_t raised_ = 0;  // bit n: event n
};

}  // namespace brdma::qp
