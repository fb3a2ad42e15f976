// io/netdev_watch.h - tells that a network interface may have changed: its state or its addresses. What has changed is
// for the caller to look up; several changes may be told as one.
#pragma once

#include <cstdint>

#include "io/file_descriptor.h"

namespace brdma::io {

class NetdevWatch {
 public:
  enum class Change : std::uint8_t { kNone, kChanged, kRemoved };

  // Of the interface with this index, in the network namespace of the caller. False: the system gives no socket.
  bool open(std::uint32_t ifindex);
  [[nodiscard]] int fd() const { return socket_.get(); }  // readable: call read()
  // Since the last call. Does not block.
  [[nodiscard]] Change read();

 private:
  std::uint32_t ifindex_ = 0;
  FileDescriptor socket_;
};

}  // namespace brdma::io
