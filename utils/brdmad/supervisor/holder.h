// brdmad/supervisor/holder.h - the parent process: holds the resources that must survive and keeps a worker alive.
//
// It owns the listening socket, the sockets of port 4791, the shared state and, of each lease, the connection and the
// statistics page. It serves nobody. When the worker dies, the holder forks another, which inherits all of this:
// clients notice nothing, their connections stay open. When the holder itself dies, the kernel kills the worker. The
// resources of both stay in the vault, and a program with a lease starts a holder that adopts it (inheritance.h,
// io/daemon/revival.h).
#pragma once

#include "options.h"

namespace brdma::daemon {

// Exit code of the process. 0 also when another brdmad serves this network namespace already and a starter waits for an
// answer at ready_fd.
int run_holder(Options options);

}  // namespace brdma::daemon
