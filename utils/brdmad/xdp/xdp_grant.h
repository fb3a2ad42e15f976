// brdmad/xdp/xdp_grant.h - makes an AF_XDP socket for a process without the privilege: its memory (UMEM), rings, a free
// receive queue of the interface, and the steering of the process's slot to it. Linux binds one such socket per queue,
// so one process gets each queue; later processes stay with UDP.
//
// The process gets everything; brdmad keeps the steering alone (xdp_book.h). A socket made only to receive stays so,
// because rings cannot be added once it is bound. A process that can transmit by it can send any frame, so only
// processes with that right get the rings (xdp_right.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/result.h"
#include "bitmaprdma/context.h"
#include "io/system/file_descriptor.h"
#include "io/xdp/xdp_protocol.h"
#include "xdp/xdp_steering.h"

namespace brdma::daemon {

struct XdpWish {
  std::uint32_t ifindex = 0;
  std::uint32_t slot = 0;
  io::XdpMode mode = io::XdpMode::kAuto;
  std::uint32_t receive_chunks = 4096;             // 0: only to transmit; then nothing is attached to the interface
  std::uint32_t transmit_chunks = 0;               // 0: only to receive
  bool zero_copy_too = true, generic_too = true;   // modes that kAuto tries
  std::function<bool(std::uint32_t slot)> leased;  // empty: all are
  const XdpSteering* steering = nullptr;           // the interface's; null: it has none yet
  std::uint32_t leaving = 0;                       // our program that the interface may still have
};

struct XdpGrant {
  io::FileDescriptor socket, memory, link;  // no link where it does not receive
  std::optional<XdpSteering> attached;      // to the interface, if it had none
  io::XdpMode mode = io::XdpMode::kNative;
  std::uint32_t queue = 0;
};

// Errors: ENODEV no such interface; EBUSY all queues have a socket, or another XDP program is there; EAGAIN a queue's
// socket is closed, or a program released, but the kernel still has it; EPERM; EINVAL sizes.
[[nodiscard]] Result<XdpGrant, ContextError> grant_xdp(const XdpWish& wish);

}  // namespace brdma::daemon
