// congestion/window/queue_loss.h - distinguishes tail drops from random loss.
//
// A full queue drops packets only while RTTs are at their longest and the window is not yet cut. Random loss happens at
// all RTTs. So packets are counted in two parts, delivered and lost: *below*, when the queueing delay was at most half
// of its recent 90th percentile, or the window had been cut; and *at* it. Losses are tail drops when more is lost at it
// than below, by more than random loss would explain: three standard deviations, and 2 % of the packets or four times
// as much. Until there are enough samples below, one packet of `unseen` counts as lost there. Samples below come from
// the start, when there is no queue yet, from the drains, which empty it, and from the cut itself: the loss after it
// shows whether it was right.
//
// Counts at it are halved each `period`, those below each below_periods of them. Where much is lost below, the counts
// below are then forgotten: a queue that other flows keep full looks like random loss, and relearning takes few
// packets.
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
  std::uint64_t few = 64;        // packets below; with fewer, losses count less
  std::uint64_t likely_times = 4, likely_part = 50, deviations = 3;
  std::int64_t long_step = 64;  // part of it that the long round trips decrease by, with each shorter one
};

// The window under which a packet was sent.
enum class WindowAtSend : std::uint8_t {
  kCurrent,    // the one in force; none is being tried out
  kBeforeCut,  // the one that was cut for a full queue
  kReduced     // the one after the cut, until it grows
};

class QueueLoss {
 public:
  void delivered(std::uint64_t bytes, Duration queueing, WindowAtSend window, Instant now);
  // Packets of at most `packet_bytes` each. A full queue takes `least` to drain, or longer. True: a tail drop; the
  // window is to be cut, and losses of earlier packets belong to the same cut.
  [[nodiscard]] bool lost(std::uint64_t bytes, std::uint64_t packet_bytes, Duration least, WindowAtSend window,
                          Instant now);
  // As large a part is lost under the reduced window as under the one before.
  [[nodiscard]] bool loses_as_much(std::uint64_t packet_bytes) const;
  // The queue stands, and is shorter than `wanted`: it has no room for more.
  [[nodiscard]] bool is_capped(Duration wanted) const { return is_long() && recent_ < wanted; }
  // The queue stands, as long as it was recently.
  [[nodiscard]] bool is_long() const { return recent_ * 2 > long_; }
  [[nodiscard]] Duration longest() const { return recent_; }
  // Verdicts on the cut: the window is still too large, and nothing is known of smaller ones; or the loss is random.
  void still_too_large();
  void was_random() { below_ = all_reduced_; }
  // A switch has reported its full queue's drops: nothing is left to judge.
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
  // Delivered and lost.
  [[nodiscard]] Part part(WindowAtSend window) const;
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
