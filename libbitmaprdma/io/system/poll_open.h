// io/system/poll_open.h - poll(2) that passes on no negative descriptor. poll ignores one, but librspreload.so in front
// of it (rdma-core up to 64) looks it up before the start of its table: what it finds there may end the program.
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
