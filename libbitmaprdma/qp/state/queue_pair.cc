#include "qp/state/queue_pair.h"

#include <cerrno>

#include "qp/send/pacing.h"
#include "qp/state/state_machine.h"

namespace brdma {
namespace {

qp::Identity with_recovery(qp::Identity identity, qp::Environment& environment) {
  if (identity.recovery == nullptr) identity.recovery = &environment.config.recovery;
  return identity;
}

// In SQE and ERR they are flushed.
bool takes_sends(const qp::Identity& identity) { return identity.state >= QpState::kRts; }

}  // namespace

QueuePair::QueuePair(qp::Environment& environment, const qp::Identity& identity)
    : PacketCounts(environment),
      identity_(with_recovery(identity, environment)),
      requester_(environment, identity_),
      responder_(environment, identity_) {
  if (identity_.type != QpType::kRc) unreliable_ = std::make_unique<qp::Unreliable>(environment, identity_);
}

QueuePair::~QueuePair() {
  if (identity_.can_receive()) --environment_.active_qps;
}

Status QueuePair::check_send(std::span<const SendRequest> requests) const {
  if (!takes_sends(identity_)) return Status{EINVAL};
  return unreliable_ ? unreliable_->sender.check_all(requests) : requester_.check_send(requests);
}

Status QueuePair::post_send(std::span<const SendRequest> requests, Instant now, std::size_t& posted) {
  count_here();
  posted = 0;
  if (!takes_sends(identity_)) return Status{EINVAL};
  Status status;
  if (unreliable_) [[unlikely]] {
    while (posted < requests.size() && status.ok()) {
      status = unreliable_->sender.post(requests[posted]);
      if (status.ok()) ++posted;
    }
  } else {
    status = requester_.post_send(requests, posted);
  }
  if (posted > 0 && !identity_.can_send()) StateMachine{*this}.fail_sends(now);
  return status;
}

Status QueuePair::post_receive(const ReceiveRequest& request, Instant now) {
  count_here();
  if (identity_.state == QpState::kReset || identity_.xrc != XrcRole::kNone) return Status{EINVAL};
  const Status status = unreliable_ ? unreliable_->receiver.post(request) : responder_.post_receive(request);
  if (status.ok() && identity_.state == QpState::kErr) StateMachine{*this}.fail_receives(now);
  return status;
}

void QueuePair::handle_timeout(Instant now) {
  if (!identity_.can_receive() || unreliable_) return;
  count_here();
  negotiation_.handle_timeout(now);
  qp::Pacing{requester_}.handle_timeout(now);
  carry_out(responder_.handle_timeout(now), now);
  if (identity_.can_send()) carry_out(requester_.handle_timeout(now), now);
}

void QueuePair::handed_over(Instant now) {
  count_here();
  unreliable_->sender.handed_over(now);
  carry_out(unreliable_->sender.take_outcome(), now);
}

}  // namespace brdma
