// io/udp/open_socket.h - a socket of the kernel's, even if a library replaces socket(). With librspreload.so every TCP
// or UDP socket that a thread opens outside of a call to librdmacm becomes an RDMA socket, in our threads too. Later
// calls on the descriptor pass through such a library, which does not know it.
#pragma once

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace brdma::io {

// As socket(2).
inline int open_socket(int domain, int type, int protocol) {
  return static_cast<int>(::syscall(SYS_socket, domain, type, protocol));
}

}  // namespace brdma::io
