// Cheap tests on the state of both halves: is a queue pair idle, and when is its next deadline? With many queue pairs
// used in turn each sends a packet and is idle as soon as that is acknowledged: it then needs no turn and no timer.
#include "base/check.h"
#include "base/fetch_ahead.h"
#include "qp/send/pacing.h"
#include "qp/state/pending.h"
#include "qp/state/queue_pair.h"

namespace brdma {
namespace qp {

bool Requester::is_idle() const { return impl().is_idle(); }

// No effect for UC and UD.
void Requester::fetch_ahead() const {
  if (impl_ != nullptr) brdma::fetch_ahead<sizeof(Impl)>(&impl());
}
void Requester::fetch_slots() const {
  if (impl_ == nullptr) return;
  impl().queue.fetch_slot();
  impl().messages.fetch_slot();
}
// For a responder that receives nothing: the fields read by is_idle().
void Responder::fetch_ahead() const {
  if (impl_ == nullptr) return;
  brdma::fetch_ahead<sizeof impl_->operations>(&impl_->operations);
  brdma::fetch_ahead<1>(&impl_->responses);
  brdma::fetch_ahead<1>(&impl_->acknowledgements);
}

}  // namespace qp

namespace {

// None: no part has one.
std::optional<Instant> first_timeout(const qp::Requester& requester, const qp::Responder& responder,
                                     const qp::Negotiation& negotiation) {
  std::optional<Instant> first = responder.next_timeout();
  const auto consider = [&first](std::optional<Instant> other) {
    if (other && (!first || *other < *first)) first = other;
  };
  consider(negotiation.ask_again);
  if (requester.is_idle()) return first;
  consider(requester.next_timeout());
  consider(qp::Pacing{requester}.waits_until());
  return first;
}

}  // namespace

bool QueuePair::is_idle() const { return Interest{*this}.is_idle(); }

registry::ReadyQueue QueuePair::wanted_queue() const {
  if (Interest{*this}.is_idle()) return registry::ReadyQueue::kNone;
  if (unreliable_) return registry::ReadyQueue::kRegular;
  if (requester_.impl().message_start().begins_small()) {
    BRDMA_CHECK_SLOW(!next_is_large());
    return registry::ReadyQueue::kRegular;
  }
  return next_is_large() ? registry::ReadyQueue::kLarge : registry::ReadyQueue::kRegular;
}

std::optional<Instant> QueuePair::next_timeout() const {
  if (!identity_.can_receive() || unreliable_ || Interest{*this}.is_idle()) return std::nullopt;
  qp::Requester::Impl& requester = requester_.impl();
  const qp::Responder::Impl& responder = responder_.impl();
  requester.apply_pending();
  const bool plain = requester.deadlines().is_plain() && !responder.out_of_order && !responder.responses.read_refused &&
                     !responder.base_packet.retry_due() && responder.operations.escape().empty() &&
                     !negotiation_.ask_again;
  if (!plain) return first_timeout(requester_, responder_, negotiation_);
  Instant first = requester.deadlines().plain();
  const qp::AcknowledgementSchedule& schedule = responder.acknowledgements.schedule;
  if (schedule.pending() && !schedule.forced()) first = std::min(first, responder.acknowledgement_times().deadline());
  BRDMA_CHECK_SLOW(first_timeout(requester_, responder_, negotiation_) == first);
  return first;
}

}  // namespace brdma
