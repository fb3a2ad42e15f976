#include "qp/state/reception.h"

#include "qp/inquiry/stopped_queries.h"
#include "qp/receive/responder_impl.h"
#include "qp/send/pacing.h"
#include "wire/link_state.h"
#include "wire/stopped_peer.h"

namespace brdma {

using qp::Outcome;

namespace {

constexpr std::uint8_t kEcnCongested = 3;  // of the traffic class (RFC 3168)

// --- standard packets ---

// A NAK that ends the queue pair.
bool is_fatal_nak(const wire::Packet& packet) {
  return packet.op == wire::RcOp::kAcknowledge && packet.aeth.syndrome > wire::kSyndromeNakSequence;
}

// `ahead`: of the base of the receive window.
bool is_in_turn(const wire::Packet& packet, std::int32_t ahead) {
  if (wire::is_request(packet.op)) return ahead == 0;
  return packet.op == wire::RcOp::kAcknowledge && !is_fatal_nak(packet);
}

// --- control packets ---

// The body of one is possible, and names the peer in `member`.
template <class Body>
bool names(std::uint32_t peer_qpn, const std::optional<Body>& body, std::uint32_t Body::*member) {
  return body && (*body).*member == peer_qpn;
}

// A report for the requester: of the peer, its host or a switch. Nothing: it is bad, or no request can have been sent.
std::optional<Outcome> take_report(qp::Requester& requester, const qp::Identity& identity, const wire::Packet& packet,
                                   Instant now) {
  if (!identity.can_send()) return std::nullopt;
  const std::uint32_t peer_qpn = identity.attributes.destination_qpn;
  switch (static_cast<wire::Control>(packet.bth.opcode)) {
    case wire::Control::kFfm: {
      const auto ffm = wire::parse_ffm(packet.payload, packet.bth.psn);
      if (!names(peer_qpn, ffm, &wire::Ffm::source_qpn) || ffm->responses) break;
      return requester.handle_ffm(*ffm, now);
    }
    case wire::Control::kLinkStateFeedback: {
      const auto feedback = wire::parse_link_state_feedback(packet.payload);
      if (!names(peer_qpn, feedback, &wire::LinkStateFeedback::destination_qpn)) break;
      requester.parts().link_inquiries().on_feedback(*feedback);
      return Outcome{};
    }
    case wire::Control::kStoppedReply: {
      const auto reply = wire::parse_stopped_reply(packet.payload);
      if (!names(peer_qpn, reply, &wire::StoppedReply::peer_qpn)) break;
      qp::StoppedQueries{requester}.on_reply(*reply, now);
      return Outcome{};
    }
    default:
      break;
  }
  return std::nullopt;
}

}  // namespace

inline bool QueuePair::Reception::refuses(const wire::Packet& packet, ConstBytes bytes, Instant now) const {
  if (packet.bitmap) [[likely]] {
    if (qp::is_peers(pair_.identity_, packet.bxth)) [[likely]]
      return false;
    pair_.environment_.drop(DropReason::kBadToken);
    return true;
  }
  return (packet.control || pair_.identity_.bitmap_agreed) && refuses_without_bxth(packet, bytes, now);
}

inline void QueuePair::Reception::handle_accepted(const wire::Packet& packet, Instant now) const {
  if (pair_.environment_.telemetry.sink != nullptr) [[unlikely]] {
    pair_.environment_.trace(
        now, pair_.identity_.qpn,
        trace::PacketReceived{packet.bth.opcode, packet.bth.psn, static_cast<std::uint32_t>(packet.payload.size())});
  }
  if (!packet.bitmap) {
    const bool known = pair_.standard_port_.is_known(pair_.received_flow.source_port());
    if ((!known || pair_.identity_.bitmap_agreed) && !packet.control) [[unlikely]]
      return handle_standard(packet, now);
  } else if (packet.bxth.piggyback) {
    const std::uint64_t dropped = pair_.environment_.telemetry.dropped;
    pair_.take_piggyback(packet.bxth, packet.piggyback, now);
    if (pair_.environment_.telemetry.dropped != dropped) return;
  }
  pair_.carry_out(route(packet, now), now);
}

inline void QueuePair::Reception::handle_packet(const wire::Packet& packet, const Datagram& datagram,
                                                Instant now) const {
  if (refuses(packet, datagram.bytes, now)) [[unlikely]]
    return;  // dropped
  if (packet.bth.opcode == wire::kCnpOpcode) [[unlikely]]
    return handle_cnp(now);
  if ((datagram.traffic_class & kEcnCongested) == kEcnCongested) [[unlikely]]
    note_marked(packet, now);
  handle_accepted(packet, now);
}

void QueuePair::Reception::handle_cnp(Instant now) const {
  if (!pair_.identity_.can_send()) return pair_.environment_.drop(DropReason::kQpState);
  qp::CongestionMarks{pair_.requester_}.on_cnp(now);
}

// For packets that carry or request data.
void QueuePair::Reception::note_marked(const wire::Packet& packet, Instant now) const {
  if (packet.control || packet.op == wire::RcOp::kAcknowledge) return;
  qp::CongestionMarks{pair_.requester_}.on_marked(now);
}

// Control packets, and standard ones after bitmap mode was agreed. An EDN carries the token of the dropped packet. CAPS
// carry none, and link state and stopped-peer replies a nonce (docs/reference/wire.md).
bool QueuePair::Reception::refuses_without_bxth(const wire::Packet& packet, ConstBytes bytes, Instant now) const {
  if (packet.control) {
    const bool edn = packet.bth.opcode == static_cast<std::uint8_t>(wire::Control::kEdn);
    const bool has_token = wire::opcode_shape(packet.bth.opcode).has(wire::OpcodeShape::kToken);
    const bool quotes = edn && pair_.identity_.peer_token != 0 && wire::token_of(bytes) == pair_.identity_.peer_token;
    if (!has_token || (edn ? quotes : qp::is_peers(pair_.identity_, bytes))) return false;
    pair_.environment_.drop(DropReason::kBadToken);
    return true;
  }
  if (packet.bth.opcode == wire::kCnpOpcode && wire::cnp_token_of(bytes) == pair_.identity_.own_token) return false;
  if (!pair_.negotiator().refuses_standard(now)) return false;
  pair_.environment_.drop(DropReason::kStandardRefused);
  return true;
}

// A packet from another UDP port than the known one (standard_port.h). With several paths of our own the peer may have
// several ports: all are accepted. If bitmap mode has just been agreed, nothing is further ahead than such a peer's
// packets in flight.
void QueuePair::Reception::handle_standard(const wire::Packet& packet, Instant now) const {
  const std::int32_t ahead = wire::is_request(packet.op) ? distance(packet.bth.psn, pair_.responder_.impl().base()) : 0;
  const bool ends = is_fatal_nak(packet);
  const std::uint16_t port = pair_.received_flow.source_port();
  const bool elsewhere = pair_.standard_port_.differs(port) && qp::own_paths(pair_.environment_) == 1;
  const bool beyond = pair_.identity_.bitmap_agreed &&
                      ahead >= static_cast<std::int32_t>(pair_.identity_.recovery->standard_window_packets);
  if (beyond || (elsewhere && (ahead > 0 || ends))) {
    pair_.environment_.drop(ends ? DropReason::kStaleResponse : DropReason::kOutOfOrder);
    return;
  }
  const std::uint64_t dropped = pair_.environment_.telemetry.dropped;
  pair_.carry_out(route(packet, now), now);
  if (!is_in_turn(packet, ahead) || pair_.environment_.telemetry.dropped != dropped) return;
  pair_.standard_port_.on_in_turn(port);
}

Outcome QueuePair::Reception::route(const wire::Packet& packet, Instant now) const {
  if (!pair_.identity_.can_receive()) {
    if (pair_.has_refused(packet)) pair_.responder_.repeat_refusal(packet);
    pair_.environment_.drop(DropReason::kQpState);
    return {};
  }
  if (packet.bitmap && !pair_.identity_.bitmap_agreed) [[unlikely]]
    pair_.negotiator().on_bitmap_packet();
  if (packet.control) return route_control(packet, now);
  if (wire::is_request(packet.op) == (pair_.identity_.xrc == XrcRole::kInitiator) &&
      pair_.identity_.xrc != XrcRole::kNone) [[unlikely]] {  // XRC goes one way
    pair_.environment_.drop(DropReason::kUnknownOpcode);
    return {};
  }
  if (wire::is_request(packet.op)) return pair_.responder_.handle_request(packet, now);
  if (!pair_.identity_.can_send()) {
    pair_.environment_.drop(DropReason::kStaleResponse);
    return {};
  }
  return pair_.requester_.handle_response(packet, pair_.received_flow.source_port(), now);
}

Outcome QueuePair::Reception::route_control(const wire::Packet& packet, Instant now) const {
  const auto which = static_cast<wire::Control>(packet.bth.opcode);
  // A side that does not negotiate bitmap mode is a standard peer: it takes none of these, except the reply to its own
  // query.
  if (!qp::negotiates(pair_.identity_) && which != wire::Control::kStoppedReply) {
    pair_.environment_.drop(DropReason::kUnknownOpcode);
    return {};
  }
  const std::uint32_t peer_qpn = pair_.identity_.attributes.destination_qpn;
  switch (which) {
    case wire::Control::kCaps: {
      const auto caps = wire::parse_caps(packet.payload);
      if (!names(peer_qpn, caps, &wire::Caps::source_qpn)) break;
      pair_.negotiator().on_caps(*caps, pair_.received_flow.source_port(), now);
      return {};
    }
    case wire::Control::kBitmapAck: {
      const auto ack = wire::parse_bitmap_ack(packet.payload, packet.bth.psn);
      if (!names(peer_qpn, ack, &wire::BitmapAck::source_qpn) || ack->responses || !pair_.identity_.can_send()) break;
      pair_.negotiator().on_bitmap_packet();
      return pair_.requester_.handle_bitmap_ack(*ack, pair_.received_flow.source_port(), now);
    }
    case wire::Control::kFfm:
    case wire::Control::kLinkStateFeedback:
    case wire::Control::kStoppedReply: {
      const auto outcome = take_report(pair_.requester_, pair_.identity_, packet, now);
      if (!outcome) break;
      return *outcome;
    }
    case wire::Control::kEdn: {
      const auto edn = wire::parse_edn(packet.payload, packet.bth.psn);
      if (!names(peer_qpn, edn, &wire::Edn::destination_qpn)) break;
      return apply_drops(*edn, now);
    }
    case wire::Control::kLinkStateInquiry: {  // for the hops on the path; it has reached the end
      const auto inquiry = wire::parse_link_state_inquiry(packet.payload);
      if (!names(peer_qpn, inquiry, &wire::LinkStateInquiry::source_qpn)) break;
      pair_.environment_.count(Counter::kLinkStateInquiriesReceived);
      return {};
    }
    case wire::Control::kStoppedQuery:  // for QP 1
      break;
  }
  pair_.environment_.drop(DropReason::kBadControl);
  return {};
}

Outcome QueuePair::Reception::apply_drops(const wire::Edn& edn, Instant now) const {
  pair_.environment_.count(Counter::kEdnReceived);
  if (pair_.identity_.bitmap_agreed && edn.token != pair_.identity_.peer_token) {
    pair_.environment_.count(Counter::kEdnStale);
    return {};
  }
  if (!pair_.identity_.recovery->edn) {
    pair_.environment_.count(Counter::kEdnOff);
    return {};
  }
  if (edn.responses || edn.acknowledgement) {
    const std::uint64_t bytes = pair_.responder_.handle_edn(edn, now);
    if (bytes > 0 && edn.drain > Duration{}) qp::Pacing{pair_.requester_}.on_responses_dropped(bytes, now);
    return {};
  }
  if (!pair_.identity_.can_send()) {
    pair_.environment_.count(Counter::kEdnStale);
    return {};
  }
  pair_.responder_.repeat_with_data();
  return pair_.requester_.handle_edn(edn, now);
}

// The piggybacked ACK of a data packet, processed before the packet itself. A stale one (packets overtake each other)
// is no fault of the data; an impossible one is a fault of the whole packet.
void QueuePair::take_piggyback(const wire::Bxth& bxth, const wire::Piggyback& piggyback, Instant now) {
  // A side that does not negotiate bitmap mode has not announced that it reads these.
  if (!identity_.can_send() || !qp::negotiates(identity_)) {
    environment_.count(Counter::kStalePiggybacks);
    return;
  }
  carry_out(requester_.handle_bitmap_ack(wire::bitmap_ack_of(bxth, piggyback), received_flow.source_port(), now), now);
}

void QueuePair::handle_packet(const wire::Packet& packet, const Datagram& datagram, Instant now) {
  count_here();
  const std::uint64_t dropped = environment_.telemetry.dropped;
  if (unreliable_) [[unlikely]] {
    carry_out(unreliable_->receiver.handle(packet, datagram, now), now);
  } else {
    Reception{*this}.handle_packet(packet, datagram, now);
  }
  count_judged(dropped);
}

void QueuePair::handle_edn(const wire::Edn& edn, Instant now) {
  count_here();
  if (!identity_.can_receive() || unreliable_) return environment_.count(Counter::kEdnStale);
  carry_out(Reception{*this}.apply_drops(edn, now), now);
}

}  // namespace brdma
