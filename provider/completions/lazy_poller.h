// completions/lazy_poller.h - a program's position in an extended completion queue: the completion last taken by
// ibv_start_poll() or ibv_next_poll(), whose members it then reads one by one.
#pragma once

#include <mutex>

#include "base/units.h"
#include "bitmaprdma/types.h"

namespace brdma::provider {

struct LazyPoller {
  Completion completion;
  Instant made;        // of a queue with timestamps
  std::mutex mutex;    // held from ibv_start_poll() to ibv_end_poll()
  bool locked = true;  // false: the program uses the queue from one thread only
};

}  // namespace brdma::provider
