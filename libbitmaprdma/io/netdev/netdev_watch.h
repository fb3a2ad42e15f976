// io/netdev/netdev_watch.h - tells that a network interface may have changed: its state or its addresses. What has
// changed is for the caller to look up; several changes may be reported as one. Where no netlink socket is to be had (a
// sandbox) the interface is looked at instead, as often as the caller calls read().
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
  // Readable: call read(). -1: nothing will say so, call it now and then.
  [[nodiscard]] int fd() const { return socket_.get(); }
  // Since the last call. Does not block.
  [[nodiscard]] Change read();

 private:
  [[nodiscard]] std::optional<Interface> look() const;
  [[nodiscard]] Change compare();
  std::uint32_t ifindex_ = 0;
  std::optional<Interface> seen_;  // without a socket: when it was looked at last
  FileDescriptor socket_;
};

}  // namespace brdma::io
