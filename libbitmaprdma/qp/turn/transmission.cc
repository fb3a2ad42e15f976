// Turns in which more than requests and an acknowledgement may leave; the path of a batch, and its marks.
#include "qp/turn/transmission.h"

#include "qp/inquiry/stopped_queries.h"
#include "qp/negotiate/negotiator.h"
#include "qp/send/pacing.h"
#include "qp/state/pending.h"
#include "wire/cm/mad.h"

namespace brdma {
namespace qp {

std::uint8_t changed_traffic_class(const Identity& id) {
  constexpr std::uint8_t kEcnMask = 3, kEct0 = 2, kEct1 = 1;  // of the traffic class (RFC 3168)
  const std::uint8_t chosen = id.attributes.traffic_class;    // by the program
  const auto& dscp = id.recovery->wan.managed_dscp;
  const unsigned upper = id.peer_managed && dscp ? *dscp << 2u : chosen & ~unsigned{kEcnMask};
  const auto with = [upper](unsigned ecn) { return static_cast<std::uint8_t>(upper | ecn); };
  switch (id.recovery->congestion.ecn) {
    case EcnField::kAuto:
      break;
    case EcnField::kOff:
      return with(0);
    case EcnField::kEct0:
      return with(kEct0);
    case EcnField::kEct1:
      return with(kEct1);
  }
  return with(takes_marks(id.recovery->congestion) ? kEct0 : chosen & kEcnMask);
}

}  // namespace qp

bool QueuePair::Transmission::poll_otherwise(qp::TransmitBatch& batch, Instant now) const {
  // In ERR only the responder's remaining output leaves: the NAK that reports the error.
  if (!pair_.identity_.can_receive() && pair_.identity_.state != QpState::kErr) return false;
  pair_.count_here();
  if (pair_.unreliable_) {
    const bool sent = pair_.unreliable_->sender.poll(batch, now);
    pair_.carry_out(pair_.unreliable_->sender.take_outcome(), now);
    return sent;
  }
  if (!batch.begun()) begin_batch(batch, now);
  return pair_.responder_.poll_responses(batch, now);
}

// Responses, retransmissions, new data; feedback and acknowledgement last, so that they are piggybacked on the last
// packet or leave as the shorter segment behind the data. Output that found no room is first in the next batch: no
// starvation.
bool QueuePair::Transmission::poll_all(qp::TransmitBatch& batch, Instant now) const {
  qp::Requester& requester = pair_.requester_;
  qp::Responder& responder = pair_.responder_;
  qp::OutputOrder& order = pair_.order_;
  if (qp::StoppedQueries{requester}.is_pending() && poll_stopped_query(batch, now)) [[unlikely]]
    return true;
  bool added = false;
  if (order.control_first()) added = poll_control(batch, now);
  batch.keep_last_segment(control_follows(now));
  const bool data = poll_data(batch, now);
  batch.keep_last_segment(false);
  if (data && Interest{pair_}.acknowledgement_waits(now)) {
    order.set_control_first(false);
  } else {
    if (data) {
      responder.acknowledge_now();
      responder.piggyback_acknowledgement(batch, now);
    }
    added = poll_control(batch, now) || added;
    // With room left in the batch, the rest waits for something else.
    order.set_control_first(data && control_follows(now));
  }
  added = added || data;
  if (const qp::Pacing pacing{requester}; pacing.pace().any()) [[unlikely]]
    pacing.note_paced(pacing.has_unpaced_output(now) || responder.has_responses(), now);
  pair_.carry_out(requester.take_outcome(now), now);
  return added;
}

bool QueuePair::Transmission::control_follows(Instant now) const {
  return pair_.negotiation_.due() || pair_.responder_.interest(now) != TransmitInterest::kNone;
}

bool QueuePair::Transmission::poll_data(qp::TransmitBatch& batch, Instant now) const {
  using Kind = qp::OutputOrder::Kind;
  qp::Requester& requester = pair_.requester_;
  qp::OutputOrder& order = pair_.order_;
  if (order.kind() != Kind::kOrdered) [[unlikely]] {
    const bool sent = order.kind() == Kind::kRequests ? requester.poll_requests(batch, now)
                                                      : poll_responses(batch, /*naks=*/false, now);
    if (sent) return true;
    order.give_up_kind();  // they could not leave after all: try the rest
  }
  const bool first = order.requests_first();
  bool requests = first && requester.poll_requests(batch, now);
  const bool responses = poll_responses(batch, /*naks=*/true, now);
  if (!first) requests = requester.poll_requests(batch, now);
  order.set_requests_first(responses && !requests);
  return responses || requests;
}

// A responder has no rate of its own: marks on its responses lower the rate that both halves share.
bool QueuePair::Transmission::poll_responses(qp::TransmitBatch& batch, bool naks, Instant now) const {
  congestion::RateControl* const rate = qp::Pacing{pair_.requester_}.rate();
  return qp::paced({.rate = rate != nullptr && rate->paces_responses() ? rate : nullptr}, batch, now,
                   [&] { return pair_.responder_.poll_responses(batch, now, naks); });
}

bool QueuePair::Transmission::poll_control(qp::TransmitBatch& batch, Instant now) const {
  qp::Requester& requester = pair_.requester_;
  qp::Responder& responder = pair_.responder_;
  bool added = pair_.negotiation_.due() && pair_.negotiator().poll(batch, now);
  added = qp::CongestionMarks{requester}.poll(batch) || added;
  added = poll_inquiry(batch, now) || added;
  if (pair_.order_.kind() == qp::OutputOrder::Kind::kOrdered) added = responder.poll_feedback(batch, now) || added;
  return responder.poll_acknowledgement(batch, now) || added;
}

bool QueuePair::Transmission::poll_inquiry(qp::TransmitBatch& batch, Instant now) const {
  qp::Requester::Impl& requester = pair_.requester_.parts();
  const qp::LinkInquiries inquiries = requester.link_inquiries();
  if (!inquiries.is_due(now)) [[likely]]
    return false;
  return inquiries.poll(batch, requester.timer_lengths().replies(), now);
}

// In a batch of its own, since it goes to another socket of the peer; with several paths by each in turn. False: none
// is due, or the batch has other packets.
bool QueuePair::Transmission::poll_stopped_query(qp::TransmitBatch& batch, Instant now) const {
  const qp::StoppedQueries queries{pair_.requester_};
  if (!queries.is_due()) {
    queries.forget();
    return false;
  }
  if (batch.packets() > 0) return false;
  qp::TransmitBatch::Destination to = destination(pair_);
  const std::uint32_t paths = pair_.identity_.sending_paths;
  if (paths > 1) to.path = static_cast<std::uint8_t>(queries.sent() % paths);
  to.slot = wire::kGsiQpn;
  batch.begin(to);
  queries.add(batch, now);
  return true;
}

void QueuePair::Transmission::begin_sprayed(qp::TransmitBatch& batch, Instant now) const {
  qp::TransmitBatch::Destination to = destination(pair_);
  to.path = next_path(now);
  batch.begin(to, pair_.requester_.parts().sprayed_requests().begun().flow(to.path));
}

// On several paths requests and responses are sprayed batch by batch. Feedback and NAKs are not: they take one path, so
// that they arrive in order, until there is a sign that they are lost.
std::uint8_t QueuePair::Transmission::next_path(Instant now) const {
  using Kind = qp::OutputOrder::Kind;
  qp::Requester& requester = pair_.requester_;
  qp::Responder& responder = pair_.responder_;
  const Kind kind = pair_.order_.advance([&](Kind each) {
    if (each == Kind::kRequests) return requester.interest(now) != TransmitInterest::kNone;
    return each == Kind::kResponses ? responder.has_responses() : responder.has_ordered_output();
  });
  qp::Requester::Impl& parts = requester.parts();
  const qp::SendPaths* const several = parts.path.several.get();
  if (kind == Kind::kRequests) return parts.sprayed_requests().next_path(parts.message_start().next_is_answered(), now);
  if (kind == Kind::kResponses)
    return responder.response_path(several != nullptr ? several->facts() : std::span<const recovery::PathFacts>{}, now);
  // An answer to CAPS takes another path each time: one may be silent from the beginning.
  const qp::Negotiation& negotiation = pair_.negotiation_;
  const std::uint32_t changes = responder.path_changes() + (negotiation.response_due ? negotiation.answered : 0);
  return several != nullptr ? several->control_path(changes)
                            : static_cast<std::uint8_t>(changes % pair_.identity_.sending_paths);
}

}  // namespace brdma
