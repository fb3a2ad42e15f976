// brdma-metrics/collector.h - queries brdmad for the metrics, at most once a second however often they are read: a
// reader that asks without end costs brdmad no more than one that asks once a second.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "families.h"

namespace brdma::metrics {

struct Answer {
  std::shared_ptr<const std::string> text;  // of metrics_text(); there always
  int error = 0;                            // errno value: brdmad did not answer
  std::string message;                      // the reason, a sentence
};

class Collector {
 public:
  // `queue_pairs`: those of each program too, which takes up to 4 s where a program is stopped.
  explicit Collector(bool queue_pairs) : queue_pairs_(queue_pairs) {}

  // Blocks for at most 2 s (with queue pairs 6 s) where brdmad or a program does not answer.
  [[nodiscard]] const Answer& answer();

 private:
  [[nodiscard]] Answer collect() const;

  bool queue_pairs_;
  Answer last_;
  std::chrono::steady_clock::time_point valid_until_{};
};

}  // namespace brdma::metrics
