// io/xdp_request.h - asks brdmad for an AF_XDP socket beside a lease.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "bitmaprdma/context.h"
#include "io/lease.h"
#include "io/xdp_socket.h"

namespace brdma::io {

struct XdpWant {
  XdpMode mode = XdpMode::kAny;
  std::uint32_t receive_chunks = 4096;  // a power of two
};

// Blocks for some milliseconds; up to a second where the queue's last user has just ended and the kernel still has it.
// Errors: EBUSY other processes have the queues, or another program the interface; EPERM brdmad lacks the right;
// EOPNOTSUPP; ETIMEDOUT. The message says what to do.
[[nodiscard]] Result<XdpSocket, ContextError> request_xdp(const Lease& lease, const XdpWant& want);

}  // namespace brdma::io
