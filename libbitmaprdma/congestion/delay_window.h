// congestion/delay_window.h - how many bytes may be in flight, from measured round-trip times.
// Loss does not shrink it (losses are repaired one by one; on a lossy path they say nothing of congestion), queueing
// delay does: grows while RTT - minimum RTT is under the target, shrinks in proportion, at most by half a round trip,
// above it.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace brdma::congestion {

struct DelayWindowConfig {
  std::uint64_t initial_bytes = 256 * 1024;
  std::uint64_t min_bytes = 16 * 1024;
  std::uint64_t max_bytes = 16u << 20;
  Duration target_queueing = 400_us;
};

class DelayWindow {
 public:
  explicit DelayWindow(const DelayWindowConfig& config = {});
  [[nodiscard]] std::uint64_t bytes() const { return window_; }
  // An acknowledgement: `acked_bytes` newly done, `rtt` of the packet it echoes, `limited`: the window was in use in
  // full.
  void on_acknowledgement(std::uint64_t acked_bytes, Duration rtt, bool limited, Instant now);
  // The retransmission timeout fired: everything in flight is in doubt.
  void on_timeout(Instant now);

 private:
  DelayWindowConfig config_;
  std::uint64_t window_;
  Duration min_rtt_{};
  Instant min_rtt_since_{};
  Instant last_decrease_{};
};

}  // namespace brdma::congestion
