// brdmad/xdp/xdp_right.h - the right to send any frame on this network.
#pragma once

namespace brdma::daemon {

// Whether `shown`, a descriptor sent by a process, is a packet socket (packet(7)) of this network namespace. Its owner
// could make it (CAP_NET_RAW in the namespace) or got it from a process that could, and can send anything by it. The
// process's user or capabilities would prove less: root may lack the capability, it counts only in the namespace's user
// namespace, and the process may have ended and its number be reused.
[[nodiscard]] bool proves_right_to_transmit(int shown);

}  // namespace brdma::daemon
