// io/xdp_frame.h - a RoCEv2 packet as an Ethernet frame: what the kernel's network stack would have said of it.
#pragma once

#include "base/bytes.h"
#include "base/datagram.h"

namespace brdma::io {

// False: not a whole unfragmented UDP datagram to RoCE's port by IPv4 without options or IPv6 without extension
// headers; the steering program lets no such frame through. Lengths are compared with the frame's; what is behind the
// datagram (padding of short frames) is cut off. Checksums are not looked at: ICRC covers what they do, and its own.
[[nodiscard]] bool parse_roce_frame(ConstBytes frame, Datagram& out);

}  // namespace brdma::io
