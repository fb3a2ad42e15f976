// qp/state/reception.h - private: the way of a packet into a queue pair: is it the peer's, which part takes it, and
// what its Outcome changes. The fast paths beside it: qp/loss/ack_fast_path.cc, qp/receive/single_write.cc.
#pragma once

#include "base/datagram.h"
#include "qp/state/queue_pair.h"

namespace brdma {
namespace qp {

// For an opcode with a token: it has ours, which is made before anything is received, and names the peer.
[[nodiscard]] inline bool is_peers(const Identity& id, ConstBytes packet) {
  return wire::token_of(packet) == id.own_token && wire::source_qpn_of(packet) == id.attributes.destination_qpn;
}
[[nodiscard]] inline bool is_peers(const Identity& id, const wire::Bxth& bxth) {
  return bxth.token == id.own_token && bxth.source_qpn == id.attributes.destination_qpn;
}

}  // namespace qp

// A view of an RC queue pair, made where it is needed.
class QueuePair::Reception {
 public:
  explicit Reception(QueuePair& pair) : pair_(pair) {}

  // An EDN, in a packet or reported by ICMP: handled by the half that sent the dropped packets.
  qp::Outcome apply_drops(const wire::Edn& edn, Instant now) const;
  // `datagram`: of the packet.
  [[gnu::always_inline]] void handle_packet(const wire::Packet& packet, const Datagram& datagram, Instant now) const;

 private:
  // Not recognisable as the peer's: dropped.
  [[nodiscard, gnu::always_inline]] bool refuses(const wire::Packet& packet, ConstBytes bytes, Instant now) const;
  [[nodiscard]] bool refuses_without_bxth(const wire::Packet& packet, ConstBytes bytes, Instant now) const;
  [[gnu::always_inline]] void handle_accepted(const wire::Packet& packet, Instant now) const;
  void handle_standard(const wire::Packet& packet, Instant now) const;
  qp::Outcome route(const wire::Packet& packet, Instant now) const;
  qp::Outcome route_control(const wire::Packet& packet, Instant now) const;
  void handle_cnp(Instant now) const;
  void note_marked(const wire::Packet& packet, Instant now) const;

  QueuePair& pair_;
};

}  // namespace brdma
