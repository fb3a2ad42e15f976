// io/system/pass_descriptors.h - file descriptors that travel with a message over a Unix socket (unix(7), SCM_RIGHTS).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>

#include "base/bytes.h"
#include "io/system/file_descriptor.h"

namespace brdma::io {

inline constexpr std::size_t kPassedDescriptorsMax = 253;  // the kernel's SCM_MAX_FD

// One sendmsg with `flags` (a closed peer is never a signal), repeated where a signal interrupts it. Its result.
ssize_t send_with_descriptors(int socket, ConstBytes bytes, std::span<const int> descriptors, int flags = 0);

// One recvmsg likewise. Descriptors go into `out` from its beginning, close-on-exec; further ones are closed, and
// unused entries are unchanged.
ssize_t receive_with_descriptors(int socket, MutableBytes bytes, std::span<FileDescriptor> out, int flags = 0);

}  // namespace brdma::io
