// io/poll/wake_ups.h - the descriptors that wake the progress thread, at once or at a deadline. A wake-up is requested
// under the shard's lock and done after its release: the woken thread may preempt its waker, and would find the lock
// taken.
#pragma once

#include <optional>

#include "base/units.h"

namespace brdma::io {

class WakeUps {
 public:
  WakeUps();
  ~WakeUps();
  WakeUps(const WakeUps&) = delete;
  WakeUps& operator=(const WakeUps&) = delete;

  // False: no descriptors were left.
  [[nodiscard]] bool usable() const { return wake_fd_ >= 0 && timer_fd_ >= 0; }
  [[nodiscard]] int wake_fd() const { return wake_fd_; }
  [[nodiscard]] int timer_fd() const { return timer_fd_; }

  // --- the shard's lock is held ---
  void request() { requested_ = true; }
  [[nodiscard]] bool take_request() {
    if (!requested_) [[likely]]
      return false;
    requested_ = false;
    return true;
  }
  // The thread sleeps until then by itself; nothing: it has no deadline.
  void sleeps_until(std::optional<Instant> deadline) { sleeps_until_ = deadline; }
  [[nodiscard]] bool oversleeps(Instant deadline) const { return !sleeps_until_ || *sleeps_until_ > deadline; }
  // From now on it sleeps until then: the timer fires.
  void set_timer(Instant deadline);

  // --- the lock is not held ---
  void wake();

  // --- the thread's side ---
  void clear_wake();
  bool take_timer();  // true: it had fired, once

 private:
  std::optional<Instant> sleeps_until_;
  int wake_fd_, timer_fd_;
  bool requested_ = false;
};

}  // namespace brdma::io
