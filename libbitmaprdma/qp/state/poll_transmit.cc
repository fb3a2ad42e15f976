// A queue pair's turn. Mostly only one half has output, and the other none or an acknowledgement, as their pending
// interests show (qp/state/pending.h). Most of those turns are of a single request with a piggybacked ACK.
#include "base/check.h"
#include "qp/state/pending.h"
#include "qp/state/queue_pair.h"

namespace brdma {

TransmitInterest QueuePair::poll_transmit(qp::TransmitBatch& batch, Instant now) {
  if (!identity_.can_receive() || unreliable_) [[unlikely]]
    return left(poll_otherwise(batch, now), batch, now);
  count_here();
  if (!batch.begun()) begin_batch(batch, now);
  const TransmitInterest beside = identity_.sending_paths == 1 ? pending_beside_requests() : TransmitInterest::kForced;
  const bool acknowledges = beside == TransmitInterest::kDeferrable;
  const bool alone = acknowledges && requester_.impl().pending_interest() == TransmitInterest::kNone;
  if (beside > TransmitInterest::kDeferrable || (acknowledges && !alone && control_first_))
    return left(poll_both(batch, now), batch, now);
  requests_first_ = control_first_ = false;
  if (alone) return left(responder_.poll_acknowledgement(batch, now), batch, now);
  if (poll_single(batch, acknowledges, now)) {
    BRDMA_CHECK_SLOW(interest(now) == TransmitInterest::kNone);
    return TransmitInterest::kNone;
  }
  return left(acknowledges ? poll_acknowledging(batch, now) : poll_requests(batch, now), batch, now);
}

// `sent`: this turn added something.
inline TransmitInterest QueuePair::left(bool sent, const qp::TransmitBatch& batch, Instant now) const {
  return sent || batch.packets() > 0 ? interest(now) : TransmitInterest::kNone;
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
  batch.keep_last_segment(responder_.interest(now) != TransmitInterest::kNone);
  const bool data = requester_.poll_requests(batch, now);
  batch.keep_last_segment(false);
  bool acknowledged = false;
  if (!data || !acknowledgement_waits(now)) {
    if (data) {
      responder_.acknowledge_now();
      responder_.piggyback_acknowledgement(batch, now);
    }
    acknowledged = responder_.poll_acknowledgement(batch, now);
    control_first_ = data && responder_.interest(now) != TransmitInterest::kNone;
  }
  carry_out(requester_.take_outcome(now), now);
  return data || acknowledged;
}

}  // namespace brdma
