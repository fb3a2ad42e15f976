// brdmad/worker/worker.h - the child process: serves clients, on Boost.Asio. Forked by the holder, whose memory and
// descriptors it inherits.
#pragma once

#include "options.h"
#include "supervisor/inheritance.h"

namespace brdma::daemon {

struct WorkerInheritance {
  const Options& options;
  int channel = -1;   // to the holder (handover.h)
  int lifeline = -1;  // for the programs: its other end closes with the last process of this daemon
  Inheritance& held;
};

inline constexpr int kWorkerDone = 0;  // exit code: the daemon has no work left, or was stopped

// Returns the exit code.
int run_worker(WorkerInheritance inheritance);

}  // namespace brdma::daemon
