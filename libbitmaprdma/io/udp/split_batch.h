// io/udp/split_batch.h - cuts a batch's slices at its packets' borders, where the kernel does not do it (no GSO). A
// slice may hold the end of one packet and the start of the next (qp/queues/transmit_batch.h).
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/datagram.h"

namespace brdma::io {

// Maximum size of `out`: each border cuts at most one slice in two.
inline constexpr std::size_t kSplitPiecesMax = kSlicesMax + kSegmentsMax;

// The range of one packet's pieces in `out`.
struct PacketPieces {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

// Writes the pieces of all packets to `pieces` in order, and each packet's range to `packets`; returns the number of
// packets (transmit.segments). Preconditions: room as above, and slices as long as transmit.bytes.
std::size_t split_batch(const Transmit& transmit, std::span<iovec> pieces, std::span<PacketPieces> packets);

}  // namespace brdma::io
