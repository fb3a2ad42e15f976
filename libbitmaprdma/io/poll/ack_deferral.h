// io/poll/ack_deferral.h - decides whether to hold an acknowledgement back until the application's next post. Pure:
// sends nothing.
//
// In a ping-pong the acknowledgement of the last message can leave behind the reply in one GSO message. That saves a
// send in the critical path, and keeps a peer in step that polls its memory. Such a peer stays in ibv_poll_cq until our
// acknowledgement comes, so the same call receives our reply, and the peer finds it in memory without further calls
// (ib_write_lat does just this). A separate acknowledgement ends that ibv_poll_cq too early; then the peer's parked
// progress thread must take over, which costs far more than the wait.
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
  explicit AckDeferral(Duration hold_max) : hold_max_(hold_max) {}

  // Longest wait of acknowledgements that fall due from now on.
  void set_hold_max(Duration hold_max) { hold_max_ = hold_max; }
  // Called when only deferrable output is due. True: hold it back (at most until deadline()).
  [[nodiscard]] bool hold_back(Instant now) {
    if (holding_) return now < due_ + hold_max_;
    if (unanswered_) add(-1);
    unanswered_ = true;
    due_ = now;
    holding_ = score_ >= kScoreToHold && hold_max_ > Duration{};
    return holding_;
  }
  // True if hold_back() would begin to hold.
  [[nodiscard]] bool expects_reply() const {
    return !holding_ && !unanswered_ && score_ >= kScoreToHold && hold_max_ > Duration{};
  }
  // The application posts: held acknowledgements leave with its data.
  void posted(Instant now) {
    if (unanswered_) add(now < due_ + hold_max_ ? 1 : -1);
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
  [[nodiscard]] std::optional<Instant> deadline() const {
    return holding_ ? std::optional{due_ + hold_max_} : std::nullopt;
  }

 private:
  static constexpr int kScoreMax = 8, kScoreToHold = 2;
  void add(int points) { score_ = std::clamp(score_ + points, -kScoreMax, kScoreMax); }

  Duration hold_max_;
  bool holding_ = false;
  bool unanswered_ = false;  // an acknowledgement fell due at due_, without a post since
  Instant due_;
  int score_ = 0;
};

}  // namespace brdma::io
