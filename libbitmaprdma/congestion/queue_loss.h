// congestion/queue_loss.h - whether packets are lost because a queue on the path is full, or by chance.
//
// Where a queue drops what finds it full, packets are lost while round trips are at their longest and the window is as
// large as it was, and at no other time. What is lost by chance is lost at all of them. So packets are counted in two
// parts, delivered and lost: *below*, when the round trip was at most half of the long ones of late (longer than nine
// of ten), or the window had been made smaller; and *at* it. Of a full queue it is when more is lost at it than below,
// by more than chance would make of it: three standard deviations, and 2 % of the packets or four times as much. Until
// enough is seen below, that counts besides as if one packet of `unseen` had been lost there. It is seen in the start,
// when there is no queue yet, in the drains, which empty it, and in the answer itself: the window becomes smaller, and
// whether as much is lost as before shows whether that was right.
//
// Counts at it are halved each `period`, those below each below_periods of them. Where much is lost below, they are
// forgotten then: a queue that others keep full looks like chance, and to find out again takes few packets.
//
// Integers only; pure: no clock, told `now`.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace brdma::congestion {

struct QueueLossConfig {
  Duration period = Duration::from_ns(1 << 28);  // 268 ms, as often as a drain
  int below_periods = 4;
  std::uint64_t much = 16;       // part of the packets
  std::uint64_t least_lost = 3;  // packets, of the part that is judged
  std::uint64_t unseen = 2048;   // packets
  std::uint64_t few = 64;        // packets below; of fewer, what was lost counts less
  std::uint64_t likely_times = 4, likely_part = 50, deviations = 3;
  std::int64_t long_step = 64;  // part of it that the long round trips become shorter by, with each that is shorter
};

// The window that a packet left with.
enum class LeftWith : std::uint8_t {
  kTheWindow,
  kTooMuch,  // before it was made smaller, for a queue that was full
  kLess      // the smaller one
};

class QueueLoss {
 public:
  void delivered(std::uint64_t bytes, Duration queueing, LeftWith window, Instant now);
  // Of `packet_bytes` at most each. A queue that is full takes `least` to drain, or longer. True: one has dropped it;
  // the window is to be made smaller, and what left before that is not judged again.
  [[nodiscard]] bool lost(std::uint64_t bytes, std::uint64_t packet_bytes, Duration least, LeftWith window,
                          Instant now);
  // With the smaller window as much is lost as with the one before.
  [[nodiscard]] bool is_no_less(std::uint64_t packet_bytes) const;
  // The queue stands, and is shorter than `wanted`: something keeps it from growing.
  [[nodiscard]] bool is_capped(Duration wanted) const { return is_long() && lately_ < wanted; }
  // Then either that was still too much, and nothing is known of less; or it is chance.
  void was_too_much();
  void was_chance() { below_ = all_less_; }
  // Somebody who knows has said that a queue was full: nothing is left to be judged.
  void was_told() { at_ = judged_ = less_ = {}; }

 private:
  struct Counts {
    std::uint64_t delivered = 0, lost = 0;
    [[nodiscard]] std::uint64_t all() const { return delivered + lost; }
    void halve() { *this = {delivered / 2, lost / 2}; }
  };
  void age(Instant now);
  void end_period(Instant now);
  enum class Part : std::uint8_t { kAt, kBelow, kJudged };
  // What is delivered and what is lost are told apart by the same.
  [[nodiscard]] Part part(LeftWith window) const;
  [[nodiscard]] bool is_long() const { return lately_ * 2 > long_; }
  void count(LeftWith window, std::uint64_t Counts::*what, std::uint64_t bytes);
  [[nodiscard]] bool is_likely(std::uint64_t packet_bytes) const;

  Counts below_, at_;  // bytes
  Counts judged_;      // at it, when that was found to be too much
  Counts less_;        // since, of the smaller window; in below_ too
  Counts all_less_;    // of all the smaller windows that followed each other
  int periods_ = 0;
  Duration long_{};    // queueing that nine of ten acknowledgements do not meet
  Duration lately_{};  // the longest of late, less an eighth with each acknowledgement
  Instant period_start_{};
  bool begun_ = false;
};

}  // namespace brdma::congestion
