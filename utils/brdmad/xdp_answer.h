// brdmad/xdp_answer.h - answers a process that asks for an AF_XDP socket beside its lease (io/xdp/xdp_protocol.h).
#pragma once

#include <cstdint>

#include "io/xdp/xdp_protocol.h"
#include "lease_book.h"

namespace brdma::daemon {

// Only the user who has the lease gets one, and only for the slot and the interface that it leased.
// `may_transmit`: it has shown the right to (xdp_right.h), or was given it; else it gets one that receives.
void answer_xdp(int connection, LeaseBook& book, std::uint32_t uid, const io::XdpRequest& request, bool may_transmit);

}  // namespace brdma::daemon
