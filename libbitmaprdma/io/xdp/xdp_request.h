// io/xdp/xdp_request.h - requests an AF_XDP socket from brdmad beside a lease: to receive, to transmit, or for both.
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

// Both sides of one socket, or the requested one.
struct XdpSockets {
  std::optional<XdpSocket> receive;
  std::optional<XdpTransmit> transmit;
  std::string why_not_transmit;  // no right to it
};

// Blocks for some milliseconds; up to a second where the queue's last user has just ended and the kernel has not freed
// it. Errors: EBUSY other processes have the queues, or another program the interface; EPERM brdmad lacks the right, or
// we lack that to transmit; EOPNOTSUPP; ETIMEDOUT. The message names the remedy.
[[nodiscard]] Result<XdpSockets, ContextError> request_xdp(const Lease& lease, const XdpWant& want);

}  // namespace brdma::io
