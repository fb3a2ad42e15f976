// qp/state/packet_counts.h - counters of one queue pair, and the rule that each packet for it is either accepted or
// dropped. Base of QueuePair: its fast paths count with every packet.
#pragma once

#include <cstdint>

#include "qp/state/environment.h"
#include "trace/qp_counters.h"

namespace brdma::qp {

class PacketCounts {
 public:
  [[nodiscard]] const QpStatistics& statistics() const { return statistics_; }

 protected:
  explicit PacketCounts(Environment& environment) : environment_(environment) {}
  ~PacketCounts() {
    if (environment_.telemetry.counting == &statistics_) environment_.telemetry.counting = nullptr;
  }

  // First in every function that may count.
  void count_here() const { environment_.telemetry.counting = &statistics_; }
  void count_judged(std::uint64_t dropped_before) {  // a packet; so many had been dropped before it
    if (environment_.telemetry.dropped == dropped_before) [[likely]]
      return count_accepted();
    statistics_.add(QpCounter::kDropped);
  }
  void count_accepted() const { environment_.count(Counter::kAcceptedPackets); }

  Environment& environment_;

 private:
  mutable QpStatistics statistics_;
};

}  // namespace brdma::qp
