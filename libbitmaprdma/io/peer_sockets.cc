#include "io/peer_sockets.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "io/open_socket.h"
#include "io/socket_address.h"
#include "io/socket_options.h"

namespace brdma::io {
namespace {

union SocketAddress {
  sockaddr_in6 v6;
  sockaddr_in v4;
};

// Of the address's own family: a dual-stack socket connected to ::ffff:a.b.c.d looks up the route each time.
socklen_t socket_address(const IpAddress& ip, std::uint16_t port, std::uint32_t scope, SocketAddress& out) {
  out = SocketAddress{};
  if (ip.is_v4()) {
    out.v4.sin_family = AF_INET;
    out.v4.sin_port = htons(port);
    out.v4.sin_addr = to_in_addr(ip);
    return sizeof(out.v4);
  }
  out.v6.sin6_family = AF_INET6;
  out.v6.sin6_port = htons(port);
  out.v6.sin6_addr = to_in6_addr(ip);
  out.v6.sin6_scope_id = scope;
  return sizeof(out.v6);
}

}  // namespace

PeerSockets::~PeerSockets() {
  for (const Peer& peer : peers_) {
    if (peer.fd >= 0) close(peer.fd);
  }
}

void PeerSockets::consider(const Transmit& transmit) {
  if (candidate_batches_ == 0 || !candidate_.is(transmit)) {
    candidate_ = Peer{transmit.source, transmit.destination, transmit.traffic_class, transmit.hop_limit, -1};
    candidate_batches_ = 0;
  }
  if (++candidate_batches_ < kBatchesToConnect || transmit.source.is_zero()) return;
  candidate_batches_ = 0;
  candidate_.fd = connect_to(candidate_);
  if (candidate_.fd < 0) return;  // tried again after as many batches
  Peer& place = peers_[next_place_++ % kPeersMax];
  if (place.fd >= 0) close(place.fd);
  place = candidate_;
}

// -1: the system does not let us, and the unconnected socket does as well.
int PeerSockets::connect_to(const Peer& peer) const {
  const bool v4 = peer.destination.is_v4();
  const bool local = !v4 && (is_link_local(peer.destination) || is_link_local(peer.source));
  const std::uint32_t scope = local ? options_.ifindex : 0;
  const int fd = open_socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  SocketAddress from, to;
  const socklen_t from_size = socket_address(peer.source, options_.source_port, scope, from);
  const socklen_t to_size = socket_address(peer.destination, options_.destination_port, scope, to);
  const int level = v4 ? int{IPPROTO_IP} : int{IPPROTO_IPV6};
  const bool good = receive_nothing(fd) && set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1) &&
                    set_option(fd, level, v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER,
                               v4 ? int{IP_PMTUDISC_DO} : int{IPV6_PMTUDISC_DO}) &&
                    set_option(fd, level, v4 ? IP_TOS : IPV6_TCLASS, peer.traffic_class) &&
                    set_option(fd, level, v4 ? IP_TTL : IPV6_UNICAST_HOPS, peer.hop_limit == 0 ? 64 : peer.hop_limit) &&
                    bind(fd, reinterpret_cast<const sockaddr*>(&from), from_size) == 0 &&
                    connect(fd, reinterpret_cast<const sockaddr*>(&to), to_size) == 0;
  if (!good) {
    close(fd);
    return -1;
  }
  set_option(fd, SOL_SOCKET, SO_SNDBUF, options_.send_buffer_bytes);
  return fd;
}

void PeerSockets::failed(int fd, int error) {
  if (error == ECONNREFUSED) return;
  for (Peer& peer : peers_) {
    if (peer.fd != fd) continue;
    close(fd);
    peer.fd = -1;
  }
}

std::size_t PeerSockets::connected() const {
  std::size_t count = 0;
  for (const Peer& peer : peers_) count += peer.fd >= 0 ? 1 : 0;
  return count;
}

}  // namespace brdma::io
