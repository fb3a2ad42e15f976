// lab/processes/listen_watch.h - reports when a program on a host listens for TCP or by RDMA-CM: the moment to start
// its client.
#pragma once

#include <sys/types.h>

#include "io/system/file_descriptor.h"
#include "lab/processes/client.h"

namespace brdma::lab {

class ListenWatch {
 public:
  // Gives up after so many seconds. Throws LabError.
  ListenWatch(const HostNamespaces& host, std::uint32_t seconds);
  ~ListenWatch();
  ListenWatch(const ListenWatch&) = delete;
  ListenWatch& operator=(const ListenWatch&) = delete;
  // Readable when a program listens, or the time is over.
  [[nodiscard]] int fd() const { return readable_.get(); }

 private:
  pid_t child_ = -1;  // polls inside the host's network
  io::FileDescriptor readable_;
};

}  // namespace brdma::lab
