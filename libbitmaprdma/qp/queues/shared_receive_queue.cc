#include "qp/queues/shared_receive_queue.h"

#include <algorithm>
#include <cerrno>

namespace brdma {

SharedReceiveQueue::SharedReceiveQueue(ProtectionDomain* pd, const SrqAttributes& attributes, void* user,
                                       Ring<SharedReceiveQueue*>& low)
    : pd_(pd),
      user_(user),
      receives_(attributes.wr_max, attributes.sge_max),
      sges_max_(attributes.sge_max),
      low_(low) {}

Status SharedReceiveQueue::post(const ReceiveRequest& request) {
  if (request.sges.size() > sges_max_) return Status{EINVAL};
  return receives_.post(request);
}

Status SharedReceiveQueue::modify(const SrqAttributes& attributes, std::uint32_t mask) {
  if ((mask & ~(kSrqAttrWrMax | kSrqAttrLimit)) != 0) return Status{EINVAL};
  const std::uint32_t wr_max = (mask & kSrqAttrWrMax) != 0 ? attributes.wr_max : receives_.entries_max();
  const std::uint32_t limit = (mask & kSrqAttrLimit) != 0 ? attributes.limit : limit_;
  if (wr_max == 0 || limit > wr_max) return Status{EINVAL};
  if (const Status status = receives_.set_entries_max(wr_max); !status.ok()) return status;
  limit_ = limit;
  if ((mask & kSrqAttrLimit) != 0) look_at_limit();
  return Status::success();
}

SrqAttributes SharedReceiveQueue::attributes() const {
  return {.wr_max = receives_.entries_max(), .sge_max = sges_max_, .limit = limit_};
}

bool SharedReceiveQueue::give_to(qp::ReceiveQueue& taker) {
  if (receives_.empty()) return false;
  receives_.move_oldest_to(taker);
  look_at_limit();
  return true;
}

// May exceed the number of entries, if the program has posted others meanwhile: none is lost.
void SharedReceiveQueue::take_back(qp::ReceiveQueue& returner) {
  while (!returner.empty()) returner.move_newest_to_front_of(receives_);
}

// Notifies at most once an arming; at once if armed above the posted count: no further receive may ever be taken.
void SharedReceiveQueue::look_at_limit() {
  if (limit_ == 0 || receives_.size() >= limit_) return;
  limit_ = 0;
  low_.push_back(this);
}

}  // namespace brdma
