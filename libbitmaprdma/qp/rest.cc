// Seen at a glance, in the state of both halves: does a queue pair rest, and which half has something to say? Of many
// queue pairs used in turn each sends a packet and rests as soon as that is acknowledged: it then needs no turn and no
// timer, and in the turns that it has only one half is asked.
#include "base/fetch_ahead.h"
#include "qp/queue_pair.h"
#include "qp/requester_impl.h"
#include "qp/responder_impl.h"

namespace brdma {
namespace qp {

bool Requester::rests() const {
  const Impl& me = *impl_;
  return me.queue.empty() && me.window.in_window() == 0 && !me.rnr_until && me.repairs == nullptr && !me.signals &&
         !me.own_judge && !me.paths;
}

void Requester::fetch_ahead() const { brdma::fetch_ahead(impl_.get(), sizeof(Impl)); }
void Requester::fetch_slots() const {
  impl_->queue.fetch_slot();
  impl_->messages.fetch_slot();
}
// Of who only sends: what rests() looks at.
void Responder::fetch_ahead() const {
  brdma::fetch_ahead(&impl_->escape, sizeof impl_->escape);
  brdma::fetch_ahead(&impl_->resources, 1);
  brdma::fetch_ahead(&impl_->ack, 1);
}

bool Requester::has_signals() const { return impl_->signals != nullptr; }
bool Requester::all_has_left() const { return impl_->all_has_left(); }

bool Responder::only_acknowledges() const {
  const Impl& me = *impl_;
  return me.resources.empty() && !me.feedback_due && !me.owed;
}

bool Responder::owes_nothing() const { return !impl_->ack.pending && only_acknowledges(); }

bool Responder::rests() const {
  const Impl& me = *impl_;
  return owes_nothing() && me.disorder == nullptr && !me.retry_blocked && me.escape->empty();
}

}  // namespace qp

bool QueuePair::rests() const {
  return !unreliable_ && requester_.rests() && responder_.rests() && !negotiation_.ask_due &&
         !negotiation_.answer_due && !negotiation_.ask_again && !drain_wanted_;
}

bool QueuePair::has_said_all() const {
  return !unreliable_ && !negotiation_.ask_due && !negotiation_.answer_due && responder_.owes_nothing() &&
         !requester_.has_signals() && requester_.all_has_left();
}

QueuePair::Speaker QueuePair::speaker() const {
  if (identity_.sending_paths != 1 || negotiation_.ask_due || negotiation_.answer_due) return Speaker::kBoth;
  if (responder_.owes_nothing()) return requester_.has_signals() ? Speaker::kBoth : Speaker::kRequests;
  if (!responder_.only_acknowledges()) return Speaker::kBoth;
  if (requester_.rests()) return Speaker::kAcknowledgement;
  return requester_.has_signals() || control_first_ ? Speaker::kBoth : Speaker::kRequestsAcknowledging;
}

}  // namespace brdma
