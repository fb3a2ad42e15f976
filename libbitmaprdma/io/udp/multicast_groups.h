// io/udp/multicast_groups.h - the multicast groups that a process has joined on its interface. Not through the leased
// socket, whose memberships would stay when the process dies: a socket of our own for each group, gone with us. The
// leased socket takes what the interface gets (ReceiveSocket::take_multicast).
#pragma once

#include <map>

#include "base/ip_address.h"
#include "base/result.h"
#include "io/system/file_descriptor.h"

namespace brdma::io {

class MulticastGroups {
 public:
  // Of one that has been joined: nothing changes. Errors as setsockopt(2) of IP_ADD_MEMBERSHIP.
  Status join(const IpAddress& group, std::uint32_t ifindex);
  void leave(const IpAddress& group) { joined_.erase(group); }
  [[nodiscard]] bool empty() const { return joined_.empty(); }

 private:
  std::map<IpAddress, FileDescriptor> joined_;
};

}  // namespace brdma::io
