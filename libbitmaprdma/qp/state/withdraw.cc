// A batch that will not leave, because memory of its packets is gone. For RC it is as if the network had lost it, but
// known at once: requests are retransmitted, and their memory is probed first (MemoryTable::holds), so that the one at
// fault breaks and the others go. READ responses are re-requested by the peer, and refused.
#include "qp/receive/responder_impl.h"
#include "qp/send/requester_impl.h"
#include "qp/state/queue_pair.h"

namespace brdma {

void QueuePair::withdraw(Instant made, Instant now) {
  count_here();
  if (unreliable_) {
    unreliable_->sender.withdraw(now);
    return carry_out(unreliable_->sender.take_outcome(), now);
  }
  if (!identity_.can_receive()) return;
  responder_.withdraw(now);
  if (identity_.can_send()) requester_.withdraw(made, now);
}

namespace qp {

void Requester::withdraw(Instant made, Instant now) { impl_->sent_packets().withdraw(made, now); }
void Responder::withdraw(Instant now) {
  if (impl_->connection.acknowledges()) impl_->acknowledgements.schedule.force(now);
}

void UnreliableSender::withdraw(Instant now) {
  PayloadCursor cursor{env_.memory, id_.pd, /*access=*/0};
  while (queue_.head() != queue_.next()) {
    const bool there = cursor.take_all(queue_, queue_.head());
    complete_head(there ? CompletionStatus::kSuccess : CompletionStatus::kLocalProtectionError, now);
    if (there) continue;
    outcome_.sends_fail = true;
    return;
  }
}

}  // namespace qp
}  // namespace brdma
