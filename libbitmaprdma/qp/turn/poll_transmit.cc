// A queue pair's turn. Mostly only one half has output, and the other none or an acknowledgement, as their pending
// interests show (qp/state/pending.h). Most of those turns are of a single request with a piggybacked ACK.
#include "base/check.h"
#include "qp/state/pending.h"
#include "qp/turn/transmission.h"

namespace brdma {

// A single request with a piggybacked ACK: a repetition of the last acknowledgement, or a new one (`acknowledges`).
// True: nothing is left to send. False: nothing has happened.
inline bool QueuePair::Transmission::poll_single(qp::TransmitBatch& batch, bool acknowledges, Instant now) const {
  qp::Requester::Impl& requester = pair_.requester_.impl();
  qp::Responder::Impl& responder = pair_.responder_.impl();
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
  pair_.carry_out_of(requester, now);
  return true;
}

TransmitInterest QueuePair::poll_transmit(qp::TransmitBatch& batch, Instant now) {
  const Transmission transmission{*this};
  // `sent`: this turn added something.
  const auto left = [&](bool sent) { return sent || batch.packets() > 0 ? interest(now) : TransmitInterest::kNone; };
  if (!identity_.can_receive() || unreliable_) [[unlikely]]
    return left(transmission.poll_otherwise(batch, now));
  count_here();
  if (!batch.begun()) transmission.begin_batch(batch, now);
  const TransmitInterest beside =
      identity_.sending_paths == 1 ? Interest{*this}.beside_requests() : TransmitInterest::kForced;
  const bool acknowledges = beside == TransmitInterest::kDeferrable;
  const bool alone = acknowledges && requester_.impl().pending_interest() == TransmitInterest::kNone;
  if (beside > TransmitInterest::kDeferrable || (acknowledges && !alone && order_.control_first()))
    return left(transmission.poll_all(batch, now));
  order_.none_first();
  if (alone) return left(responder_.poll_acknowledgement(batch, now));
  if (transmission.poll_single(batch, acknowledges, now)) {
    BRDMA_CHECK_SLOW(interest(now) == TransmitInterest::kNone);
    return TransmitInterest::kNone;
  }
  return left(acknowledges ? transmission.poll_acknowledging(batch, now) : transmission.poll_requests(batch, now));
}

bool QueuePair::Transmission::poll_requests(qp::TransmitBatch& batch, Instant now) const {
  const bool sent = pair_.requester_.poll_requests(batch, now);
  if (sent) pair_.responder_.piggyback_acknowledgement(batch, now);  // repeats the last one
  pair_.carry_out(pair_.requester_.take_outcome(now), now);
  return sent;
}

// A reply: requests, and the acknowledgement of the packets they answer. As in poll_all() if nothing else is due.
bool QueuePair::Transmission::poll_acknowledging(qp::TransmitBatch& batch, Instant now) const {
  batch.keep_last_segment(pair_.responder_.interest(now) != TransmitInterest::kNone);
  const bool data = pair_.requester_.poll_requests(batch, now);
  batch.keep_last_segment(false);
  bool acknowledged = false;
  if (!data || !Interest{pair_}.acknowledgement_waits(now)) {
    if (data) {
      pair_.responder_.acknowledge_now();
      pair_.responder_.piggyback_acknowledgement(batch, now);
    }
    acknowledged = pair_.responder_.poll_acknowledgement(batch, now);
    pair_.order_.set_control_first(data && pair_.responder_.interest(now) != TransmitInterest::kNone);
  }
  pair_.carry_out(pair_.requester_.take_outcome(now), now);
  return data || acknowledged;
}

}  // namespace brdma
