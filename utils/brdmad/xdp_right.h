// brdmad/xdp_right.h - who may put any frame on this network.
#pragma once

namespace brdma::daemon {

// Whether `shown`, a descriptor that a process has sent us, is a packet socket (packet(7)) of this network namespace.
// Who has one could make it (CAP_NET_RAW where the namespace is) or was given it by somebody who could, and sends by it
// what it likes. Looking at the process's user or capabilities instead would say less: root need not have the
// capability, it counts in the namespace's user namespace only, and the process may have ended and another have its
// number.
[[nodiscard]] bool proves_right_to_transmit(int shown);

}  // namespace brdma::daemon
