// congestion/window/crowding.h - private to the delay window: a flow that shares a full queue with other flows.
//
// It is one once a full queue dropped its packets (queue_loss.h), or it lost some at min_bytes while a queue stood. Or
// when a drain emptied a queue, and in a part_below-th of the rounds before it the rule gave less than min_bytes. From
// then on
//   - its window may be as small as least_bytes; below paced_bytes it leaves packet by packet, at window / RTT
//     (qp/send/sending_rate.h)
//   - the queue that it met is the mean of a round, not the shortest: a burst's first packet meets none of its own
//     queue, so that the flow with the longest burst would see the shortest queue, and get more
//   - its rate is its window / RTT: one or two packets a round are no measure of it
//   - its window changes by step_bytes a round, and a quarter of what it has beyond min_bytes, up and down alike.
//     Larger steps down than up make small windows smaller
//   - the target of queueing grows as the window shrinks: target * (1 + (sqrt(min_bytes / window) - 1) / 2), as in
//     Swift (SIGCOMM 2020, 3.5). That makes windows equal: a smaller one tolerates more queue
//   - a loss is the queue's, without a verdict on it. The target is then half of the recent queue, at least
//     least_target-th of its usual length, and doubles now and then (delay_window.h)
//   - no silence counts, and none is bridged within bridge_rounds of a loss: a loss is silent, too
//
// A host that has no core for a while (host_silence.h) makes bursts of its own, which fill a queue. So an absence ends
// it, and for absent_time after one (delay_window.h) nothing begins it: flows of such hosts are all alike, which no
// other rule could make them. The additive part is then a constant, too.
//
// It ends after free_rounds without a queue; with a window of large_bytes, once calm_rounds and calm_time have passed
// without a loss; or when losses prove to be random (loss_by_queue.h). Flows that share a queue should end it together:
// behind one queue, those with and without these rules are unequal.
//
// Once a drain has shown it, a drain that finds the same RTT shows no longer path: its few samples may each have met
// other flows' packets. Unless RTTs are constant: others' packets would make them vary.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace brdma::congestion {

struct CrowdingConfig {
  std::uint64_t least_bytes = 256, step_bytes = 256;
  std::uint64_t paced_bytes = 64 * 1024, large_bytes = 256 * 1024;
  int free_rounds = 16, calm_rounds = 64, constant_rounds = 8, bridge_rounds = 4;
  Duration calm_time = Duration::from_ns(1 << 28);
  int part_below = 4;               // of the rounds before a drain
  std::int64_t constant_part = 64;  // RTTs that differ by less than this part are the same
};

class Crowding {
 public:
  [[nodiscard]] bool is_crowded() const { return crowded_; }
  [[nodiscard]] bool is_paced(std::uint64_t window) const { return crowded_ && window < CrowdingConfig{}.paced_bytes; }
  [[nodiscard]] bool may_find_silence() const { return !crowded_; }
  [[nodiscard]] bool may_bridge() const { return !crowded_ || calm_ >= CrowdingConfig{}.bridge_rounds; }
  [[nodiscard]] bool may_find_longer_path() const { return !shared_; }
  [[nodiscard]] std::uint64_t least() const;
  // A switch reported drops: the window may be as small as one packet, without the rest.
  void on_report(std::uint32_t packet_bytes) { least_ = packet_bytes; }
  void on_loss(Instant now) {
    calm_ = 0;
    lost_ = now;
  }
  void end() { crowded_ = shared_ = false; }
  // A packet was lost to a full queue.
  void on_full_queue() {
    crowded_ = true;
    free_ = 0;
  }
  // A drain has ended; `emptied`: there was a queue before it, and none after it.
  void on_drained(bool emptied);
  // A round has ended with that RTT on the path, and would allow `next`.
  void on_round(Duration rtt, bool saw_queue, std::uint64_t next, Instant now);
  [[nodiscard]] Duration target(Duration target, std::uint64_t window) const;
  // The next window, where the rule allows `next`; it grows by at most `more`.
  [[nodiscard]] std::uint64_t bound(std::uint64_t next, std::uint64_t window, std::uint64_t more) const;

 private:
  std::uint64_t least_ = 0;            // reported; 0: not
  Duration rtt_{};                     // of the last round
  int rounds_ = 0, rounds_below_ = 0;  // since the last drain; those of them that wanted less than min_bytes
  int constant_ = 0;                   // rounds in a row
  int free_ = 0;                       // likewise, without a queue
  Instant lost_{};
  int calm_ = 0;  // likewise, without a loss
  bool crowded_ = false;
  bool shared_ = false;  // a drain has shown that the queue is others', too
};

}  // namespace brdma::congestion
