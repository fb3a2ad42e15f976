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

// To the abstract Unix socket "@<name>", brdmad's if nothing is said. Errors: ECONNREFUSED nobody listens; ETIMEDOUT.
[[nodiscard]] Result<FileDescriptor, ContextError> connect_to_daemon(Deadline deadline,
                                                                     std::string_view name = kDaemonName);

// Before taking a socket from a daemon: one of another user (but root) could read what is meant for us. EACCES then.
[[nodiscard]] ContextError check_owner(int fd);

// For check_owner(), of the text of /proc/self/uid_map: inside a user namespace that has no user of that number,
// whoever is outside looks like him, the machine's root as well. Where the namespace has one, or all, it is that user.
[[nodiscard]] bool is_whoever_is_outside(std::string_view uid_map, unsigned uid);

// Sends all of it. Errors: EPIPE the daemon closed; ETIMEDOUT.
[[nodiscard]] Status send_all(int fd, const void* data, std::size_t size, Deadline deadline);

// Waits until `fd` has something to read or its peer has closed. False: the deadline passed.
[[nodiscard]] bool wait_readable(int fd, Deadline deadline);

// "alice (uid 1000)" or "uid 1000".
[[nodiscard]] std::string user_text(unsigned uid);

}  // namespace brdma::io
