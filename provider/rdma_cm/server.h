// rdma_cm/server.h - RDMA-CM of this process as its node: open, close, and commands (rdma_cm/execute.h). Independent of
// the write's origin.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace brdma::provider {

// The node is opened: a new event channel's descriptor, or -1 with errno. The first one in a process connects to
// brdmad.
[[nodiscard]] int open_cm_channel();

// As write(2) to the node: `count`, or -1 with errno. EBADF: `fd` is no channel; others as execute() has them.
[[nodiscard]] ssize_t cm_write(int fd, const void* bytes, std::size_t count);

void cm_descriptor_copied(int from, int to);
void cm_descriptor_closed(int fd);

// An open device's addresses have changed, or it is gone for good: notifies identifiers bound to it.
void cm_addresses_changed(std::uint64_t device_guid);
void cm_device_removed(std::uint64_t device_guid);

// In a forked child: the parent's channels become readable, and are no channels any more.
void cm_after_fork();

// The program ends with connections still open: notifies peers. Not in a forked child.
void leave_cm();

}  // namespace brdma::provider
