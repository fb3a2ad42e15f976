// io/xdp/xdp_request.h - asks brdmad for an AF_XDP socket beside a lease: to receive, to transmit, or for both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "bitmaprdma/context.h"
#include "io/daemon/lease.h"
#include "io/xdp/xdp_socket.h"
#include "io/xdp/xdp_transmit.h"

namespace brdma::io {

struct XdpWant {
  XdpMode mode = XdpMode::kAuto;
  std::uint32_t receive_chunks = 0, transmit_chunks = 0;  // powers of two, or 0
};

// Both sides of one socket, or the one that was asked for.
struct XdpSockets {
  std::optional<XdpSocket> receive;
  std::optional<XdpTransmit> transmit;
  std::string why_not_transmit;  // no right to it
};

// Blocks for some milliseconds; up to a second where the queue's last user has just ended and the kernel still has it.
// Errors: EBUSY other processes have the queues, or another program the interface; EPERM brdmad lacks the right, or we
// that to transmit; EOPNOTSUPP; ETIMEDOUT. The message says what to do.
[[nodiscard]] Result<XdpSockets, ContextError> request_xdp(const Lease& lease, const XdpWant& want);

}  // namespace brdma::io
