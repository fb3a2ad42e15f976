// io/poll/driver.h - who drives a shard, as far as is known: an argument of SendScheduler and PollPolicy.
#pragma once

#include <cstdint>

namespace brdma::io {

// States of the progress thread (io/poll/progress_owner.h).
enum class ThreadState : std::uint8_t { kAbsent, kParked, kSpinning, kBlocked, kStandingBy };

struct Driver {
  ThreadState thread = ThreadState::kAbsent;
  bool spins = false;    // the program has polled again and again since the thread took charge, or was asked to
  bool sleeps = false;   // it sleeps on completion channels between its calls
  bool attends = false;  // packets wake it, and its next call takes them

  // It polls in a loop. What a call leaves undone its next one does; if it stops, the parked thread notices.
  [[nodiscard]] bool polls_in_loop() const { return thread == ThreadState::kParked && !sleeps; }
};

}  // namespace brdma::io
