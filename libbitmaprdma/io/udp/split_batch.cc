// io/udp/split_batch.cc
#include "io/udp/split_batch.h"

#include <algorithm>

#include "base/check.h"

namespace brdma::io {

std::size_t split_batch(const Transmit& transmit, std::span<iovec> pieces, std::span<PacketPieces> packets) {
  BRDMA_CHECK(packets.size() >= transmit.segments);
  std::uint32_t used = 0;
  std::size_t slice = 0, offset = 0;  // position in the slices
  std::size_t left = transmit.bytes;
  for (std::size_t i = 0; i < transmit.segments; ++i) {
    std::size_t wanted = std::min<std::size_t>(transmit.segment_bytes, left);
    left -= wanted;
    packets[i].first = used;
    while (wanted > 0) {
      BRDMA_CHECK(slice < transmit.slices.size() && used < pieces.size());
      const Slice& from = transmit.slices[slice];
      const std::size_t take = std::min(wanted, from.size - offset);
      if (take > 0)
        pieces[used++] = iovec{const_cast<std::byte*>(static_cast<const std::byte*>(from.data) + offset), take};
      wanted -= take;
      offset += take;
      if (offset == from.size) {
        ++slice;
        offset = 0;
      }
    }
    packets[i].count = used - packets[i].first;
  }
  return transmit.segments;
}

}  // namespace brdma::io
