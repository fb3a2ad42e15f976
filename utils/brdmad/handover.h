// brdmad/handover.h - what the worker gives its holder to keep: each lease's connection and statistics page, so that a
// worker that dies takes no lease with it. One SOCK_SEQPACKET message each; what a dead worker sent is still read.
#pragma once

#include <array>
#include <cstdint>

#include "io/file_descriptor.h"
#include "io/lease_protocol.h"

namespace brdma::daemon {

struct KeptLease {
  io::FileDescriptor connection, statistics;
};
using KeptLeases = std::array<KeptLease, io::kSlotCount>;  // by slot; what the next worker inherits

// Worker's side. Blocks at most while the holder reads. False: the holder is gone.
[[nodiscard]] bool send_keep(int channel, std::uint32_t slot, int connection, int statistics);
[[nodiscard]] bool send_release(int channel, std::uint32_t slot);

// Holder's side: takes all that waits.
void receive_handovers(int channel, KeptLeases& kept);

}  // namespace brdma::daemon
