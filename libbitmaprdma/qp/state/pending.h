// qp/state/pending.h - private: cheap inline tests of what a queue pair has pending.
//
// A pending interest is what a part may want to send sooner or later: bits alone, without the time, windows and rates
// that decide about it (QueuePair::interest). It is the greatest of its kind, but a pending acknowledgement counts as
// deferrable, whether it is due or not.
#pragma once

#include "base/transmit_interest.h"
#include "qp/receive/responder_impl.h"
#include "qp/send/requester_impl.h"
#include "qp/state/queue_pair.h"

namespace brdma {
namespace qp {

inline bool Requester::Impl::is_idle() const {
  return queue.empty() && scoreboard.empty() && !rnr.waiting() && !losses.recovery &&
         !has_signals(path.signals, id.recovery->wan) && !losses.judge && !path.several;
}
inline bool Responder::Impl::is_idle() const {
  return pending_interest() == TransmitInterest::kNone && !out_of_order && !base_packet.retry_due() &&
         operations.escape().empty();
}

}  // namespace qp

// Precondition: RC.
inline TransmitInterest QueuePair::pending_beside_requests() const {
  if (negotiation_.due() || qp::has_signals(requester_.impl().path.signals, identity_.recovery->wan))
    return TransmitInterest::kForced;
  return responder_.impl().pending_interest();
}

}  // namespace brdma
