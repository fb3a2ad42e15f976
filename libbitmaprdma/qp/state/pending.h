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

// Who wants to send (interest.cc). A view of an RC queue pair, made where it is needed.
class QueuePair::Interest {
 public:
  explicit Interest(const QueuePair& pair) : pair_(pair) {}

  // QueuePair::is_idle(), also of UC and UD.
  [[nodiscard, gnu::always_inline]] bool is_idle() const {
    return !pair_.unreliable_ && pair_.requester_.impl().is_idle() && pair_.responder_.impl().is_idle() &&
           !pair_.negotiation_.due() && !pair_.negotiation_.ask_again && !pair_.drain_wanted_;
  }
  // The pending interest of all but the requester.
  [[nodiscard]] TransmitInterest beside_requests() const {
    if (pair_.negotiation_.due() ||
        qp::has_signals(pair_.requester_.impl().path.signals, pair_.identity_.recovery->wan)) {
      return TransmitInterest::kForced;
    }
    return pair_.responder_.impl().pending_interest();
  }
  // Of all parts.
  [[nodiscard]] TransmitInterest merged(Instant now) const;
  // A due acknowledgement waits for the rest of the reply.
  [[nodiscard]] bool acknowledgement_waits(Instant now) const;

 private:
  [[nodiscard]] TransmitInterest beside_halves(Instant now) const;

  const QueuePair& pair_;
};

}  // namespace brdma
