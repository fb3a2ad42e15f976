// qp/state/prefetch.h - the state of a queue pair is prefetched, while other work goes on: with many queue pairs each
// is cold when its turn comes. Each call reads data fetched by the one before.
#pragma once

#include <cstdint>

#include "base/fetch_ahead.h"
#include "qp/state/queue_pair.h"

namespace brdma {

// A view of the queue pair, made where it is needed.
class QueuePair::Prefetch {
 public:
  explicit Prefetch(const QueuePair& pair) : pair_(pair) {}

  void self() const { fetch_ahead<sizeof(QueuePair)>(&pair_); }
  // `user_bytes`: of the object that Identity::user points to.
  void halves(std::uint32_t user_bytes) const {
    const void* const user = pair_.identity_.user;
    if (user_bytes > 0) {
      fetch_ahead<1>(user);
      fetch_ahead<1>(static_cast<const std::byte*>(user) + user_bytes - 1);
    }
    pair_.requester_.fetch_ahead();
    pair_.responder_.fetch_ahead();
  }
  void slots() const { pair_.requester_.fetch_slots(); }  // of the next request

 private:
  const QueuePair& pair_;
};

}  // namespace brdma
