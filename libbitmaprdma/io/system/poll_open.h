// io/system/poll_open.h - poll(2) without negative descriptors. poll ignores them, but a preloaded librspreload.so
// (rdma-core up to 64) reads before the start of its table, which may end the program.
#pragma once

#include <poll.h>

#include <array>
#include <cstddef>

namespace brdma::io {

// As poll(2). A thread may be cancelled in it: nothing here has a destructor.
template <std::size_t kCount>
int poll_open(std::array<pollfd, kCount>& fds, int timeout_ms) {
  std::array<pollfd, kCount> open{};
  nfds_t count = 0;
  for (pollfd& each : fds) {
    each.revents = 0;
    if (each.fd >= 0) open[count++] = each;
  }
  const int ready = ::poll(open.data(), count, timeout_ms);
  count = 0;
  for (pollfd& each : fds) {
    if (each.fd >= 0) each.revents = open[count++].revents;
  }
  return ready;
}

}  // namespace brdma::io
