// io/daemon/daemon_start.h - starts brdmad from inside an application, without side effects on it.
//
// The new process gets: its own session, the root directory, /dev/null as standard streams, no descriptor but one pipe
// and the vault where there is one, the environment without LD_PRELOAD. It is a grandchild made with clone(2) without a
// termination signal: no SIGCHLD, no result for the application's wait(), no copy of its address space, no
// pthread_atfork handlers.
//
// brdmad writes one line to that pipe (descriptor kReadyFd, option --ready-fd), then closes it:
//   "ready"                   it serves
//   "taken"                   another brdmad was faster: connect to that one
//   "error ERRNO MESSAGE"     it can't serve, and why
#pragma once

#include <string>

#include "base/result.h"
#include "io/daemon/daemon_connection.h"

namespace brdma::io {

inline constexpr int kReadyFd = 3, kVaultFd = 4;

// `configured` (from BRDMA_DAEMON or the files) if not empty; else beside the object that holds this code: in its
// directory, ../bin, ../../bin, ../libexec/bitmaprdma; else in PATH.
[[nodiscard]] Result<std::string, ContextError> find_daemon(const std::string& configured);

// Done when brdmad serves, or another one does (or did, and is about to). Errors: brdmad's own; ETIMEDOUT; ENOEXEC.
// `vault_fd`: a dead daemon's vault, which this one adopts (docs/explanation/daemon.md); -1: none.
[[nodiscard]] ContextError start_daemon(const std::string& program, Deadline deadline, int vault_fd = -1);

}  // namespace brdma::io
