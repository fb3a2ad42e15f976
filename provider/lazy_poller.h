// lazy_poller.h - where a program stands in an extended completion queue: the completion that ibv_start_poll() or
// ibv_next_poll() has taken last, whose members it then asks for one by one.
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
