#include "io/udp/multicast_groups.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "io/udp/open_socket.h"
#include "io/udp/socket_address.h"

namespace brdma::io {

Status MulticastGroups::join(const IpAddress& group, std::uint32_t ifindex) {
  if (joined_.contains(group)) return Status::success();
  const bool v4 = group.is_v4();
  FileDescriptor fd{open_socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  if (!fd.valid()) return Status{errno};
  int failed = 0;
  if (v4) {
    ip_mreqn request{};
    request.imr_multiaddr = to_in_addr(group);
    request.imr_ifindex = static_cast<int>(ifindex);
    failed = ::setsockopt(fd.get(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request);
  } else {
    ipv6_mreq request{};
    request.ipv6mr_multiaddr = to_in6_addr(group);
    request.ipv6mr_interface = ifindex;
    failed = ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &request, sizeof request);
  }
  if (failed != 0) return Status{errno};
  joined_.emplace(group, std::move(fd));
  return Status::success();
}

}  // namespace brdma::io
