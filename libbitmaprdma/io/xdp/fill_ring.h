// io/xdp/fill_ring.h - chunks for the kernel to receive into: given one by one, published together, because each
// publication writes a cache line that the kernel reads. One thread at a time.
#pragma once

#include <cstdint>

#include "io/system/mapping.h"
#include "io/xdp/xdp_protocol.h"
#include "io/xdp/xdp_rings.h"

namespace brdma::io {

class FillRing {
 public:
  // Of the socket, with a place for each of its receive chunks. False: it cannot be mapped (errno).
  [[nodiscard]] bool map(int socket_fd, const xdp_ring_offset& offsets, std::uint32_t chunks);

  // The chunk with this address. There are as many places as chunks to receive into: there is always room.
  void give(std::uint64_t address) { ring_.at(given_++) = address & ~std::uint64_t{kXdpChunkBytes - 1}; }
  // Number of chunks that are given, but not published.
  [[nodiscard]] std::uint32_t unpublished() const { return given_ - ring_.filled(); }
  void publish(int socket_fd);
  // Address of the chunk at a place, as it was given.
  [[nodiscard]] std::uint64_t at(std::uint32_t position) { return ring_.at(position); }

 private:
  Mapping mapping_;
  XdpRing<std::uint64_t> ring_;
  std::uint32_t given_ = 0;  // the ring's next place
};

}  // namespace brdma::io
