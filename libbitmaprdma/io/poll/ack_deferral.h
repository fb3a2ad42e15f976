// io/poll/ack_deferral.h - decides whether to hold an acknowledgement back until the application's next post. Pure:
// sends nothing. Part of SendScheduler.
//
// In a ping-pong the acknowledgement of the last message can leave behind the reply in one GSO message. That saves a
// send in the critical path, and keeps a peer in step that polls its memory. Such a peer stays in ibv_poll_cq until our
// acknowledgement comes, so the same call receives our reply, and the peer finds it in memory without further calls. A
// separate acknowledgement ends that ibv_poll_cq too early; then the peer's parked progress thread must take over,
// which costs far more than the wait.
//
// A separate acknowledgement also wakes a program that sleeps on completion channels while it waits for the reply, and
// its peer sends twice: that was half of a round trip.
//
// The cost without a post is an acknowledgement that is late by `hold_max`. So the past decides, by a score in [-8, 8].
// A post within hold_max of a due acknowledgement: +1; no post before the next one is due, or only a late one: -1; an
// acknowledgement held back without use: -4. Acknowledgements are held back from a score of 2 on. One miss (a program
// that lost its core for a moment) does not stop a ping-pong, and a program that only receives never holds anything
// back.
#pragma once

#include <algorithm>
#include <optional>

#include "base/units.h"

namespace brdma::io {

class AckDeferral {
 public:
  // Called when only deferrable output is due. True: hold it back (at most until deadline()). `hold_max`: longest wait
  // of an acknowledgement that falls due now; 0: none.
  [[nodiscard]] bool hold_back(Instant now, Duration hold_max) {
    if (holding_) return now < until_;
    if (unanswered_) add(-1);
    unanswered_ = true;
    until_ = now + hold_max;
    holding_ = score_ >= kScoreToHold && hold_max > Duration{};
    return holding_;
  }
  // True if hold_back() would begin to hold.
  [[nodiscard]] bool expects_reply() const { return !holding_ && !unanswered_ && score_ >= kScoreToHold; }
  // The application posts: held acknowledgements leave with its data.
  void posted(Instant now) {
    if (unanswered_) add(now < until_ ? 1 : -1);
    unanswered_ = holding_ = false;
  }
  // Held acknowledgements left without the application's data. `joined`: with other output that came up meanwhile, so
  // that the wait cost nothing.
  void sent(bool joined) {
    if (!holding_) return;
    holding_ = false;
    if (!joined) add(-4);
  }

  [[nodiscard]] bool holding() const { return holding_; }
  // Time at which held acknowledgements must leave.
  [[nodiscard]] std::optional<Instant> deadline() const { return holding_ ? std::optional{until_} : std::nullopt; }

 private:
  static constexpr int kScoreMax = 8, kScoreToHold = 2;
  void add(int points) { score_ = std::clamp(score_ + points, -kScoreMax, kScoreMax); }

  bool holding_ = false;
  bool unanswered_ = false;  // an acknowledgement fell due, without a post since
  Instant until_;            // a reply later than this is none
  int score_ = 0;
};

}  // namespace brdma::io
