// qp/gaps/gap_feedback.h - private: which gaps among requests are to be named to a peer in bitmap mode, when again, and
// how long a requested packet takes to come (design BR-21). feedback_sender.h writes the messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/config.h"
#include "base/units.h"
#include "bitmap/gap_table.h"
#include "qp/gaps/out_of_order.h"
#include "recovery/retransmit_request.h"
#include "recovery/rtt_estimator.h"
#include "wire/control.h"

namespace brdma::qp {

class GapFeedback {
 public:
  // --- which gaps, and when ---
  // A message is to leave. Then there is out-of-order state.
  [[nodiscard]] bool due() const { return due_; }
  void request() { due_ = true; }
  void cancel() { due_ = false; }
  // A gap that begins at `start` counts as lost.
  void on_promoted(FeedbackWatch& watch, Psn start) {
    watch.promoted(start);
    ++promoted_;
  }
  // Finds the promoted gaps to name, and when. The oldest named one gives the earliest time; only then all are scanned,
  // which is once a round trip, as most have closed by then.
  void plan(OutOfOrderState& state, const RecoveryConfig& config, Instant seen);
  // Time from an FFM until the requested packet should be here, for a gap that so many named. Doubling: two round trips
  // at least, and no less than their recent variation requires. On a path longer than the longest interval it is a
  // quarter more than a round trip: the window there waits for a packet lost again, and a sender ignores feedback that
  // cannot cover its retransmission.
  [[nodiscard]] Duration repeat_interval(std::uint16_t feedbacks, const RecoveryConfig& config) const;
  // `gap`, which was named, is to be named again. `last_arrival`: the peer's last packet.
  [[nodiscard]] bool is_repetition_due(const bitmap::GapRecord& gap, Instant last_arrival, const RecoveryConfig& config,
                                       Instant now) const {
    return now >= next_naming(gap.last_feedback, gap.feedbacks, last_arrival, config);
  }
  // The message that leaves now is the next of this queue pair.
  void number(wire::Ffm& ffm) {
    ffm.serial = serial_++;
    ffm.promoted = promoted_;
  }

  // --- from an FFM to the packet that it requested ---
  // The packet came, into `gap`. After one FFM: a round trip. After several the answered one is unknown, but the
  // recovery took no longer than since the gap was seen. On a path longer than the first interval no gap would ever
  // have one FFM only: nothing would be measured, and each FFM would be repeated.
  void on_response(const bitmap::GapRecord& gap, Instant now);
  // A packet that was requested once had come by itself; its retransmission took so long.
  void on_repetition(Duration took, Instant now) { round_trip_.sample(took, now); }
  [[nodiscard]] Duration round_trip() const { return round_trip_.smoothed(); }  // 0: not known

  // Memory that bitmap recovery adds to a queue pair: the round trip, and the counts that travel in an FFM.
  static constexpr std::size_t kRecoveryBytes =
      sizeof(recovery::RttEstimator) + sizeof(std::uint32_t) + sizeof(std::uint16_t);

 private:
  static constexpr Duration kRepeatFirst = 500_us;  // the path's RTT is not known yet

  [[nodiscard]] Instant next_naming(Instant last, std::uint16_t times, Instant last_arrival,
                                    const RecoveryConfig& config) const {
    return recovery::next_request(last, times, repeat_interval(times, config), last_arrival);
  }
  void look_at_unnamed(FeedbackWatch& watch, const RecoveryConfig& config, Instant seen);
  // When the first gap is to be named again, by the oldest ones; nothing: none has been named.
  [[nodiscard]] std::optional<Instant> first_repetition(const OutOfOrderState& state,
                                                        const RecoveryConfig& config) const;
  void look_at_named(OutOfOrderState& state, const RecoveryConfig& config, Instant seen);

  bool due_ = false;
  std::uint16_t promoted_ = 0;            // gaps, of all time
  std::uint32_t serial_ = 0;              // of the next message
  Duration repeat_first_ = kRepeatFirst;  // until a round trip has been measured
  recovery::RttEstimator round_trip_;
};

}  // namespace brdma::qp
