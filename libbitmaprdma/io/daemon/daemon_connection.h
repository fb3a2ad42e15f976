// io/daemon/daemon_connection.h - a blocking connection to brdmad's socket, with a deadline.
#pragma once

#include <chrono>
#include <string_view>

#include "base/result.h"
#include "bitmaprdma/context.h"
#include "io/daemon/lease_protocol.h"
#include "io/system/file_descriptor.h"

namespace brdma::io {

using Deadline = std::chrono::steady_clock::time_point;
// Milliseconds left, at least 1 while the deadline has not passed, 0 after.
[[nodiscard]] int milliseconds_left(Deadline deadline);

// To the abstract Unix socket "@<name>", by default brdmad's. Errors: ECONNREFUSED no listener; ETIMEDOUT.
[[nodiscard]] Result<FileDescriptor, ContextError> connect_to_daemon(Deadline deadline,
                                                                     std::string_view name = kDaemonName);

// Call before taking a socket from a daemon: a daemon of another user (except root) could read our traffic. EACCES
// then.
[[nodiscard]] ContextError check_owner(int fd);

// For check_owner(), with the text of /proc/self/uid_map. True: inside a user namespace without a user of that number,
// every outside user has it, the machine's root as well. False: the namespace has that user, or all.
[[nodiscard]] bool is_whoever_is_outside(std::string_view uid_map, unsigned uid);

// Sends all of it. Errors: EPIPE the daemon closed; ETIMEDOUT.
[[nodiscard]] Status send_all(int fd, const void* data, std::size_t size, Deadline deadline);

// Waits until `fd` has something to read or its peer has closed. False: the deadline passed.
[[nodiscard]] bool wait_readable(int fd, Deadline deadline);

// Why brdmad could not be asked, each with the next step.
[[nodiscard]] ContextError daemon_silent();  // ETIMEDOUT
[[nodiscard]] ContextError daemon_left(int error);
// EPROTO: it sent `what`, which brdmad never does.
[[nodiscard]] ContextError daemon_foreign(std::string_view what);

// "alice (uid 1000)" or "uid 1000".
[[nodiscard]] std::string user_text(unsigned uid);

}  // namespace brdma::io
