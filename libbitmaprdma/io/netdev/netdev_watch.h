// io/netdev/netdev_watch.h - reports possible changes of a network interface: its state or its addresses. The caller
// looks up the details; several changes may be reported as one. Without a netlink socket (a sandbox), each call of
// read() checks the interface instead.
#pragma once

#include <cstdint>
#include <optional>

#include "io/netdev/interfaces.h"
#include "io/system/file_descriptor.h"

namespace brdma::io {

class NetdevWatch {
 public:
  enum class Change : std::uint8_t { kNone, kChanged, kRemoved };

  // Of the interface with this index, in the network namespace of the caller.
  void open(std::uint32_t ifindex);
  // Readable: call read(). -1: no notification, call it from time to time.
  [[nodiscard]] int fd() const { return socket_.get(); }
  // Since the last call. Does not block.
  [[nodiscard]] Change read();

 private:
  [[nodiscard]] std::optional<Interface> look() const;
  [[nodiscard]] Change compare();
  std::uint32_t ifindex_ = 0;
  std::optional<Interface> seen_;  // without a socket: its last state
  FileDescriptor socket_;
};

}  // namespace brdma::io
