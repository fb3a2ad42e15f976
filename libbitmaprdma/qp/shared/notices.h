// qp/shared/notices.h - what queue pairs have to report to the engine's user; the engine makes notifications of it.
#pragma once

#include <cstddef>

#include "base/ring.h"
#include "qp/queues/completion_queue.h"

namespace brdma {
class SharedReceiveQueue;
}  // namespace brdma

namespace brdma::qp {

// A completion queue with a notification for its user.
struct CompletionNotice {
  CompletionQueue* cq = nullptr;
  bool overrun = false;
};

inline constexpr std::size_t kWriteArrivalsMax = 4096;  // unread ones

struct Notices {
  Ring<CompletionNotice> completions{};
  Ring<SharedReceiveQueue*> low_queues{};  // that have reached their limit
  Ring<WriteArrival> arrivals{};           // of watched regions; polled by the driver itself

  // The engine has notifications to make.
  [[nodiscard]] bool pending() const { return !completions.empty() || !low_queues.empty(); }
};

}  // namespace brdma::qp
