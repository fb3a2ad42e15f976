// congestion/queue_loss.h - distinguishes tail drops from random loss.
//
// A queue that drops what finds it full loses packets while RTTs are at their longest and the window is as large as it
// was, and at no other time. Random loss happens at all RTTs. So packets are counted in two parts, delivered and lost:
// *below*, when the queueing delay was at most half of its recent 90th percentile, or the window had been cut;
// and *at* it. Tail drops it is when more is lost at it than below, by more than random loss would make of it: three
// standard deviations, and 2 % of the packets or four times as much. Until enough is seen below, that counts besides as
// if one packet of `unseen` had been lost there. Samples of it come from the start, when there is no queue yet, from
// the drains, which empty it, and from the cut itself: whether as much is lost as before shows whether it was right.
//
// Counts at it are halved each `period`, those below each below_periods of them. Where much is lost below, they are
// forgotten then: a queue that other flows keep full looks like random loss, and to find out again takes few packets.
//
// Integers only; pure: no clock, `now` is an argument.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace brdma::congestion {

struct QueueLossConfig {
  Duration period = Duration::from_ns(1 << 28);  // 268 ms, as often as a drain
  int below_periods = 4;
  std::uint64_t much = 16;       // part of the packets: a sixteenth
  std::uint64_t least_lost = 3;  // packets, of the part that is judged
  std::uint64_t unseen = 2048;   // packets
  std::uint64_t few = 64;        // packets below; of fewer, what was lost counts less
  std::uint64_t likely_times = 4, likely_part = 50, deviations = 3;
  std::int64_t long_step = 64;  // part of it that the long round trips become shorter by, with each that is shorter
};

// The window that a packet was sent under.
enum class WindowAtSend : std::uint8_t {
  kCurrent,    // the one in force; none is being tried out
  kBeforeCut,  // the one that was cut for a full queue
  kReduced     // the one after the cut, until it grows
};

class QueueLoss {
 public:
  void delivered(std::uint64_t bytes, Duration queueing, WindowAtSend window, Instant now);
  // Of `packet_bytes` at most each. A queue that is full takes `least` to drain, or longer. True: a tail drop; the
  // window is to be cut, and what was sent before that is of the same cut.
  [[nodiscard]] bool lost(std::uint64_t bytes, std::uint64_t packet_bytes, Duration least, WindowAtSend window,
                          Instant now);
  // Under the reduced window as large a part is lost as under the one before.
  [[nodiscard]] bool loses_as_much(std::uint64_t packet_bytes) const;
  // The queue stands, and is shorter than `wanted`: it has no room for more.
  [[nodiscard]] bool is_capped(Duration wanted) const { return is_long() && recent_ < wanted; }
  // Verdicts on that: it was still too large, and nothing is known of smaller ones; or the loss is random.
  void still_too_large();
  void was_random() { below_ = all_reduced_; }
  // A switch has reported what its full queue dropped: nothing is left to be judged.
  void on_notification() { at_ = before_cut_ = reduced_ = all_reduced_ = {}; }

 private:
  struct Counts {
    std::uint64_t delivered = 0, lost = 0;
    [[nodiscard]] std::uint64_t all() const { return delivered + lost; }
    void halve() { *this = {delivered / 2, lost / 2}; }
  };
  void age(Instant now);
  void end_period(Instant now);
  enum class Part : std::uint8_t { kAt, kBelow, kBeforeCut };
  // Of both what is delivered and what is lost.
  [[nodiscard]] Part part(WindowAtSend window) const;
  [[nodiscard]] bool is_long() const { return recent_ * 2 > long_; }
  void count(WindowAtSend window, std::uint64_t Counts::*what, std::uint64_t bytes);
  [[nodiscard]] bool is_likely(std::uint64_t packet_bytes) const;

  Counts below_, at_;   // bytes
  Counts before_cut_;   // `at_`, when the window was cut
  Counts reduced_;      // since, under the reduced window; in below_ too
  Counts all_reduced_;  // under all reduced windows of consecutive cuts
  int periods_ = 0;
  Duration long_{};    // 90th percentile of queueing
  Duration recent_{};  // the recent longest: an eighth less with each acknowledgement
  Instant period_start_{};
  bool begun_ = false;
};

}  // namespace brdma::congestion
