// Shared receive queues: created, changed, posted to, destroyed when no queue pair uses them.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "device/engine_impl.h"
#include "qp/state/limits.h"
#include "qp/state/queue_pair.h"

namespace brdma {

Result<SharedReceiveQueue*, Status> Engine::create_srq(ProtectionDomain* pd, SrqAttributes& attributes, void* user) {
  Impl& me = *impl_;
  if (pd == nullptr || attributes.wr_max > qp::kWorkRequestsMax || attributes.sge_max > qp::kSgesMax) {
    return Status{EINVAL};
  }
  attributes = {.wr_max = std::max(attributes.wr_max, 1u), .sge_max = std::max(attributes.sge_max, 1u), .limit = 0};
  auto srq = std::make_unique<SharedReceiveQueue>(pd, attributes, user, me.environment.notices.low_queues);
  ++pd->users;
  return me.queues.add(std::move(srq));
}

Result<SharedReceiveQueue*, Status> Engine::create_xrc_srq(ProtectionDomain* pd, SrqAttributes& attributes, void* user,
                                                           std::uint16_t domain, CompletionQueue* cq) {
  if (cq == nullptr) return Status{EINVAL};
  auto created = create_srq(pd, attributes, user);
  if (!created) return created;
  SharedReceiveQueue& srq = *created.value();
  srq.xrc = {.number = 0, .domain = domain, .cq = cq};
  impl_->environment.xrc.add(srq);
  ++cq->queue_pairs;
  return created;
}

std::uint32_t Engine::srq_number(const SharedReceiveQueue* srq) const { return srq->xrc.number; }

Status Engine::modify_srq(SharedReceiveQueue* srq, const SrqAttributes& attributes, std::uint32_t mask) {
  if ((mask & kSrqAttrWrMax) != 0 && attributes.wr_max > qp::kWorkRequestsMax) return Status{EINVAL};
  const Status status = srq->modify(attributes, mask);
  impl_->collect_notices();
  return status;
}

SrqAttributes Engine::query_srq(const SharedReceiveQueue* srq) const { return srq->attributes(); }

// Receives that are still posted are discarded with it, as IBTA requires.
Status Engine::destroy_srq(SharedReceiveQueue* srq) {
  if (!srq->queue_pairs.empty()) return Status{EBUSY};
  if (!impl_->queues.has(srq)) return Status{EINVAL};
  impl_->settle();
  if (srq->xrc.number != 0) {
    impl_->queue_pairs.for_each([srq](QueuePair* qp) { qp->forget_source(srq); });
    impl_->environment.xrc.remove(*srq);
    --srq->xrc.cq->queue_pairs;
  }
  --srq->pd()->users;
  impl_->queues.remove(srq);
  return Status::success();
}

Status Engine::post_receive(SharedReceiveQueue* srq, const ReceiveRequest& request, Instant now) {
  impl_->now = now;
  const Status status = srq->post(request);
  if (status.ok() && srq->take_waiting()) [[unlikely]] {
    const auto retry = [this, srq](QueuePair* qp) {
      if (qp->identity().srq != srq) return;
      qp->receive_posted();
      impl_->touched(qp);
    };
    if (srq->xrc.number == 0) {
      std::ranges::for_each(srq->queue_pairs, retry);
    } else {
      impl_->queue_pairs.for_each(retry);
    }
  }
  return status;
}

}  // namespace brdma
