// READ responses, which confirm ATOMIC WRITEs and FLUSHes too, and atomic acknowledgements. They may come in any order:
// each is placed by its PSN. Missing ones in between are judged by the receiver's rules (spec 1: tolerance), and only
// those are re-requested. In go-back-N a response out of order is dropped and the rest is requested again, as plain
// RoCE does.
#include "qp/send/requester_impl.h"

namespace brdma::qp {

Outcome Requester::handle_response(const wire::Packet& packet, std::uint16_t source_port, Instant now) {
  Impl& me = *impl_;
  me.answered_from = source_port;
  if (packet.op == wire::RcOp::kAcknowledge) return me.handle_aeth(packet, now);
  if (me.take_middle_response(packet, now)) return me.outcome(now);
  const auto sequence = me.scoreboard.sequence_of(packet.bth.psn);
  const auto record_duplicate = [&](bool before_base) {
    me.env.duplicates.record({now, me.id.qpn, packet.bth.psn, packet.bxth.path, before_base, /*response=*/true});
  };
  if (!sequence) {
    if (distance(packet.bth.psn, me.scoreboard.base_psn()) < 0) record_duplicate(true);
    me.env.drop(DropReason::kStaleResponse);
    return {};
  }
  Message& message = me.messages.of(*sequence);
  if (!ResponsePlacement::answers(packet, message)) {
    me.env.drop(DropReason::kStaleResponse);
    return {};
  }
  if (me.scoreboard.is_acked(*sequence)) {
    record_duplicate(false);
    me.env.drop(DropReason::kDuplicate);
    return {};
  }
  if (me.id.goes_back() && me.response_gaps().first_missing() != *sequence) {
    me.env.drop(DropReason::kOutOfOrder);
    me.response_gaps().go_back(now, [&](Sequence at) {
      return me.sent_packets().retransmit(at, me.messages.of(at), Counter::kRetransmittedNak, now);
    });
    return {};
  }
  me.timers.on_activity(now);
  if (!me.response_placement().place(packet, *sequence, message)) return me.outcome(now);
  return me.take_response(packet, *sequence, message, now);
}

Outcome Requester::Impl::take_response(const wire::Packet& packet, Sequence sequence, Message& message, Instant now) {
  if (packet.bitmap && id.receiving_paths > 1) [[unlikely]]
    response_gaps().note_path(packet, env.arrived_at(now));
  if (paths) [[unlikely]]
    path_evidence().on_any_response(sequence, message, now);
  const Instant sent = scoreboard.sent_at(sequence, now);
  const bool requested_once = scoreboard.entry(sequence).transmissions == 1;
  responses.on_response(message.payload_at(sequence, id.mtu()), message.kind == MessageKind::kRead);
  measure_response(sequence, message, sent, now);
  sent_packets().acknowledge(sequence, message, now);
  progress().on_acknowledged(now);
  // A response to this request shows that all before it are executed.
  acknowledge_requests_before(message.end(), now);
  response_gaps().on_response(packet, sequence, sent, now);
  // Of a response that was requested again it is not known which request it answers (Karn).
  if (timers.has_undecided() && requested_once) [[unlikely]]
    timer_actions().on_evidence(sent, now);
  advance(now);
  judge_response_gaps(now, env.arrived_at(now));
  return outcome(now);
}

// An RTT sample, if the response is the first to a request that was sent once.
void Requester::Impl::measure_response(Sequence sequence, const Message& message, Instant sent, Instant now) {
  if (sequence != message.first || scoreboard.entry(sequence).transmissions != 1) return;
  sample_rtt(now - sent, now);
  Duration sample = now - sent;
  if (paths) [[unlikely]]
    sample = path_evidence().on_response(scoreboard.entry(sequence).path, answered_from, sent, now);
  const congestion::RoundTrip trip{sample, env.waited};
  const std::uint64_t arrived = responses.on_round_trip(trip, now);
  if (response_pace() != nullptr) [[unlikely]]
    response_pacing().on_round_trip(trip.on_the_way(), arrived, now);
}

void Requester::Impl::judge_response_gaps(Instant now, Instant seen) {
  response_gaps().judge(now, seen, [&](Sequence at) {
    return sent_packets().retransmit(at, messages.of(at), Counter::kRetransmittedFfm, now);
  });
}

}  // namespace brdma::qp
