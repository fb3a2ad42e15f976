#include "device/timers.h"

#include "base/check.h"

namespace brdma::device {

void Timers::set(QueuePair* qp, std::optional<Instant> deadline) {
  if (!deadline) return take_away(qp);
  const std::size_t at = qp->timer_slot;
  if (at == kNowhere) {
    heap_.emplace_back();
    sift(heap_.size() - 1, Entry{*deadline, order_++, qp});
  } else if (heap_[at].deadline != *deadline) {
    sift(at, Entry{*deadline, order_++, qp});
  }
}

void Timers::refresh() {
  for (QueuePair* qp : stale_) {
    qp->timer_is_stale = false;
    if (qp->known_idle) {
      BRDMA_CHECK_SLOW(!qp->next_timeout() && qp->requester().packets_in_flight() == 0);
      take_away(qp);
      qp->set_in_flight(*qp->identity().send_cq, 0);
      continue;
    }
    set(qp, qp->next_timeout());
    qp->count_in_flight();
  }
  stale_.clear();
}

QueuePair* Timers::take_due(Instant now) {
  if (heap_.empty() || heap_.front().deadline > now) return nullptr;
  QueuePair* const qp = heap_.front().qp;
  erase(0);
  return qp;
}

void Timers::put(std::size_t at, const Entry& entry) {
  heap_[at] = entry;
  entry.qp->timer_slot = static_cast<std::uint32_t>(at);
}

// Place `at` is free for `entry`: up while it is before its parent, else down while a child is before it.
void Timers::sift(std::size_t at, const Entry& entry) {
  while (at > 0 && entry.before(heap_[(at - 1) / 2])) {
    put(at, heap_[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  while (true) {
    std::size_t child = 2 * at + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1].before(heap_[child])) ++child;
    if (!heap_[child].before(entry)) break;
    put(at, heap_[child]);
    at = child;
  }
  put(at, entry);
}

void Timers::erase(std::size_t at) {
  heap_[at].qp->timer_slot = kNowhere;
  const Entry last = heap_.back();
  heap_.pop_back();
  if (at < heap_.size()) sift(at, last);
}

}  // namespace brdma::device
