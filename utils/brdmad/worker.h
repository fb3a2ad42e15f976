// brdmad/worker.h - the child process: serves clients, on Boost.Asio. Forked by the holder, whose memory and
// descriptors it inherits.
#pragma once

#include "handover.h"
#include "options.h"
#include "shared_state.h"
#include "socket_group.h"
#include "statistics_page.h"

namespace brdma::daemon {

struct WorkerInheritance {
  const Options& options;
  int listener = -1;
  int channel = -1;  // to the holder (handover.h)
  SocketGroup& group;
  KeptLeases& kept;
  SharedState& state;
  UseTableMapping& use;
};

inline constexpr int kWorkerDone = 0;  // exit code: the daemon has no work left, or was told to end

// Returns the exit code.
int run_worker(WorkerInheritance inheritance);

}  // namespace brdma::daemon
