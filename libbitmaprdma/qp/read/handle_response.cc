// READ responses, which confirm ATOMIC WRITEs and FLUSHes too, and atomic acknowledgements. They may come in any order:
// each is placed by its PSN. Missing ones in between are judged by the receiver's rules (design BR-15), and only
// those are re-requested. In go-back-N a response out of order is dropped and the rest is requested again, as plain
// RoCE does.
#include "qp/read/middle_responses.h"
#include "qp/read/response_arrival.h"
#include "qp/read/response_placement.h"
#include "qp/send/requester_impl.h"

namespace brdma::qp {

namespace {

// Nothing was missing before it. True: that is all of it.
[[gnu::always_inline]] inline bool take_middle(Requester::Impl& me, const wire::Packet& packet, Instant now) {
  const MiddleResponses middle{{me.env, me.id, me.queue, me.messages, me.scoreboard, me.losses.recovery,
                                me.losses.judge != nullptr, me.responses, me.response_receiver, me.timers}};
  if (!middle.take(packet, now)) return false;
  // With more gaps than records, an unrecorded one: later packets have been processed already.
  if (me.scoreboard.is_acked(me.scoreboard.base())) [[unlikely]]
    me.advance(now);
  return true;
}

// `packet`, the response at `sequence`, is placed.
void take_placed(Requester::Impl& me, const wire::Packet& packet, Sequence sequence, Message& message,
                 std::uint16_t source_port, Instant now) {
  const ResponseGaps gaps = me.response_gaps();
  const SentPackets packets = me.sent_packets();
  const ResponseArrival arrival{{me.env, me.id, me.scoreboard, me.path.rtt, me.path.congestion, me.responses, me.timers,
                                 me.losses.judge.get(), response_pace(me.path.signals), me.path.several.get(), packets,
                                 gaps}};
  const ResponseArrival::Request request = arrival.take(packet, sequence, message, source_port, now);
  // A response to this request shows that all before it are executed.
  me.acknowledge_requests_before(message.end(), now);
  gaps.on_response(packet, sequence, request.sent, now);
  // Of a response that was requested again it is not known which request it answers (Karn).
  if (me.timers.has_undecided() && request.once) [[unlikely]]
    me.timer_actions().on_evidence(request.sent, now);
  me.advance(now);
  gaps.judge(now, me.env.arrived_at(now), packets.retransmitting(Counter::kRetransmittedFfm, now));
}

}  // namespace

Outcome Requester::handle_response(const wire::Packet& packet, std::uint16_t source_port, Instant now) {
  Impl& me = *impl_;
  if (packet.op == wire::RcOp::kAcknowledge) return handle_aeth(packet, now);
  if (take_middle(me, packet, now)) return me.outcome(now);
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
    me.response_gaps().go_back(now, me.sent_packets().retransmitting(Counter::kRetransmittedNak, now));
    return {};
  }
  me.timers.on_activity(now);
  const ResponsePlacement placement{{me.env, me.id, me.queue, me.fault, me.references()}};
  if (placement.place(packet, *sequence, message)) take_placed(me, packet, *sequence, message, source_port, now);
  return me.outcome(now);
}

}  // namespace brdma::qp
