// Who wants to send (base/transmit_interest.h): the parts' interests, merged. Most calls find at most an
// acknowledgement, which a few bits show.
#include "base/check.h"
#include "qp/state/pending.h"
#include "qp/state/queue_pair.h"

namespace brdma {

TransmitInterest QueuePair::interest(Instant now) const {
  if (unreliable_) [[unlikely]]
    return merged_interest(now);
  const TransmitInterest beside = pending_beside_requests();
  if (beside > TransmitInterest::kDeferrable || requester_.impl().pending_interest() != TransmitInterest::kNone)
    return merged_interest(now);
  TransmitInterest acknowledgement = TransmitInterest::kNone;
  if (beside != TransmitInterest::kNone) acknowledgement = responder_.impl().acknowledgement_times().interest(now);
  BRDMA_CHECK_SLOW(merged_interest(now) == acknowledgement);
  return acknowledgement;
}

TransmitInterest QueuePair::merged_interest(Instant now) const {
  if (unreliable_) [[unlikely]]
    return unreliable_->sender.interest();
  if (identity_.state == QpState::kErr) return responder_.interest(now);
  if (!identity_.can_receive()) return TransmitInterest::kNone;
  return merge(merge(own_interest(now), responder_.interest(now)), requester_.interest(now));
}

// Beside its halves: negotiation, congestion notification, questions about the path and the peer.
TransmitInterest QueuePair::own_interest(Instant now) const {
  const bool due =
      negotiation_.due() || requester_.cnp_due() || requester_.inquiry_due(now) || requester_.stopped_query_due();
  return due ? TransmitInterest::kForced : TransmitInterest::kNone;
}

// In a reply of several batches the last one has the acknowledgement. A peer that polls for the acknowledgement and
// then spins on its memory (ib_write_lat) would stop receiving in the middle of the reply if an earlier one had it. A
// long reply takes longer than an acknowledgement may be delayed, longest if the peer is slow already, because its
// thread receives. With the delay alone as the limit, two such programs would stay out of step.
bool QueuePair::acknowledgement_waits(Instant now) const {
  constexpr int kDelaysWithReply = 4;
  return requester_.ends_soon() && own_interest(now) == TransmitInterest::kNone &&
         responder_.may_wait_for_data(kDelaysWithReply, now) && requester_.interest(now) != TransmitInterest::kNone;
}

}  // namespace brdma
