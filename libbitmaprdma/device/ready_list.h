// device/ready_list.h - queue pairs that may have something to send, served in turn. Links lie in the queue pairs.
#pragma once

#include "qp/queue_pair.h"

namespace brdma::device {

class ReadyList {
 public:
  [[nodiscard]] QueuePair* front() const { return first_; }
  void push_back(QueuePair* qp) {  // nothing happens where it is listed already
    if (qp->in_ready_list) return;
    qp->in_ready_list = true;
    qp->ready_previous = last_;
    qp->ready_next = nullptr;
    (last_ != nullptr ? last_->ready_next : first_) = qp;
    last_ = qp;
  }
  void remove(QueuePair* qp) {
    if (!qp->in_ready_list) return;
    (qp->ready_previous != nullptr ? qp->ready_previous->ready_next : first_) = qp->ready_next;
    (qp->ready_next != nullptr ? qp->ready_next->ready_previous : last_) = qp->ready_previous;
    qp->in_ready_list = false;
  }

 private:
  QueuePair* first_ = nullptr;
  QueuePair* last_ = nullptr;
};

}  // namespace brdma::device
