// lab/offload.h - which segmentation the kernel leaves to a host's interface. A virtual interface segments nothing: it
// hands the whole batch to its peer, here the switch, which must see what a wire would carry.
#pragma once

#include <string>

namespace brdma::lab {

// For an interface of the calling thread's network namespace: the kernel cuts TCP segments itself, and batches of UDP
// datagrams too unless `datagram_batches` (the switch then cuts them). Throws std::system_error.
void leave_no_segmentation_to(const std::string& interface, bool datagram_batches);

}  // namespace brdma::lab
