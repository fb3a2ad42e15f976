// congestion/delay_window.h - how many bytes may be in flight, from measured round-trip times and delivered bytes.
// Loss does not shrink it (losses are repaired one by one; on a lossy path they say nothing of congestion), queueing
// delay does. Once a round trip, when the window was in use in full:
//
//   next = delivered rate * (base RTT + target queueing) + additive_bytes     between 3/4 and 2 times the window
//   next = 2 (at the start) or 5/4 times the window, if that is more, while queueing is below half the target
//
// A window that adds only queue leaves the delivered rate as it is, so `next` stops there by itself, even where the
// queue is too short for the target and drops. The additive part makes flows that share a bottleneck settle at equal
// rates (as in FAST TCP). Noise of the host: a round counts with the smallest RTT in it, and one bad round takes a
// quarter, which the next good ones give back. Growth is released by acknowledgements, not as one burst.
//
// Target queueing: what scheduling alone makes of an RTT on a busy host; 122 KiB of queue at 10 Gbit/s, 12 at 1.
// Base RTT: the smallest of the last one to two base_rtt_periods (a path may become longer). Flows that start together
// measure each other's queue, so every drain_period a flow in full use sends half of what the path holds for one
// round; the periods begin when the clock is a multiple of them, so flows of one host drain at the same time.
//
// Stands in until spec 1's rate control (TIMELY, DCQCN). Integers only; pure: no clock, told `now`.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace brdma::congestion {

struct DelayWindowConfig {
  std::uint64_t initial_bytes = 64 * 1024;
  std::uint64_t min_bytes = 16 * 1024;
  std::uint64_t max_bytes = 16u << 20;
  Duration target_queueing = 100_us;
  std::uint64_t additive_bytes = 8 * 1024;
  Duration base_rtt_period = 1_s;
  Duration drain_period = Duration::from_ns(1 << 28);  // 268 ms; doubled until it is 64 base RTTs
};

class DelayWindow {
 public:
  explicit DelayWindow(const DelayWindowConfig& config = {});
  [[nodiscard]] std::uint64_t bytes() const { return limit_; }
  // An acknowledgement: `acked_bytes` newly done, `rtt` of the packet it echoes, `limited`: the window was in use in
  // full.
  void on_acknowledgement(std::uint64_t acked_bytes, Duration rtt, bool limited, Instant now);
  // The retransmission timeout fired: everything in flight is in doubt. Halves.
  void on_timeout(Instant now);

  [[nodiscard]] Duration base_rtt() const;  // 0: no sample yet

 private:
  enum class Phase : std::uint8_t {
    kStart,     // doubles until a queue forms
    kSteady,    // follows the rule above
    kDraining,  // one round at half the path's content
    kRefilling  // back to the window; these rounds say nothing of the path
  };
  void note_rtt(Duration rtt, Instant now);
  void begin_round(Instant now);
  void end_round(Instant now);
  void adapt(Duration took);
  [[nodiscard]] bool drain_is_due(Instant now);

  DelayWindowConfig config_;
  std::uint64_t window_;  // what the rule above says
  std::uint64_t limit_;   // what is allowed now: at most window_, follows it upwards as acknowledgements come
  Phase phase_ = Phase::kStart;
  Duration base_before_{}, base_now_{};  // smallest RTT of the last whole period and of this one; 0: none
  Instant base_period_start_{};
  std::int64_t drain_number_ = -1;  // of the period in which the last drain was
  // The round in progress: from an acknowledgement to the first one for a packet sent after it.
  bool round_begun_ = false;
  Instant round_start_{};
  Duration round_rtt_{};  // smallest
  std::uint64_t round_bytes_ = 0;
  std::uint64_t round_flight_ = 0;  // allowed when the round began: what it can deliver if nothing is lost
  bool round_limited_ = false;
};

}  // namespace brdma::congestion
