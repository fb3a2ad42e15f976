// io/udp/icmp_shield.h - a socket beside an IPv4 sender, with the same port: the system finds it first for ICMP about
// that port, and it ignores path MTUs in ICMP. So no ICMP, which anybody can forge, makes an exception for the peer
// among the host's routes (by default for ten minutes, for all programs). It neither sends nor receives. The other
// socket must allow sharing its port (SO_REUSEPORT).
#pragma once

#include <netinet/in.h>

#include <cstdint>

namespace brdma::io {

// For an unconnected dual-stack socket: a socket of IPv4 alone is found before it. -1: there is none, and ICMP about
// IPv4 peers changes the route, but not the other's sending.
[[nodiscard]] int open_icmp_shield(std::uint16_t port);
// For one connected from `from` to `to`: of several with the same addresses the last is found.
[[nodiscard]] int open_icmp_shield(const sockaddr_in& from, const sockaddr_in& to);

}  // namespace brdma::io
