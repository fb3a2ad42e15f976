// rdma_netlink/socket.h - a program's RDMA_NETLINK socket, where the kernel has none. It is a socket of
// NETLINK_USERSOCK, so that addresses, options, waiting and closing are the kernel's. The hooks give it what the
// program sends, and answers come from a socket of this process. The program's is connected to that one: nobody else
// can send to it.
//
// Answers that the socket has no room for wait here, and follow when the program reads. Thread-safe.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

struct iovec;

namespace brdma::provider {

// As socket(2) for NETLINK_RDMA; `type` is SOCK_RAW or SOCK_DGRAM, with flags. `first_node`: a device's uverbs node has
// this number plus its interface's index.
[[nodiscard]] int open_rdma_netlink(int type, std::uint32_t first_node);

// True if `fd` still is such a socket: its mark may be stale.
[[nodiscard]] bool is_rdma_netlink(int fd);

// As sendmsg(2): answers the request. -1 with errno: EFAULT, EMSGSIZE, EINVAL no netlink address, EPERM not to the
// kernel, ENOMEM.
[[nodiscard]] ssize_t rdma_netlink_send(int fd, const iovec* parts, std::size_t count, const sockaddr* to,
                                        socklen_t to_bytes);

// Before and after a read: delivers what waits.
void rdma_netlink_refill(int fd);
// Behind a read that gave the sender's address: answers come from the kernel.
void rdma_netlink_from_kernel(sockaddr* from, socklen_t bytes);
// The descriptor is about to be closed.
void rdma_netlink_closed(int fd);

}  // namespace brdma::provider
