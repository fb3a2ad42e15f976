// fabric/switch/flow_counters.h - packets, bytes, drops and marks of each flow through a switch. A fixed table: a new
// flow without a place evicts the least recently seen among its neighbours, whose counts go to `others`; so the sums
// are always right. No allocation after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"
#include "fabric/routing/five_tuple.h"

namespace brdma::fabric {

// X(member)
#define BRDMA_FLOW_COUNTERS(X)                \
  X(packets) /* that found room in a queue */ \
  X(bytes)   /* of these */                   \
  X(dropped) /* by a queue or a fault */      \
  X(marked)  /* found the queue long enough for a mark */

struct FlowCount {
#define BRDMA_X(member) std::uint64_t member = 0;
  BRDMA_FLOW_COUNTERS(BRDMA_X)
#undef BRDMA_X
  FlowCount& operator+=(const FlowCount& other) {
#define BRDMA_X(member) member += other.member;
    BRDMA_FLOW_COUNTERS(BRDMA_X)
#undef BRDMA_X
    return *this;
  }
};

class FlowCounters {
 public:
  struct Entry {
    FiveTuple flow;
    FlowCount count;
    Instant seen;
    bool used = false;
  };
  explicit FlowCounters(std::size_t flows_max);  // rounded up to a power of two

  // For adding. Valid until the next call.
  [[nodiscard]] FlowCount& of(const FiveTuple& flow, Instant now);
  // The flows with the most bytes, largest first.
  [[nodiscard]] std::vector<Entry> most(std::size_t count) const;
  [[nodiscard]] std::size_t flows() const { return count_; }
  [[nodiscard]] const FlowCount& others() const { return others_; }  // of evicted flows

 private:
  static constexpr std::size_t kProbesMax = 8;
  std::vector<Entry> entries_;
  std::size_t count_ = 0;
  FlowCount others_;
};

}  // namespace brdma::fabric
