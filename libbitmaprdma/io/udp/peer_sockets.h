// io/udp/peer_sockets.h - sockets connected to the peers with most traffic: the system then looks up no route and reads
// no addresses for a batch (0.35 us). Only for packets whose ICRC does not cover the IPv4 identification (bitmap mode),
// which a connected socket increments by itself.
//
// A peer gets one once kBatchesToConnect batches in a row among those without one went to it; at most kPeersMax, the
// oldest is replaced. They share the unconnected socket's port, which both must allow (SO_REUSEPORT). ICMP errors over
// IPv6 come back on connected sockets: the caller sends that batch by the unconnected one, and calls failed(). Those
// over IPv4 come to a shield (io/udp/icmp_shield.h). One thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/datagram.h"

namespace brdma::io {

class PeerSockets {
 public:
  struct Options {
    std::uint16_t source_port = 0;
    std::uint16_t destination_port = kRoceUdpPort;
    std::uint32_t ifindex = 0;  // interface of link-local addresses
    int send_buffer_bytes = 1 << 20;
  };
  explicit PeerSockets(const Options& options) : options_(options) {}
  ~PeerSockets();
  PeerSockets(const PeerSockets&) = delete;
  PeerSockets& operator=(const PeerSockets&) = delete;

  // The socket for this batch; -1: the unconnected one.
  [[nodiscard]] int find(const Transmit& transmit) const {
    if (transmit.standard) return -1;
    for (const Peer& peer : peers_) {
      if (peer.fd >= 0 && peer.is(transmit)) return peer.fd;
    }
    return -1;
  }
  // The batch has left by the unconnected socket: its peer is a candidate for a socket of its own.
  void sent_unconnected(const Transmit& transmit) {
    if (!transmit.standard && find(transmit) < 0) consider(transmit);
  }
  // Sending on `fd` failed with `error`. If the peer only does not listen, the socket stays.
  void failed(int fd, int error);
  [[nodiscard]] std::size_t connected() const;

  static constexpr std::size_t kPeersMax = 4;
  static constexpr unsigned kBatchesToConnect = 16;

 private:
  struct Peer {
    IpAddress source, destination;
    std::uint8_t traffic_class = 0, hop_limit = 0;
    int fd = -1, shield_fd = -1;
    [[nodiscard]] bool is(const Transmit& transmit) const {
      return destination == transmit.destination && source == transmit.source &&
             traffic_class == transmit.traffic_class && hop_limit == transmit.hop_limit;
    }
  };
  void consider(const Transmit& transmit);
  [[nodiscard]] bool connect_to(Peer& peer) const;
  static void disconnect(Peer& peer);

  Options options_;
  std::array<Peer, kPeersMax> peers_;
  std::size_t next_place_ = 0;
  Peer candidate_;
  unsigned candidate_batches_ = 0;
};

}  // namespace brdma::io
