// qp/shared/xrc_queues.h - the shared receive queues of extended reliable connections (IBTA annex A14), by the number
// that requests name them by, and what stands in the place of objects that such a queue pair lacks.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "memory/memory_table.h"
#include "qp/queues/completion_queue.h"
#include "qp/queues/shared_receive_queue.h"

namespace brdma::qp {

class XrcQueues {
 public:
  // Gives it a number, of 24 bits, that none of this engine has. Precondition: srq.xrc.cq is set.
  void add(SharedReceiveQueue& srq) {
    do {
      last_ = (last_ + 1) & 0xFF'FFFF;
    } while (last_ == 0 || by_number_.contains(last_));
    srq.xrc.number = last_;
    by_number_.emplace(last_, &srq);
  }
  void remove(const SharedReceiveQueue& srq) { by_number_.erase(srq.xrc.number); }
  // Null: none of that domain.
  [[nodiscard]] SharedReceiveQueue* find(std::uint32_t number, std::uint16_t domain) const {
    const auto found = by_number_.find(number);
    return found != by_number_.end() && found->second->xrc.domain == domain ? found->second : nullptr;
  }

  CompletionQueue no_completions{1, nullptr};  // nothing is ever put into it
  ProtectionDomain no_domain;                  // no region is in it

 private:
  std::unordered_map<std::uint32_t, SharedReceiveQueue*> by_number_;
  std::uint32_t last_ = 0;
};

}  // namespace brdma::qp
