// brdmad/xdp/xdp_answer.h - answers a process that requests an AF_XDP socket beside its lease (io/xdp/xdp_protocol.h).
#pragma once

#include <cstdint>

#include "io/xdp/xdp_protocol.h"
#include "lease/lease_book.h"

namespace brdma::daemon {

// Only the lease's user gets one, and only for the slot and the interface of that lease. `may_transmit`: the process
// has shown the right (xdp_right.h) or was granted it; else the socket only receives.
void answer_xdp(int connection, LeaseBook& book, std::uint32_t uid, const io::XdpRequest& request, bool may_transmit);

}  // namespace brdma::daemon
