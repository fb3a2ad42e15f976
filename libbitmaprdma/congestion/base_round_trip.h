// congestion/base_round_trip.h - how long a path is without queues, for the delay window: the smallest round trip of
// late, which drains measure (rounds in which a flow sends half of what the path holds).
//
// Kept for one to two base_rtt_periods (a path may become longer); on paths of more than 16 ms for one to two times
// between drains: forgotten sooner, a queue that stands at its target would become the base, and the next target come
// on top of it. Flows that start together measure each other's queue, so each drains every drain_period; the periods
// begin when the clock is a multiple of them, so flows of one host drain at the same time.
//
// A base that no longer holds, after a change of route, is given up by a drain: where the round trip was above base and
// target before and is as long with half the flight (within a thirty-second; of flows of more hosts than that, one's
// share cannot be told), it is no queue of this host's, and what was measured in the drain is the base. That goes by a
// round's smallest, which while a queue grows is that of its begin: so the last acknowledgements of the round before
// must not have met a grown_part more than that, nor those after the drain a collapsed_part less than they. A way may
// become longer while a queue stands on it, which the drain empties, and what is left may be the way: where that is
// still doubt_targets targets beyond, one drain more follows, which compares with it.
//
// Where drains are rarer than base_rtt_periods, a round doubt_targets targets beyond the base brings one forward
// (doubt_rounds of them in a row where the window leaves in bursts, which make queues by themselves), but not within
// doubt_rest_min rounds of the last one; each that finds a queue doubles these, up to doubt_rest_max, and each round
// without doubt takes one off: flows that keep a queue for long are not drained again and again.
//
// Pure: no clock, told `now`; called by congestion/delay_window.cc for each round.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace brdma::congestion {

struct BaseRoundTripConfig {
  Duration base_rtt_period = 1_s;
  Duration drain_period = Duration::from_ns(1 << 28);  // 268 ms; doubled until it is 64 base RTTs
  std::int64_t same_part = 32, grown_part = 4, collapsed_part = 8;
  std::int64_t doubt_targets = 2;
  int doubt_rounds = 2, doubt_rest_min = 2, doubt_rest_max = 16;
};

// Of two measurements, 0 being none.
[[nodiscard]] constexpr Duration smaller(Duration a, Duration b) {
  return a == Duration{} || (b != Duration{} && b < a) ? b : a;
}

class BaseRoundTrip {
 public:
  // A round in which the window adapted: its smallest round trip on the way, the target of queueing, and the window
  // before.
  struct Round {
    Duration rtt, queueing;
    std::uint64_t window = 0;
    bool limited = false;  // the window was in use in full
    bool spread = false;   // it leaves over a round trip
  };
  enum class Verdict : std::uint8_t {
    kKept,
    kLonger,   // the path is; what was measured is the base now
    kOnceMore  // it may be: drain again
  };

  // 0: no sample yet.
  [[nodiscard]] Duration value() const { return smaller(before_, now_); }
  void note(Duration rtt, Instant now) {
    if (now - period_start_ > BaseRoundTripConfig{}.base_rtt_period) [[unlikely]]
      begin_period(now);
    now_ = smaller(now_, rtt);
  }
  void shift(Duration by);  // the packets to come take a path that is longer by so much

  // Once a round in which the window adapted. True: drain.
  [[nodiscard]] bool wants_drain(const Round& round, Instant now);
  // A drain begins after this round; the first round that was sent in it has ended. `rtt`: the round's smallest;
  // `lately`: what the last acknowledgements met, smoothed.
  void begin_drain(Duration rtt, Duration lately, Duration queueing);
  [[nodiscard]] Verdict judge(Duration rtt, Duration lately, Duration queueing, Instant now);
  // The window before the doubt that the last drain has confirmed; 0: there was none.
  [[nodiscard]] std::uint64_t undoubted() const { return undoubted_; }

 private:
  void begin_period(Instant now);
  [[nodiscard]] Duration drain_period() const;
  [[nodiscard]] bool drains_are_rare() const;
  [[nodiscard]] bool drain_is_due(Instant now);
  [[nodiscard]] bool is_doubtful(const Round& round);
  [[nodiscard]] bool is_far_beyond(Duration rtt, Duration queueing) const;

  Duration before_{}, now_{};  // smallest of the last whole period and of this one; 0: none
  Instant period_start_{};
  std::int64_t drain_number_ = -1;  // of the period in which the last drain was
  Duration doubted_{};              // round trip before the drain, where it was longer than base and target; 0: not
  Duration doubted_lately_{};       // at the end of that round
  bool once_more_ = false;          // the drain is the second one in a row
  int rounds_beyond_ = 0;           // limited ones in a row; below 0: so many rounds of rest are left
  int rest_ = BaseRoundTripConfig{}.doubt_rest_min;
  std::uint64_t undoubted_ = 0;  // the window before the first of them
};

}  // namespace brdma::congestion
