#include "qp/state/queue_pair.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "qp/receive/responder_impl.h"
#include "qp/send/pace.h"
#include "wire/link_state.h"
#include "wire/stopped_peer.h"

namespace brdma {

using qp::Outcome;

namespace {

constexpr std::uint8_t kEcnCongested = 3;  // of the traffic class (RFC 3168)
constexpr std::uint8_t kPortIsKnown = 64;  // after so many packets in turn from one port

qp::Identity with_recovery(qp::Identity identity, const qp::Environment& environment) {
  if (identity.recovery == nullptr) identity.recovery = &environment.config.recovery;
  return identity;
}

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
      requester.handle_link_state(*feedback);
      return Outcome{};
    }
    case wire::Control::kStoppedReply: {
      const auto reply = wire::parse_stopped_reply(packet.payload);
      if (!names(peer_qpn, reply, &wire::StoppedReply::peer_qpn)) break;
      requester.handle_stopped_reply(*reply, now);
      return Outcome{};
    }
    default:
      break;
  }
  return std::nullopt;
}

}  // namespace

QueuePair::QueuePair(const qp::Environment& environment, const qp::Identity& identity)
    : environment_(environment),
      identity_(with_recovery(identity, environment)),
      requester_(environment, identity_),
      responder_(environment, identity_) {
  if (identity_.type != QpType::kRc) unreliable_ = std::make_unique<qp::Unreliable>(environment, identity_);
}

QueuePair::~QueuePair() {
  if (identity_.can_receive()) --environment_.active_qps;
  if (environment_.counting == &statistics_) environment_.counting = nullptr;
}

Status QueuePair::check_send(std::span<const SendRequest> requests) const {
  if (!takes_sends()) return Status{EINVAL};
  return unreliable_ ? unreliable_->sender.check_all(requests) : requester_.check_send(requests);
}

Status QueuePair::post_send(std::span<const SendRequest> requests, Instant now, std::size_t& posted) {
  count_here();
  posted = 0;
  if (!takes_sends()) return Status{EINVAL};
  Status status;
  if (unreliable_) [[unlikely]] {
    while (posted < requests.size() && status.ok()) {
      status = unreliable_->sender.post(requests[posted]);
      if (status.ok()) ++posted;
    }
  } else {
    status = requester_.post_send(requests, posted);
  }
  if (posted > 0 && !identity_.can_send()) fail_sends(now);
  return status;
}

Status QueuePair::post_receive(const ReceiveRequest& request, Instant now) {
  count_here();
  if (identity_.state == QpState::kReset) return Status{EINVAL};
  const Status status = unreliable_ ? unreliable_->receiver.post(request) : responder_.post_receive(request);
  if (status.ok() && identity_.state == QpState::kErr) fail_receives(now);
  return status;
}

void QueuePair::fail_sends(Instant now) { unreliable_ ? unreliable_->sender.flush(now) : requester_.flush(now); }
void QueuePair::fail_receives(Instant now) { unreliable_ ? unreliable_->receiver.flush(now) : responder_.flush(now); }

void QueuePair::handle_packet(const wire::Packet& packet, const Datagram& datagram, Instant now) {
  count_here();
  const std::uint64_t dropped = environment_.dropped;
  if (unreliable_) [[unlikely]] {
    carry_out(unreliable_->receiver.handle(packet, datagram, now), now);
  } else if (refuses(packet, datagram.bytes, now)) [[unlikely]] {
    // dropped
  } else if (packet.bth.opcode == wire::kCnpOpcode) [[unlikely]] {
    handle_cnp(now);
  } else {
    if ((datagram.traffic_class & kEcnCongested) == kEcnCongested) [[unlikely]]
      note_marked(packet, now);
    handle_reliable(packet, now);
  }
  count_judged(dropped);
}

// Control packets, and standard ones after bitmap mode was agreed. An EDN carries the token of the dropped packet. CAPS
// carry none, and link state and stopped-peer replies a nonce (docs/wire.md).
bool QueuePair::refuses_without_bxth(const wire::Packet& packet, ConstBytes bytes, Instant now) {
  if (packet.control) {
    const bool edn = packet.bth.opcode == static_cast<std::uint8_t>(wire::Control::kEdn);
    const bool has_token = wire::opcode_shape(packet.bth.opcode).has(wire::OpcodeShape::kToken);
    const bool quotes = edn && identity_.peer_token != 0 && wire::token_of(bytes) == identity_.peer_token;
    if (!has_token || (edn ? quotes : is_peers(bytes))) return false;
    environment_.drop(DropReason::kBadToken);
    return true;
  }
  if (packet.bth.opcode == wire::kCnpOpcode && wire::cnp_token_of(bytes) == identity_.own_token) return false;
  if (!refuses_standard(now)) return false;
  environment_.drop(DropReason::kStandardRefused);
  return true;
}

