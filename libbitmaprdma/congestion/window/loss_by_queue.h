// congestion/window/loss_by_queue.h - private to the delay window: whether a crowded flow's losses depend on the queue.
//
// Each loss of a crowded flow counts as the queue's (crowding.h), and halves the queue that the flow aims at. A full
// queue then drops no more. Random loss goes on, and its packets met a queue that is less than half of the longest at
// an earlier loss: a *short* one. So packets are counted by the longest queue that recent acknowledgements met, short
// or not. Recent is one to two spans, since a loss is found some time after it, which is longer than a short path. The
// loss is random once
//   - least_lost packets were lost at short queues
//   - they are a least_part-th of the packets there, or more
//   - and the part that is lost at longer queues is at most `times` as large.
// From then on the flow is excused: for that time a full queue's verdict does not make it crowded again.
//
// Counting begins start_rounds base RTTs after the flow became crowded, start_time at the earliest: its first losses
// may lie behind a burst of its own, in a queue that no other flow shares. Counts are halved each period, and the
// longest queue shrinks by a shrink_part-th: routes and neighbours change.
//
// Integers only; pure: no clock, `now` is an argument.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace brdma::congestion {

struct LossByQueueConfig {
  Duration period = Duration::from_ns(1 << 28);   // 268 ms
  Duration excused = Duration::from_ns(1 << 27);  // 134 ms
  Duration start_time = 8_ms;
  std::int64_t start_rounds = 32;
  std::int64_t shrink_part = 16;
  Duration span = 128_us;        // or:
  std::int64_t span_rounds = 2;  // base RTTs
  std::uint64_t least_lost = 6;  // packets
  std::uint64_t least_part = 16384;
  std::uint64_t times = 4;
};

class LossByQueue {
 public:
  // A crowded flow's packets, of which the last met `queue`. `base`: RTT of the path without a queue.
  void on_delivered(std::uint64_t bytes, Duration queue, Duration base, Instant now);
  // Packets of at most `packet_bytes` each. True: losses are random.
  [[nodiscard]] bool on_loss(std::uint64_t bytes, std::uint64_t packet_bytes, Instant now);
  [[nodiscard]] bool is_excused(Instant now) const { return now < excused_; }
  // The flow is no longer crowded.
  void forget() { *this = LossByQueue{excused_}; }
  LossByQueue() = default;

 private:
  struct Counts {
    std::uint64_t delivered = 0, lost = 0;  // bytes
    [[nodiscard]] std::uint64_t all() const { return delivered + lost; }
    void halve() { *this = {delivered / 2, lost / 2}; }
  };
  explicit LossByQueue(Instant excused) : excused_(excused) {}
  void age(Instant now);
  void note(Duration queue, Duration base, Instant now);
  [[nodiscard]] Duration recent() const { return std::max(before_, latest_); }
  [[nodiscard]] Counts& counts() { return recent() * 2 < longest_ ? short_ : long_; }
  [[nodiscard]] bool is_random(std::uint64_t packet_bytes) const;

  Counts short_, long_;
  Duration longest_{};            // queue at a loss
  Duration latest_{}, before_{};  // longest queue in this span and in the one before
  Instant start_, period_start_, span_start_, excused_;
  bool begun_ = false;
};

}  // namespace brdma::congestion
