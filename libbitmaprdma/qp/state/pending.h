// qp/state/pending.h - private: cheap inline tests of what a queue pair's halves have pending.
#pragma once

#include "qp/receive/responder_impl.h"
#include "qp/send/requester_impl.h"

namespace brdma::qp {

inline bool Requester::Impl::is_idle() const {
  return queue.empty() && scoreboard.empty() && !rnr.waiting() && !loss_recovery && !has_signals() && !sender_judge &&
         !paths;
}

// All posted requests wait for their turn, and the next is not of a large command; else a full check decides.
inline bool Requester::Impl::begins_small() const {
  if (!messages.empty() || scoreboard.pending() != 0 || queue.next() == queue.tail()) return false;
  const std::uint32_t threshold = env.config.transfer.threshold_bytes;
  return threshold == 0 || queue[queue.next()].length < threshold;
}

inline bool Responder::Impl::only_acknowledges() const {
  return responses.resources.empty() && !feedback.due() && !responses.owed;
}
inline bool Responder::Impl::has_nothing_pending() const {
  return !acknowledgements.schedule.pending() && only_acknowledges();
}
inline bool Responder::Impl::is_idle() const {
  return has_nothing_pending() && !out_of_order && !base_packet.retry_due() && operations.escape().empty();
}

}  // namespace brdma::qp