void QueuePair::handle_reliable(const wire::Packet& packet, Instant now) {
  if (environment_.sink != nullptr) [[unlikely]] {
    environment_.trace(
        now, identity_.qpn,
        trace::PacketReceived{packet.bth.opcode, packet.bth.psn, static_cast<std::uint32_t>(packet.payload.size())});
  }
  if (!packet.bitmap) {
    const bool known = standard_run_ == kPortIsKnown && received_flow.source_port() == standard_port_;
    if ((!known || identity_.bitmap_agreed) && !packet.control) [[unlikely]]
      return handle_standard(packet, now);
  } else if (packet.bxth.piggyback) {
    const std::uint64_t dropped = environment_.dropped;
    take_piggyback(packet.bxth, packet.piggyback, now);
    if (environment_.dropped != dropped) return;
  }
  carry_out(route(packet, now), now);
}

// A packet from another UDP port than the known one. A standard peer has no token, but usually one port. From another
// port only packets in turn are accepted: none that would wait out of order, and no NAK that ends the queue pair. So a
// forger must hit the one PSN in turn (2^24 tries), or another PSN and the port (2^14 times as many). Packets in turn
// make a new port known. With several paths of our own the peer may have several ports: all are accepted. If bitmap
// mode has just been agreed, nothing is further ahead than such a peer's packets in flight.
void QueuePair::handle_standard(const wire::Packet& packet, Instant now) {
  const std::int32_t ahead = wire::is_request(packet.op) ? distance(packet.bth.psn, responder_.impl().base()) : 0;
  const bool ends = is_fatal_nak(packet);
  const std::uint16_t port = received_flow.source_port();
  const bool elsewhere = port != standard_port_ && standard_run_ >= kPortIsKnown && own_paths() == 1;
  const bool beyond =
      identity_.bitmap_agreed && ahead >= static_cast<std::int32_t>(identity_.recovery->standard_window_packets);
  if (beyond || (elsewhere && (ahead > 0 || ends))) {
    environment_.drop(ends ? DropReason::kStaleResponse : DropReason::kOutOfOrder);
    return;
  }
  const std::uint64_t dropped = environment_.dropped;
  carry_out(route(packet, now), now);
  if (!is_in_turn(packet, ahead) || environment_.dropped != dropped) return;
  const std::uint8_t run = port == standard_port_ ? standard_run_ : std::uint8_t{0};
  if (run < kPortIsKnown) standard_run_ = static_cast<std::uint8_t>(run + 1);
  standard_port_ = port;
}

// The piggybacked ACK of a data packet, processed before the packet itself. A stale one (packets overtake each other)
// is no fault of the data; an impossible one is a fault of the whole packet.
void QueuePair::take_piggyback(const wire::Bxth& bxth, const wire::Piggyback& piggyback, Instant now) {
  // A side that does not negotiate bitmap mode has not announced that it reads these.
  if (!identity_.can_send() || !negotiates(identity_.recovery->mode)) {
    environment_.count(Counter::kStalePiggybacks);
    return;
  }
  carry_out(requester_.handle_bitmap_ack(wire::bitmap_ack_of(bxth, piggyback), received_flow.source_port(), now), now);
}

Outcome QueuePair::route(const wire::Packet& packet, Instant now) {
  if (!identity_.can_receive()) {
    if (has_refused(packet)) responder_.repeat_refusal(packet);
    environment_.drop(DropReason::kQpState);
    return {};
  }
  if (packet.bitmap) note_bitmap_peer();
  if (packet.control) return route_control(packet, now);
  if (wire::is_request(packet.op)) return responder_.handle_request(packet, now);
  if (!identity_.can_send()) {
    environment_.drop(DropReason::kStaleResponse);
    return {};
  }
  return requester_.handle_response(packet, received_flow.source_port(), now);
}

