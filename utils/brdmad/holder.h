// brdmad/holder.h - the parent process: holds what must not be lost and keeps a worker alive.
//
// It owns the listening socket, the sockets of port 4791, the shared state and, of each lease, the connection and the
// statistics page. It speaks to nobody. When the worker dies it forks a new one, which inherits all of this: clients
// notice nothing, their connections stay open. When the holder itself dies, the kernel kills the worker; what both had
// stays in the vault, and a program that has a lease starts a holder that adopts it (inheritance.h,
// io/daemon/revival.h).
#pragma once

#include "options.h"

namespace brdma::daemon {

// Exit code of the process. 0 also when another brdmad serves this network namespace already and somebody waits for an
// answer at ready_fd.
int run_holder(Options options);

}  // namespace brdma::daemon
