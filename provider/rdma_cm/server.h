// rdma_cm/server.h - answers librdmacm's commands: from their layouts to RDMA-CM (cm/rdma_cm.h) and back. Independent
// of how a write reached us.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace brdma::provider {

// The node is opened: a new event channel's descriptor, or -1 with errno. The first one in a process connects to
// brdmad.
[[nodiscard]] int open_cm_channel();

// As write(2) to the node: `count`, or -1 with errno. EBADF: `fd` is no channel; EINVAL: no command, or a bad one;
// ENOSYS: one that is not served.
[[nodiscard]] ssize_t cm_write(int fd, const void* bytes, std::size_t count);

void cm_descriptor_copied(int from, int to);
void cm_descriptor_closed(int fd);

// The program ends with connections still open: peers are told. Not in a forked child.
void leave_cm();

}  // namespace brdma::provider