Outcome QueuePair::route_control(const wire::Packet& packet, Instant now) {
  const auto which = static_cast<wire::Control>(packet.bth.opcode);
  // A side that does not negotiate bitmap mode is a standard peer: it takes none of these, except the reply to its own
  // query.
  if (!negotiates(identity_.recovery->mode) && which != wire::Control::kStoppedReply) {
    environment_.drop(DropReason::kUnknownOpcode);
    return {};
  }
  const std::uint32_t peer_qpn = identity_.attributes.destination_qpn;
  switch (which) {
    case wire::Control::kCaps: {
      const auto caps = wire::parse_caps(packet.payload);
      if (!names(peer_qpn, caps, &wire::Caps::source_qpn)) break;
      handle_caps(*caps, now);
      return {};
    }
    case wire::Control::kBitmapAck: {
      const auto ack = wire::parse_bitmap_ack(packet.payload, packet.bth.psn);
      if (!names(peer_qpn, ack, &wire::BitmapAck::source_qpn) || ack->responses || !identity_.can_send()) break;
      note_bitmap_peer();
      return requester_.handle_bitmap_ack(*ack, received_flow.source_port(), now);
    }
    case wire::Control::kFfm:
    case wire::Control::kLinkStateFeedback:
    case wire::Control::kStoppedReply: {
      const auto outcome = take_report(requester_, identity_, packet, now);
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
      environment_.count(Counter::kLinkStateInquiriesReceived);
      return {};
    }
    case wire::Control::kStoppedQuery:  // for QP 1
      break;
  }
  environment_.drop(DropReason::kBadControl);
  return {};
}

void QueuePair::handle_edn(const wire::Edn& edn, Instant now) {
  count_here();
  if (!identity_.can_receive() || unreliable_) return environment_.count(Counter::kEdnStale);
  carry_out(apply_drops(edn, now), now);
}

// Handled by the half that sent the dropped packets.
Outcome QueuePair::apply_drops(const wire::Edn& edn, Instant now) {
  environment_.count(Counter::kEdnReceived);
  if (identity_.bitmap_agreed && edn.token != identity_.peer_token) {
    environment_.count(Counter::kEdnStale);
    return {};
  }
  if (!identity_.recovery->edn) {
    environment_.count(Counter::kEdnOff);
    return {};
  }
  if (edn.responses || edn.acknowledgement) {
    const std::uint64_t bytes = responder_.handle_edn(edn, now);
    if (bytes > 0 && edn.drain > Duration{}) requester_.note_responses_dropped(bytes, now);
    return {};
  }
  if (!identity_.can_send()) {
    environment_.count(Counter::kEdnStale);
    return {};
  }
  responder_.repeat_with_data();
  return requester_.handle_edn(edn, now);
}

void QueuePair::handle_timeout(Instant now) {
  if (!identity_.can_receive() || unreliable_) return;
  count_here();
  if (negotiation_.ask_again && now >= *negotiation_.ask_again) {
    negotiation_.ask_again.reset();
    negotiation_.ask_due = true;
  }
  requester_.end_pace_wait(now);
  carry_out(responder_.handle_timeout(now), now);
  if (identity_.can_send()) carry_out(requester_.handle_timeout(now), now);
}

std::optional<Instant> QueuePair::first_timeout() const {
  std::optional<Instant> first = responder_.next_timeout();
  const auto consider = [&first](std::optional<Instant> other) {
    if (other && (!first || *other < *first)) first = other;
  };
  consider(negotiation_.ask_again);
  if (requester_.is_idle()) return first;
  consider(requester_.next_timeout());
  consider(requester_.paced_until());
  return first;
}

// UC and UD, and the remaining output in ERR.
bool QueuePair::poll_otherwise(qp::TransmitBatch& batch, Instant now) {
  if (!may_transmit()) return false;
  count_here();
  if (unreliable_) {
    const bool sent = unreliable_->sender.poll(batch, now);
    carry_out(unreliable_->sender.take_outcome(), now);
    return sent;
  }
  if (!batch.begun()) begin_batch(batch, now);
  return responder_.poll_responses(batch, now);
}

// Responses, retransmissions, new data; feedback and acknowledgement last, so that they are piggybacked on the last
// packet or leave as the shorter segment behind the data. Output that found no room is first in the next batch: no
// starvation.
bool QueuePair::poll_both(qp::TransmitBatch& batch, Instant now) {
  if (requester_.has_stopped_query() && poll_stopped_query(batch, now)) [[unlikely]]
    return true;
  const auto follows = [&] { return negotiation_.due() || responder_.interest(now) != TransmitInterest::kNone; };
  bool added = false;
  if (control_first_) added = poll_control(batch, now);
  batch.keep_last_segment(follows());
  const bool data = poll_data(batch, now);
  batch.keep_last_segment(false);
  if (data && acknowledgement_waits(now)) {
    control_first_ = false;
  } else {
    if (data) {
      responder_.acknowledge_now();
      responder_.piggyback_acknowledgement(batch, now);
    }
    added = poll_control(batch, now) || added;
    // With room left in the batch, the rest waits for something else.
    control_first_ = data && follows();
  }
  added = added || data;
  if (requester_.pace().any()) [[unlikely]]
    requester_.note_paced(requester_.has_unpaced_output(now) || responder_.has_responses(), now);
  carry_out(requester_.take_outcome(now), now);
  return added;
}

