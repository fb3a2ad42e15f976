// io/udp/icmp_shield.h - a socket beside one that sends over IPv4, of the same port: the system finds it first when
// ICMP about that port comes, and ignores what that says of a path MTU. So no ICMP, which anybody can forge, makes an
// exception for the peer among the host's routes (by default for ten minutes, for all programs). It neither sends nor
// receives. The other must allow that its port is shared (SO_REUSEPORT).
#pragma once

#include <netinet/in.h>

#include <cstdint>

namespace brdma::io {

// For an unconnected dual-stack socket: one of IPv4 alone is found before it. -1: there is none, and ICMP about
// IPv4 peers changes the route, not what the other may send.
[[nodiscard]] int open_icmp_shield(std::uint16_t port);
// For one connected from `from` to `to`: of several with the same addresses the last is found.
[[nodiscard]] int open_icmp_shield(const sockaddr_in& from, const sockaddr_in& to);

}  // namespace brdma::io
