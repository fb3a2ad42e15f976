// qp/state/pending.h - private: cheap inline tests of what a queue pair's halves have pending.
#pragma once

#include "qp/receive/responder_impl.h"
#include "qp/send/requester_impl.h"

namespace brdma::qp {

inline bool Requester::Impl::is_idle() const {
  return queue.empty() && scoreboard.empty() && !rnr.waiting() && !losses.recovery &&
         !has_signals(path.signals, id.recovery->wan) && !losses.judge && !path.several;
}

inline bool Responder::Impl::only_acknowledges() const {
  return responses.resources.empty() && !feedback.due() && !responses.read_refused;
}
inline bool Responder::Impl::has_nothing_pending() const {
  return !acknowledgements.schedule.pending() && only_acknowledges();
}
inline bool Responder::Impl::is_idle() const {
  return has_nothing_pending() && !out_of_order && !base_packet.retry_due() && operations.escape().empty();
}

}  // namespace brdma::qp