void QueuePair::begin_sprayed(qp::TransmitBatch& batch, Instant now) {
  qp::TransmitBatch::Destination to = destination();
  to.path = take_turn(now);
  batch.begin(to, requester_.flow(to.path));
}

// On several paths requests and responses are sprayed batch by batch. Feedback and NAKs are not: they take one path, so
// that they arrive in order, until there is a sign that they are lost. Returns the path of the batch.
std::uint8_t QueuePair::take_turn(Instant now) {
  const auto waits = [&](Turn turn) {
    switch (turn) {
      case Turn::kRequests:
        return requester_.interest(now) != TransmitInterest::kNone;
      case Turn::kResponses:
        return responder_.has_responses();
      case Turn::kOrdered:
        break;
    }
    return responder_.has_ordered_output();
  };
  constexpr unsigned kTurns = 3;
  unsigned next = static_cast<unsigned>(turn_);
  for (unsigned i = 0; i < kTurns; ++i) {
    next = (next + 1) % kTurns;
    if (waits(static_cast<Turn>(next))) break;
  }
  turn_ = waits(static_cast<Turn>(next)) ? static_cast<Turn>(next) : Turn::kOrdered;
  if (turn_ == Turn::kRequests) return requester_.next_path(now);
  if (turn_ == Turn::kResponses) return responder_.response_path(requester_.path_facts(), now);
  // An answer to CAPS takes another path each time: one may be silent from the beginning.
  return requester_.control_path(responder_.path_changes() + (negotiation_.response_due ? negotiation_.answered : 0));
}

bool QueuePair::poll_data(qp::TransmitBatch& batch, Instant now) {
  if (turn_ != Turn::kOrdered) [[unlikely]] {
    const bool sent =
        turn_ == Turn::kRequests ? requester_.poll_requests(batch, now) : poll_responses(batch, /*naks=*/false, now);
    if (sent) return true;
    turn_ = Turn::kOrdered;  // they could not leave after all: try the rest
  }
  bool responses = false, requests = false;
  if (requests_first_) requests = requester_.poll_requests(batch, now);
  responses = poll_responses(batch, /*naks=*/true, now);
  if (!requests) {
    const bool turn_taken = requests_first_;
    requests = !turn_taken && requester_.poll_requests(batch, now);
  }
  requests_first_ = responses && !requests;
  return responses || requests;
}

// A responder has no rate of its own: marks on its responses lower the rate that both halves share.
bool QueuePair::poll_responses(qp::TransmitBatch& batch, bool naks, Instant now) {
  congestion::RateControl* const rate = requester_.rate();
  return qp::paced({.rate = rate != nullptr && rate->paces_responses() ? rate : nullptr}, batch, now,
                   [&] { return responder_.poll_responses(batch, now, naks); });
}

bool QueuePair::poll_control(qp::TransmitBatch& batch, Instant now) {
  bool added = poll_caps(batch, now);
  added = requester_.poll_cnp(batch) || added;
  added = requester_.poll_inquiry(batch, now) || added;
  if (turn_ == Turn::kOrdered) added = responder_.poll_feedback(batch, now) || added;
  return responder_.poll_acknowledgement(batch, now) || added;
}

void QueuePair::set_recovery(const RecoveryConfig* recovery, Instant now) {
  identity_.recovery = recovery;
  if (!identity_.can_receive() || unreliable_) return;
  count_here();
  requester_.recovery_changed();
  responder_.recovery_changed(now);
}

void QueuePair::send_final_acks() {
  if (identity_.can_receive() && !unreliable_) responder_.send_final_acks();
}

void QueuePair::handed_over(Instant now) {
  count_here();
  unreliable_->sender.handed_over(now);
  carry_out(unreliable_->sender.take_outcome(), now);
}

int QueuePair::take_async_event() {
  if (async_events_ == 0) return -1;
  const int event = std::countr_zero(async_events_);
  async_events_ &= async_events_ - 1;
  return event;
}

void QueuePair::do_carry_out(const Outcome& outcome, Instant now) {
  if (outcome.async_event >= 0) raise(outcome.async_event);
  if (outcome.sends_fail && identity_.can_send()) enter_send_error(now);
  if (outcome.wants_local && identity_.local_state == LocalState::kNotAsked) want_local();
  if (outcome.to_error) enter_error(now);
  if (drain_wanted_) note_drained();
}

}  // namespace brdma
