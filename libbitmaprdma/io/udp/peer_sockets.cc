#include "io/udp/peer_sockets.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "io/udp/icmp_shield.h"
#include "io/udp/open_socket.h"
#include "io/udp/socket_address.h"
#include "io/udp/socket_options.h"

namespace brdma::io {
namespace {

union SocketAddress {
  sockaddr_in6 v6;
  sockaddr_in v4;
};

// In the address's own family: a dual-stack socket connected to ::ffff:a.b.c.d looks up the route each time.
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
  for (Peer& peer : peers_) disconnect(peer);
}

void PeerSockets::disconnect(Peer& peer) {
  if (peer.fd >= 0) close(peer.fd);
  if (peer.shield_fd >= 0) close(peer.shield_fd);
  peer.fd = peer.shield_fd = -1;
}

void PeerSockets::consider(const Transmit& transmit) {
  if (candidate_batches_ == 0 || !candidate_.is(transmit)) {
    candidate_ = Peer{transmit.source, transmit.destination, transmit.traffic_class, transmit.hop_limit};
    candidate_batches_ = 0;
  }
  if (++candidate_batches_ < kBatchesToConnect || transmit.source.is_zero()) return;
  candidate_batches_ = 0;
  if (!connect_to(candidate_)) return;  // tried again after as many batches
  Peer& place = peers_[next_place_++ % kPeersMax];
  disconnect(place);
  place = std::exchange(candidate_, Peer{});
}

// False: the system refuses; the unconnected socket works as well.
bool PeerSockets::connect_to(Peer& peer) const {
  const bool v4 = peer.destination.is_v4();
  const bool local = !v4 && (is_link_local(peer.destination) || is_link_local(peer.source));
  const std::uint32_t scope = local ? options_.ifindex : 0;
  const int fd = open_socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  SocketAddress from, to;
  const socklen_t from_size = socket_address(peer.source, options_.source_port, scope, from);
  const socklen_t to_size = socket_address(peer.destination, options_.destination_port, scope, to);
  const int level = v4 ? int{IPPROTO_IP} : int{IPPROTO_IPV6};
  ignore_path_mtu(fd, !v4, /*sends=*/true);
  const bool good = receive_nothing(fd) && set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1) &&
                    set_option(fd, level, v4 ? IP_TOS : IPV6_TCLASS, peer.traffic_class) &&
                    set_option(fd, level, v4 ? IP_TTL : IPV6_UNICAST_HOPS, peer.hop_limit == 0 ? 64 : peer.hop_limit) &&
                    bind(fd, reinterpret_cast<const sockaddr*>(&from), from_size) == 0 &&
                    connect(fd, reinterpret_cast<const sockaddr*>(&to), to_size) == 0;
  if (!good) {
    close(fd);
    return false;
  }
  set_option(fd, SOL_SOCKET, SO_SNDBUF, options_.send_buffer_bytes);
  peer.fd = fd;
  if (v4) peer.shield_fd = open_icmp_shield(from.v4, to.v4);
  return true;
}

void PeerSockets::failed(int fd, int error) {
  if (error == ECONNREFUSED) return;
  for (Peer& peer : peers_) {
    if (peer.fd == fd) disconnect(peer);
  }
}

std::size_t PeerSockets::connected() const {
  std::size_t count = 0;
  for (const Peer& peer : peers_) count += peer.fd >= 0 ? 1 : 0;
  return count;
}

}  // namespace brdma::io
