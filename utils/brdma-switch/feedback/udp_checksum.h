// brdma-switch/feedback/udp_checksum.h - the UDP checksum of a packet whose payload the switch has rewritten (design
// ER-15).
//   0        the packet has none, and gets none
//   partial  the sum of the pseudo-header: it does not depend on the payload. Completed by the next kernel or interface
//   full     becomes partial, with its present sum: no second pass over the payload here
// A wrong full checksum gets right; damage to a RoCE packet shows in its ICRC.
#pragma once

#include "base/bytes.h"
#include "forwarding/switch_packet.h"

namespace brdma::lab {

// `frame`: the whole packet. Precondition: it has a UDP header.
void mend_udp_checksum(SwitchPacket& packet, MutableBytes frame);

}  // namespace brdma::lab
