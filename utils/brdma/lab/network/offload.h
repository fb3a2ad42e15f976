// lab/network/offload.h - the segmentation that the kernel leaves to a host's interface. A virtual interface does no
// segmentation: it hands the whole batch to its peer, here the switch, which must see packets as on a wire.
#pragma once

#include <string>

namespace brdma::lab {

// For an interface of the calling thread's network namespace: makes the kernel segment TCP itself, and batches of UDP
// datagrams too unless `datagram_batches` (the switch then segments them). Throws std::system_error.
void leave_no_segmentation_to(const std::string& interface, bool datagram_batches);

}  // namespace brdma::lab
