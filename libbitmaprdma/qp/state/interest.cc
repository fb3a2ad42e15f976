// Who wants to send (base/transmit_interest.h): the parts' interests, merged. Most calls find at most an
// acknowledgement, which a few bits show.
#include "base/check.h"
#include "qp/inquiry/stopped_queries.h"
#include "qp/send/pacing.h"
#include "qp/state/pending.h"

namespace brdma {

TransmitInterest QueuePair::interest(Instant now) const {
  if (unreliable_) [[unlikely]]
    return unreliable_->sender.interest();
  const Interest parts{*this};
  const TransmitInterest beside = parts.beside_requests();
  if (beside > TransmitInterest::kDeferrable || requester_.impl().pending_interest() != TransmitInterest::kNone)
    return parts.merged(now);
  TransmitInterest acknowledgement = TransmitInterest::kNone;
  if (beside != TransmitInterest::kNone) acknowledgement = responder_.impl().acknowledgement_times().interest(now);
  BRDMA_CHECK_SLOW(parts.merged(now) == acknowledgement);
  return acknowledgement;
}

TransmitInterest QueuePair::Interest::merged(Instant now) const {
  const qp::Responder& responder = pair_.responder_;
  if (pair_.identity_.state == QpState::kErr) return responder.interest(now);
  if (!pair_.identity_.can_receive()) return TransmitInterest::kNone;
  return merge(merge(beside_halves(now), responder.interest(now)), pair_.requester_.interest(now));
}

// Negotiation, congestion notification, questions about the path and the peer.
TransmitInterest QueuePair::Interest::beside_halves(Instant now) const {
  const qp::Requester& requester = pair_.requester_;
  const bool due = pair_.negotiation_.due() || qp::CongestionMarks{requester}.cnp_due() ||
                   requester.parts().link_inquiries().is_due(now) || qp::StoppedQueries{requester}.is_due();
  return due ? TransmitInterest::kForced : TransmitInterest::kNone;
}

// In a reply of several batches the last one has the acknowledgement. A peer that polls for the acknowledgement and
// then spins on its memory (ib_write_lat) would stop receiving in the middle of the reply if an earlier one had it. A
// long reply takes longer than an acknowledgement may be delayed, longest if the peer is slow already, because its
// thread receives. With the delay alone as the limit, two such programs would stay out of step.
bool QueuePair::Interest::acknowledgement_waits(Instant now) const {
  constexpr int kDelaysWithReply = 4;
  return pair_.requester_.ends_soon() && beside_halves(now) == TransmitInterest::kNone &&
         pair_.responder_.may_wait_for_data(kDelaysWithReply, now) &&
         pair_.requester_.interest(now) != TransmitInterest::kNone;
}

}  // namespace brdma
