// A queue pair's turn. Mostly only one half has output, and the other none or an acknowledgement, which a cheap test
// shows (qp/state/pending.h). Most of those turns are of a single request with a piggybacked ACK.
#include "qp/state/pending.h"
#include "qp/state/queue_pair.h"

namespace brdma {

QueuePair::Polled QueuePair::poll_transmit(qp::TransmitBatch& batch, Instant now) {
  if (!identity_.can_receive() || unreliable_) [[unlikely]]
    return poll_otherwise(batch, now) ? Polled::kSome : Polled::kNothing;
  count_here();
  if (!batch.begun()) begin_batch(batch, now);
  const Speaker one = speaker();
  if (one == Speaker::kBoth) return poll_both(batch, now) ? Polled::kSome : Polled::kNothing;
  requests_first_ = control_first_ = false;
  bool sent = false;
  if (one == Speaker::kAcknowledgement) {
    sent = responder_.poll_acknowledgement(batch, now);
  } else {
    const bool acknowledges = one == Speaker::kRequestsAcknowledging;
    if (poll_single(batch, acknowledges, now)) return Polled::kAll;
    sent = acknowledges ? poll_acknowledging(batch, now) : poll_requests(batch, now);
  }
  return sent ? Polled::kSome : Polled::kNothing;
}

inline QueuePair::Speaker QueuePair::speaker() const {
  const qp::Requester::Impl& requester = requester_.impl();
  const qp::Responder::Impl& responder = responder_.impl();
  if (identity_.sending_paths != 1 || negotiation_.ask_due || negotiation_.response_due ||
      qp::has_signals(requester.path.signals, identity_.recovery->wan) || !responder.only_acknowledges()) {
    return Speaker::kBoth;
  }
  if (!responder.acknowledgements.schedule.pending()) return Speaker::kRequests;
  if (requester.is_idle()) return Speaker::kAcknowledgement;
  return control_first_ ? Speaker::kBoth : Speaker::kRequestsAcknowledging;
}

bool QueuePair::only_begins_requests() const {
  const qp::Requester::Impl& requester = requester_.impl();
  return identity_.bitmap_agreed && !unreliable_ && speaker() == Speaker::kRequests &&
         requester.scoreboard.pending() == 0 && !requester.losses.recovery;
}

void QueuePair::begin_batch(qp::TransmitBatch& batch, Instant now) {
  if (identity_.sending_paths != 1) [[unlikely]]
    return begin_sprayed(batch, now);
  batch.begin(destination(), sent_flow_);
}

// A single request with a piggybacked ACK: a repetition of the last acknowledgement, or a new one (`acknowledges`).
// True: nothing is left to send. False: nothing has happened.
inline bool QueuePair::poll_single(qp::TransmitBatch& batch, bool acknowledges, Instant now) {
  qp::Requester::Impl& requester = requester_.impl();
  qp::Responder::Impl& responder = responder_.impl();
  const bool repeats = responder.acknowledgements.schedule.repeats();
  const bool inside = (acknowledges || repeats) && responder.acknowledgement_writer().may_piggyback();
  if (acknowledges && !inside) return false;
  batch.keep_last_segment(acknowledges && responder.acknowledgement_times().due(now));
  const bool sent = requester.transmit_single(batch, inside ? wire::kPiggybackSize : 0, now);
  batch.keep_last_segment(false);
  if (!sent) return false;
  if (inside) {
    const qp::AcknowledgementWriter writer = responder.acknowledgement_writer();
    wire::emit_piggyback(writer.piggyback(now), batch.behind_bxth());
    writer.note_piggybacked(now);
  }
  carry_out_of(requester, now);
  return true;
}

bool QueuePair::poll_requests(qp::TransmitBatch& batch, Instant now) {
  const bool sent = requester_.poll_requests(batch, now);
  if (sent) responder_.piggyback_acknowledgement(batch, now);  // repeats the last one
  carry_out(requester_.take_outcome(now), now);
  return sent;
}

// A reply: requests, and the acknowledgement of the packets they answer. As in poll_both() if nothing else is due.
bool QueuePair::poll_acknowledging(qp::TransmitBatch& batch, Instant now) {
  batch.keep_last_segment(responder_.has_output(now));
  const bool data = requester_.poll_requests(batch, now);
  batch.keep_last_segment(false);
  bool acknowledged = false;
  if (!data || !acknowledgement_waits(now)) {
    if (data) {
      responder_.acknowledge_now();
      responder_.piggyback_acknowledgement(batch, now);
    }
    acknowledged = responder_.poll_acknowledgement(batch, now);
    control_first_ = data && responder_.has_output(now);
  }
  carry_out(requester_.take_outcome(now), now);
  return data || acknowledged;
}

}  // namespace brdma
