// A datagram's way in: bytes to a packet, its queue pair, its peer, its ICRC; then the queue pair takes over. Accepted
// plus all drops equals received: each packet is counted once, by the first stage that judges it.
#include "device/engine_impl.h"
#include "wire/control.h"
#include "wire/edn.h"
#include "wire/single_write.h"

namespace brdma {

// Null: no such queue pair, or it has another peer.
inline QueuePair* Engine::Impl::addressee(const Datagram& datagram) const {
  constexpr std::size_t kDestinationQpn = 5;  // of BTH
  QueuePair* const qp = queue_pairs.find(load_be24(datagram.bytes.data() + kDestinationQpn));
  if (qp == nullptr) return nullptr;
  const QpAttributes& attributes = qp->identity().attributes;
  const bool of_peer = datagram.source == attributes.peer_address && datagram.destination == attributes.local_address;
  return of_peer ? qp : nullptr;
}

[[gnu::always_inline]] inline void Engine::Impl::note_peer_alive(QueuePair* qp) {
  touched(qp);
  if (!environment.links.congested_peers.empty()) [[unlikely]]
    take_congested_peers();
}

// Fast path for the most common packets, over many queue pairs or from a peer that responds: a WRITE of one packet, or
// else a plain acknowledgement. False, and nothing has happened: the packet takes the general path, which finds out
// why.
inline bool Engine::Impl::take_usual(const Datagram& datagram, bool writes) {
  QueuePair* const qp = addressee(datagram);
  if (qp == nullptr || !qp->received_flow.has_ports(datagram.source_port, kRoceUdpPort)) return false;
  if (writes ? !qp->take_single_write(datagram, now) : !qp->on_cumulative_ack(datagram.bytes, now)) return false;
  note_peer_alive(qp);
  return true;
}

void Engine::handle_datagram(const Datagram& datagram, Instant now) {
  Impl& me = *impl_;
  me.now = now;
  me.environment.waited = datagram.waited;
  me.environment.count(Counter::kReceivedPackets);
  me.environment.count(Counter::kReceivedBytes, datagram.bytes.size());
  const bool writes = wire::is_single_write(datagram.bytes);
  const bool usual = writes || wire::is_cumulative_ack(datagram.bytes);
  if (!usual || !me.take_usual(datagram, writes)) me.take(datagram);
}

// General path.
void Engine::Impl::take(const Datagram& datagram) {
  wire::Packet packet;
  if (const auto reason = wire::parse_packet_into(datagram.bytes, packet)) return drop(datagram, *reason);
  QueuePair* const qp = queue_pairs.find(packet.bth.dest_qpn);
  if (qp == nullptr) [[unlikely]] {
    if (packet.bth.dest_qpn == device::kMulticastQpn) return handle_multicast(datagram, packet);
    return drop(datagram, DropReason::kUnknownQp);
  }
  const qp::Identity& identity = qp->identity();
  if (!identity.can_receive() && !qp->has_refused(packet)) return drop(datagram, DropReason::kQpState);
  if (!qp::speaks(identity, packet.bth.opcode)) return drop(datagram, DropReason::kUnknownOpcode);
  if (identity.type != QpType::kUd && (datagram.source != identity.attributes.peer_address ||
                                       datagram.destination != identity.attributes.local_address)) {
    return drop(datagram, DropReason::kWrongPeer);
  }
  if (!icrc.holds(datagram, packet, identity.type == QpType::kUd ? nullptr : &qp->received_flow)) {
    return drop(datagram, DropReason::kBadIcrc);
  }
  qp->handle_packet(packet, datagram, now);
  note_peer_alive(qp);
}

// Anybody can send ICMP: it must name an existing connection. Its queue pair judges the rest.
void Engine::handle_icmp(ConstBytes message, Instant now) {
  Impl& me = *impl_;
  me.now = now;
  const auto note_acknowledged = wire::parse_icmp_edn(message);
  if (!note_acknowledged) return;
  const auto concerns = [&note_acknowledged](const qp::Identity& identity) {
    return identity.can_receive() && identity.type == QpType::kRc &&
           identity.attributes.peer_address == note_acknowledged->destination &&
           identity.attributes.local_address == note_acknowledged->source &&
           identity.attributes.destination_qpn == note_acknowledged->edn.destination_qpn;
  };
  QueuePair* qp = nullptr;
  if (note_acknowledged->source_qpn) {
    qp = me.queue_pairs.find(*note_acknowledged->source_qpn);  // which compares the token
    if (qp != nullptr && !concerns(qp->identity())) qp = nullptr;
  } else {
    me.queue_pairs.for_each([&](QueuePair* candidate) {
      if (concerns(candidate->identity())) qp = candidate;
    });
  }
  if (qp == nullptr) return me.environment.count(Counter::kEdnStale);
  qp->handle_edn(note_acknowledged->edn, now);
  me.touched(qp);
}

void Engine::Impl::drop(const Datagram& datagram, DropReason reason) {
  environment.drop(reason);
  if (environment.telemetry.sink == nullptr) return;
  const bool has_bth = datagram.bytes.size() >= wire::kBthSize;
  const wire::Bth bth = has_bth ? wire::parse_bth(datagram.bytes.first<wire::kBthSize>()) : wire::Bth{};
  environment.trace(now, bth.dest_qpn, trace::PacketDropped{reason, bth.opcode, bth.psn});
}

}  // namespace brdma
