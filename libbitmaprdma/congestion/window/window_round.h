// congestion/window/window_round.h - private to the delay window: one round, from an acknowledgement to the first one
// for a packet sent after it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"
#include "congestion/delay_window.h"
#include "congestion/window/base_round_trip.h"

namespace brdma::congestion {

struct WindowRound {
  bool begun = false;
  bool limited = false;      // the window was fully used
  bool interrupted = false;  // a READ request was lost
  bool dropped = false;      // a switch had no room for some of it
  bool bad_before = false;   // the last round in which the window adapted delivered less than it could
  Instant start;
  Instant sent;         // send time of the packet whose acknowledgement began the round
  Duration rtt{};       // smallest on the path
  Duration all_rtts{};  // on the path, of `samples` acknowledgements
  std::int64_t samples = 0;
  Duration waited{};  // in the hosts: least; until there is one, of the round before
  struct {
    Duration longest{};
    Duration stall{};  // longest that was a silence by the round trip before it
  } silences{};
  std::uint64_t bytes = 0;     // acknowledged
  std::uint64_t flight = 0;    // allowed when the round began: its maximum delivery without loss
  std::uint64_t withheld = 0;  // acknowledged since growth is withheld because a queue forms

  void begin(Instant now, Duration whole_rtt, std::uint64_t allowed) {
    *this = {.begun = true,
             .bad_before = bad_before,
             .start = now,
             .sent = now - whole_rtt,
             .waited = waited,
             .flight = allowed};
  }
  void add(std::uint64_t acked, const RoundTrip& trip, bool is_limited) {
    bytes += acked;
    limited = limited || is_limited;
    waited = rtt == Duration{} ? trip.waited : std::min(waited, trip.waited);
    rtt = smaller(rtt, trip.on_the_way());
    all_rtts = all_rtts + trip.on_the_way();
    ++samples;
  }
  [[nodiscard]] Duration mean_rtt() const { return all_rtts / std::max<std::int64_t>(samples, 1); }
  // The path is longer by so much.
  void shift(Duration by) {
    if (samples == 0) return;
    rtt = std::max(rtt + by, kTick);
    all_rtts = std::max(all_rtts + by * samples, rtt * samples);
  }
  [[nodiscard]] bool is_over(Instant now, Duration whole_rtt) const { return now - whole_rtt >= start && now > start; }
  // Most of what was allowed has arrived.
  [[nodiscard]] bool delivered() const { return bytes >= flight - flight / 4; }
  // An eighth is missing, and more than `by_chance`.
  [[nodiscard]] bool lost(std::uint64_t by_chance) const { return bytes + std::max(flight / 8, by_chance) < flight; }
};

// A window smaller than the path is acknowledged once a round trip, all at once. A longer silence means that a process
// at either end has no core.
[[nodiscard]] constexpr bool is_stall(Duration silence, Duration rtt) { return silence * 4 > rtt * 5; }

}  // namespace brdma::congestion
