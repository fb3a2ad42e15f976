// io/udp/multicast_groups.h - the multicast groups that a process has joined on its interface. The leased socket is not
// the member: its memberships would survive the process. Each group has a socket of our own, which ends with us. The
// leased socket receives the interface's packets (ReceiveSocket::take_multicast).
#pragma once

#include <map>

#include "base/ip_address.h"
#include "base/result.h"
#include "io/system/file_descriptor.h"

namespace brdma::io {

class MulticastGroups {
 public:
  // A second join of a group changes nothing. Errors as setsockopt(2) of IP_ADD_MEMBERSHIP.
  Status join(const IpAddress& group, std::uint32_t ifindex);
  void leave(const IpAddress& group) { joined_.erase(group); }
  [[nodiscard]] bool empty() const { return joined_.empty(); }

 private:
  std::map<IpAddress, FileDescriptor> joined_;
};

}  // namespace brdma::io
