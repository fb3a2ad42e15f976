// congestion/delay_window.h - how many bytes may be in flight, from measured round-trip times and delivered bytes.
// Loss does not shrink it (losses are repaired one by one; on a lossy path they say nothing of congestion), queueing
// delay does. Once a round trip, when the window was in use in full:
//
//   window' = delivered rate * (base RTT + target queueing) + additive_bytes      between 3/4 and 2 times the window
//
// A window that adds only queue makes the delivered rate stand still, so window' stops there by itself, even where the
// queue is too short for the target and drops; below the bottleneck's rate the window doubles. The additive part makes
// flows that share a bottleneck settle at equal rates (as in FAST TCP). Noise of the host: a round counts with the
// smallest RTT in it, and one bad round takes a quarter, which the next good one gives back.
// Target queueing: what target_queue_bytes take at the delivered rate, between the two limits: a fixed time would be
// too much for the queue of a fast link and too little for a busy host's timing.
// Base RTT: smallest seen; if nothing near it came for base_rtt_period, the window shrinks for one round so that
// the queue drains, and what is then measured is the new base (a path may have become longer).
// Stands in until spec 1's rate control (TIMELY, DCQCN). Integers only; pure: no clock, told `now`.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace brdma::congestion {

struct DelayWindowConfig {
  std::uint64_t initial_bytes = 128 * 1024;
  std::uint64_t min_bytes = 16 * 1024;
  std::uint64_t max_bytes = 16u << 20;
  Duration target_queueing = 400_us;      // at most (slow links)
  Duration target_queueing_min = 100_us;  // at least: what scheduling alone makes of an RTT
  std::uint64_t target_queue_bytes = 96 * 1024;
  std::uint64_t additive_bytes = 8 * 1024;
  Duration base_rtt_period = 10_s;
};

class DelayWindow {
 public:
  explicit DelayWindow(const DelayWindowConfig& config = {});
  [[nodiscard]] std::uint64_t bytes() const { return draining_ ? config_.min_bytes : window_; }
  // An acknowledgement: `acked_bytes` newly done, `rtt` of the packet it echoes, `limited`: the window was in use in
  // full.
  void on_acknowledgement(std::uint64_t acked_bytes, Duration rtt, bool limited, Instant now);
  // The retransmission timeout fired: everything in flight is in doubt. Halves.
  void on_timeout(Instant now);

  [[nodiscard]] Duration base_rtt() const { return base_rtt_; }

 private:
  void begin_round(Instant now);
  void end_round(Instant now);
  void note_base(Duration rtt, Instant now);
  [[nodiscard]] std::uint64_t wanted(Duration took) const;

  DelayWindowConfig config_;
  std::uint64_t window_;
  Duration base_rtt_{};  // 0: no sample yet
  Instant base_seen_{};  // when an RTT near the base came last
  bool draining_ = false;
  // The round in progress: from an acknowledgement to the first one for a packet sent after it.
  Instant round_start_{};
  Duration round_rtt_{};
  std::uint64_t round_bytes_ = 0;
  bool round_limited_ = false;
};

}  // namespace brdma::congestion
