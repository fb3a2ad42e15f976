// io/udp/split_batch.h - cuts a batch's slices at its packets' borders, for where the kernel does not do it (no GSO).
// A slice may hold the end of one packet and the start of the next (qp/queues/transmit_batch.h).
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/datagram.h"

namespace brdma::io {

// Room that `out` needs at most: each border cuts at most one slice in two.
inline constexpr std::size_t kSplitPiecesMax = kSlicesMax + kSegmentsMax;

// Where the pieces of one packet lie in `out`.
struct PacketPieces {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

// Writes the pieces of all packets to `pieces` in order, and per packet where they lie to `packets`; answers the number
// of packets (transmit.segments). Preconditions: room as said above, and slices as long as transmit.bytes.
std::size_t split_batch(const Transmit& transmit, std::span<iovec> pieces, std::span<PacketPieces> packets);

}  // namespace brdma::io
