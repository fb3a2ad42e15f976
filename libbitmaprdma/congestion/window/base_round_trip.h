// congestion/window/base_round_trip.h - round trip of a path without queues, for the delay window: the recent minimum.
// Drains measure it: rounds in which a flow sends half of the path's content, or less.
//
// Kept for one to two base_rtt_periods (a path may become longer), at least for one to two times between drains.
// Forgotten sooner, a queue that stands at its target would become the base, with the next target on top of it. Flows
// that start together measure each other's queue, so each drains every drain_period. Periods begin when the clock is a
// multiple of them, so flows of one clock drain at the same time. A drain of one flow of many would take too little
// from the queue. So a drain may last until drain_lasts after that multiple, in which all of them can empty it.
//
// Once a flow is crowded (crowding.h), or after a timeout, periods are early ones for a while: a sixteenth of a
// drain_period, an eighth, a quarter and a half of it, those of them that have early_rounds base RTTs. Flows that fill
// a queue as they start then find the path's base before their windows have settled on it. An early drain finds no
// longer path.
//
// A change of route makes a base invalid; a drain detects that. If the round trip was above base and target before the
// drain, and is as long with half the flight (within a thirty-second), the delay is no queue of this host. The drain's
// measurement becomes the base. (Where flows of more than 32 hosts share a queue, one host's share cannot be
// distinguished: may_be_longer, crowding.h.) The test uses a round's minimum, which in a growing queue is that of its
// begin. So the last acknowledgements of the round before must not exceed it by more than a grown_part, nor may those
// after the drain fall below them by a collapsed_part. A path may become longer while a queue stands on it. The drain
// empties the queue, and the rest may be the path: if it is still doubt_targets targets beyond, one more drain follows
// and compares with it.
//
// Where drains are rarer than rare_from, a round doubt_targets targets beyond the base triggers one earlier.
// Windows that leave in bursts make queues by themselves and need doubt_rounds such rounds in a row. At least
// doubt_rest_min rounds pass between drains. Each drain that finds a queue doubles them, up to doubt_rest_max; each
// round without doubt takes one off. So flows that keep a queue for long are not drained again and again.
//
// Pure: no clock, `now` is an argument; called by congestion/delay_window.cc for each round.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace brdma::congestion {

struct BaseRoundTripConfig {
  Duration base_rtt_period = Duration::from_ns(std::int64_t{1} << 31);  // 2.1 s
  Duration drain_period = Duration::from_ns(1 << 28);                   // 268 ms; doubled until it is 64 base RTTs
  Duration rare_from = 1_s;
  int early_drains = 4;                               // at a sixteenth of the period, an eighth, a quarter and a half
  std::int64_t early_rounds = 64;                     // that the shortest of these periods has
  Duration drain_lasts = Duration::from_ns(1 << 21);  // 2.1 ms, where a queue stands
  std::int64_t same_part = 32, grown_part = 4, collapsed_part = 8;
  std::int64_t doubt_targets = 2;
  int doubt_rounds = 2, doubt_rest_min = 2, doubt_rest_max = 16;
};

// Minimum of two measurements; 0: none.
[[nodiscard]] constexpr Duration smaller(Duration a, Duration b) {
  return a == Duration{} || (b != Duration{} && b < a) ? b : a;
}

class BaseRoundTrip {
 public:
  // A round in which the window adapted: its smallest RTT on the path, the target of queueing, and the window before.
  struct Round {
    Duration rtt, queueing;
    std::uint64_t window = 0;
    bool limited = false;  // the window was fully used
    bool spread = false;   // it leaves over a round trip
  };
  enum class Verdict : std::uint8_t {
    kKept,
    kLonger,   // the path is longer; the new measurement is the base now
    kOnceMore  // it may be: drain again
  };

  // 0: no sample yet.
  [[nodiscard]] Duration value() const { return smaller(before_, now_); }
  void note(Duration rtt, Instant now) {
    if (now - period_start_ > BaseRoundTripConfig{}.base_rtt_period) [[unlikely]]
      begin_period(now);
    now_ = smaller(now_, rtt);
  }
  void shift(Duration by);  // packets from now on take a path that is longer by so much

  void note_full_queue() {
    if (lossless_) [[unlikely]]
      begin_early_drains();
  }

  // Called once a round in which the window adapted. True: drain.
  [[nodiscard]] bool wants_drain(const Round& round, Instant now);
  // A drain begins after this round; the first round sent in it has ended. `rtt`: the round's smallest; `lately`:
  // smoothed, of the last acknowledgements.
  void begin_drain(Duration rtt, Duration lately, Duration queueing);
  struct Drained {
    Duration rtt, lately, queueing;
    bool may_be_longer = true;  // the flow can distinguish that from other flows' queue
  };
  [[nodiscard]] Verdict judge(const Drained& drained, Instant now);
  // There was a queue before the drain, and there is less after it.
  [[nodiscard]] bool is_emptied_by(Duration rtt) const {
    return rtt + doubted_ / BaseRoundTripConfig{}.same_part < doubted_;
  }
  // Until then the flows drain whose clock is the same. In the past for a drain that was not due.
  [[nodiscard]] Instant drain_end() const { return due_ + BaseRoundTripConfig{}.drain_lasts; }
  // The window before the doubt that the last drain confirmed; 0: none.
  [[nodiscard]] std::uint64_t undoubted() const { return undoubted_; }

 private:
  void begin_period(Instant now);
  void begin_early_drains();
  [[nodiscard]] Duration drain_period() const;
  [[nodiscard]] Duration early_period() const;
  [[nodiscard]] bool drains_are_rare() const;
  [[nodiscard]] bool drain_is_due(Instant now);
  [[nodiscard]] bool is_doubtful(const Round& round);
  [[nodiscard]] bool is_far_beyond(Duration rtt, Duration queueing) const;

  Duration before_{}, now_{};  // smallest of the last whole period and of this one; 0: none
  Instant period_start_{};
  std::int64_t drain_number_ = -1;  // of the period in which the last drain was
  Instant due_;                     // begin of that period
  Duration doubted_{};              // round trip before the drain, where it was longer than base and target; 0: not
  Duration doubted_lately_{};       // at the end of that round
  int early_ = 0;                   // early drains left
  bool lossless_ = true;            // so far
  bool is_early_ = false;           // the last drain
  bool once_more_ = false;          // the drain is the second one in a row
  int rounds_beyond_ = 0;           // limited ones in a row; below 0: rounds of rest left
  int rest_ = BaseRoundTripConfig{}.doubt_rest_min;
  std::uint64_t undoubted_ = 0;  // the window before the first of them
};

}  // namespace brdma::congestion
