#include "io/xdp/fill_ring.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace brdma::io {

bool FillRing::map(int socket_fd, const xdp_ring_offset& offsets, std::uint32_t chunks) {
  const std::size_t bytes = offsets.desc + chunks * sizeof(std::uint64_t);
  mapping_ = Mapping::shared(socket_fd, bytes, XDP_UMEM_PGOFF_FILL_RING);
  if (!mapping_.valid()) return false;
  ring_ = XdpRing<std::uint64_t>{{mapping_.data(), offsets, chunks}};
  given_ = ring_.filled();
  return true;
}

void FillRing::publish(int socket_fd) {
  ring_.fill_to(given_);
  // The driver has run out of chunks and needs a wake-up for new ones.
  if (ring_.needs_wakeup()) [[unlikely]]
    (void)syscall(SYS_recvfrom, socket_fd, nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
}

}  // namespace brdma::io
