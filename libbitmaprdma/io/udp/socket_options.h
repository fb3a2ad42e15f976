// io/udp/socket_options.h - options common to the sockets of this folder. False or -1: errno says why.
#pragma once

#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace brdma::io {

inline bool set_option(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof(value)) == 0;
}

// Sets whether it receives packets of multicast groups joined by any process of the host.
inline void take_multicast(int fd, bool dual_stack, bool take) {
  constexpr int kIpv6MulticastAll = 29;  // IPV6_MULTICAST_ALL, which older headers lack
  set_option(fd, IPPROTO_IP, IP_MULTICAST_ALL, take ? 1 : 0);
  if (dual_stack) set_option(fd, IPPROTO_IPV6, kIpv6MulticastAll, take ? 1 : 0);
}

// Anybody can forge an ICMP with a path MTU: it must neither stop a sender nor change a route of the host. IPv6
// sockets, and those that only receive: the system ignores such ICMP (INTERFACE). Over IPv4 that would leave out "don't
// fragment", which the ICRC covers; a sending socket has PROBE, and io/udp/icmp_shield.h beside it.
inline void ignore_path_mtu(int fd, bool ipv6, bool sends) {
  set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, sends ? IP_PMTUDISC_PROBE : IP_PMTUDISC_INTERFACE);
  if (ipv6) set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_INTERFACE);
}

// For a socket that only sends: nobody may fill its unread buffer.
inline bool receive_nothing(int fd) {
  sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &nothing};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0;
}

// Never blocks, is no cancellation point.
inline long send_message(int fd, const msghdr& message) {
  long sent;
  do {
    sent = syscall(SYS_sendmsg, fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

}  // namespace brdma::io
