#include "qp/execute/xrc_target.h"

#include "qp/queues/shared_receive_queue.h"

namespace brdma::qp {

bool XrcTarget::select(const wire::Packet& packet) const {
  Identity& identity = parts_.identity;
  SharedReceiveQueue* const srq = parts_.env.xrc.find(packet.srq, identity.xrc_domain);
  if (srq == nullptr) return false;
  if (srq == identity.srq) [[likely]]
    return true;
  if (!parts_.receives.empty() || (identity.srq != nullptr && identity.pd != srq->pd())) return false;
  identity.srq = srq;
  identity.pd = srq->pd();
  identity.receive_cq = srq->xrc.cq;
  parts_.receives.take_from(srq);
  return true;
}

void XrcTarget::forget() const {
  Identity& identity = parts_.identity;
  parts_.receives.clear();
  parts_.receives.take_from(nullptr);
  identity.srq = nullptr;
  identity.pd = &parts_.env.xrc.no_domain;
  identity.receive_cq = &parts_.env.xrc.no_completions;
}

}  // namespace brdma::qp
