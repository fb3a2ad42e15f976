// device/post_prefetch.h - with many queue pairs each is cold when its turn to post comes. Turns mostly repeat in the
// same order: the queue pair posted to after another one the last time comes next. Its state is prefetched while
// others' posts go on, one step a post, since each step finds its address in the data fetched by the one before.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/qp_table.h"
#include "qp/state/prefetch.h"

namespace brdma::device {

class PostPrefetch {
 public:
  // The state of so many, 3 KB each, most likely fits a core's cache; prefetching would gain nothing.
  static constexpr std::size_t kQueuePairsCached = 256;

  // QpCreate::user_bytes, the same for all.
  void set_user_bytes(std::uint32_t bytes) { user_bytes_ = bytes; }
  // A post to `qp` begins.
  void on_post(QueuePair* qp, const QpTable& queue_pairs) {
    if (queue_pairs.size() > kQueuePairsCached) fetch_next(qp, queue_pairs);
  }
  // The queue pair ends.
  void forget(const QueuePair* qp) {
    if (last_posted_ == qp) last_posted_ = nullptr;
  }

 private:
  void fetch_next(QueuePair* qp, const QpTable& queue_pairs) {
    const std::uint32_t qpn = qp->identity().qpn;
    const bool as_expected = last_posted_ != nullptr && last_posted_->posted_next() == qpn;
    if (last_posted_ != nullptr && !as_expected) last_posted_->set_posted_next(qpn);
    last_posted_ = qp;
    if (!as_expected) return QueuePair::Prefetch{*qp}.halves(user_bytes_);
    QueuePair* next = queue_pairs.guess(qp->posted_next());
    if (next == nullptr) return;
    QueuePair::Prefetch{*next}.slots();
    next = queue_pairs.guess(next->posted_next());
    if (next == nullptr) return;
    QueuePair::Prefetch{*next}.halves(user_bytes_);
    next = queue_pairs.guess(next->posted_next());
    if (next != nullptr) QueuePair::Prefetch{*next}.self();
  }

  QueuePair* last_posted_ = nullptr;  // where there are many
  std::uint32_t user_bytes_ = 0;
};

}  // namespace brdma::device
