// congestion/window/full_queue.h - private to the delay window: a queue that overflowed, as long as it is known, and
// the limit that it sets to the window; and the room that a switch reported.
//
// The window is cut, stays there for a while, then its limit grows by steps that double. Steps are the same for all
// flows, and losses are a part of each window: that makes flows equal.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"
#include "congestion/delay_window.h"
#include "congestion/window/base_round_trip.h"
#include "congestion/window/queue_loss.h"

namespace brdma::congestion {

// What a window delivered, and what it met.
struct WindowSample {
  std::uint64_t window = 0;
  std::uint64_t rate = 0;  // bytes a second
  Duration queue{};        // on the path, smoothed
  bool starting = false;   // it still doubled
};

class FullQueue {
 public:
  [[nodiscard]] bool is_known() const { return held_.window != 0; }
  [[nodiscard]] std::uint64_t most() const { return most_; }  // limit tried now
  // The first of several windows that were cut in a row.
  [[nodiscard]] const WindowSample& first() const { return first_; }

  // Packets sent under that window were dropped. Those sent before the last cut belong to it.
  void begin_cut(WindowAtSend at_send, const WindowSample& window, Instant now);
  // A switch reported them: the window may be `most`.
  void cut_reported(std::uint64_t most);
  // `bytes` more are judged lost; `carried`: what the path holds.
  void cut_lost(std::uint64_t bytes, std::uint32_t packet_bytes, std::uint64_t carried, std::uint64_t least);
  void begin_round() { dropped_ = false; }
  // A round has ended that would allow `next`: the window that the queue allows. May forget the queue.
  [[nodiscard]] std::uint64_t below(std::uint64_t next, Instant now);

  // For packets that are acknowledged or judged lost now, a round trip after they left.
  [[nodiscard]] WindowAtSend at_send(Duration rtt, Instant now) const {
    if (!is_known() || steps_ != 0) return WindowAtSend::kCurrent;
    return now - since_ > rtt + rtt / 4 ? WindowAtSend::kReduced : WindowAtSend::kBeforeCut;
  }
  // The reduced window, which loses as much, shows that the loss is random. `capped`: the queue stands and has no room
  // for the target.
  [[nodiscard]] bool was_random_loss(const WindowSample& reduced, bool capped) const;

 private:
  WindowSample held_;   // the window it had no room for; none: no queue is known
  WindowSample first_;  // of several that were cut in a row
  std::uint64_t most_ = 0;
  std::uint64_t lost_ = 0;  // of that window
  Instant since_;           // when it was cut
  int rounds_ = 0;          // without a loss
  int steps_ = 0;           // of growth
  bool reported_ = false;   // by a switch
  bool dropped_ = false;    // in the round in progress
};

// Drain time of a full queue, as its switch reported it, or losses showed it. Doubled now and then, then forgotten.
class Room {
 public:
  void report(Duration drain, Instant now) {
    room_ = smaller(room_, drain);
    at_ = now;
  }
  void age(Duration doubles, Instant now) {
    constexpr DelayWindowConfig kConfig;
    while (is_known() && now - at_ > doubles) {
      room_ = room_ * 2;
      at_ = at_ + doubles;
      if (room_ >= kConfig.silence_max * kConfig.room_part) room_ = {};
    }
  }
  [[nodiscard]] bool is_known() const { return room_ != Duration{}; }
  // The target of queueing, at most a part of it.
  [[nodiscard]] Duration bound(Duration target) const {
    return is_known() ? std::min(target, room_ / DelayWindowConfig{}.room_part) : target;
  }

 private:
  Duration room_{};  // 0: never reported, or forgotten
  Instant at_;
};

}  // namespace brdma::congestion
