// io/poll/ack_deferral.h - is it worth holding an acknowledgement back until the application's next post? Pure: told
// what happens, sends nothing.
//
// In a ping-pong the acknowledgement of the message just received can leave behind the reply in one GSO message. That
// saves a send in the critical path, and it keeps a peer that polls its memory in step: it sits in ibv_poll_cq until
// our acknowledgement comes, so our reply is received by the same call, and the peer, which then spins on memory
// without calling us, finds it there (ib_write_lat does just this). An acknowledgement that travels alone lets the peer
// out of ibv_poll_cq too early; then its parked progress thread must take over, which costs far more than the wait.
//
// A program that sleeps on completion channels is woken by such an acknowledgement, in the midst of waiting for the
// reply, and its peer sends twice: that was half of a round trip.
//
// The price, when no post follows, is an acknowledgement that is late by `hold_max`. So the past decides, by a score in
// [-8, 8]: a post within hold_max of an acknowledgement's falling due +1; none before the next one falls due, or only a
// late one, -1; one that was held back in vain -4. Held back is from 2 on. One mishap (a program that lost its core for
// a moment) does not stop a ping-pong, and a program that only receives never holds anything back.
#pragma once

#include <algorithm>
#include <optional>

#include "base/units.h"

namespace brdma::io {

class AckDeferral {
 public:
  explicit AckDeferral(Duration hold_max) : hold_max_(hold_max) {}

  // How long what falls due from now on may wait.
  void set_hold_max(Duration hold_max) { hold_max_ = hold_max; }
  // Asked when nothing but deferrable output is due. True: hold it back (at most until deadline()).
  [[nodiscard]] bool hold_back(Instant now) {
    if (holding_) return now < due_ + hold_max_;
    if (unanswered_) add(-1);
    unanswered_ = true;
    due_ = now;
    holding_ = score_ >= kScoreToHold && hold_max_ > Duration{};
    return holding_;
  }
  // hold_back() would begin to.
  [[nodiscard]] bool expects_reply() const {
    return !holding_ && !unanswered_ && score_ >= kScoreToHold && hold_max_ > Duration{};
  }
  // The application posts: whatever is held back leaves with its data.
  void posted(Instant now) {
    if (unanswered_) add(now < due_ + hold_max_ ? 1 : -1);
    unanswered_ = holding_ = false;
  }
  // What was held back left without data of the application's. `joined`: with other output that came up meanwhile, so
  // that nothing was lost by waiting.
  void sent(bool joined) {
    if (!holding_) return;
    holding_ = false;
    if (!joined) add(-4);
  }

  [[nodiscard]] bool holding() const { return holding_; }
  // When what is held back must leave.
  [[nodiscard]] std::optional<Instant> deadline() const {
    return holding_ ? std::optional{due_ + hold_max_} : std::nullopt;
  }

 private:
  static constexpr int kScoreMax = 8, kScoreToHold = 2;
  void add(int points) { score_ = std::clamp(score_ + points, -kScoreMax, kScoreMax); }

  Duration hold_max_;
  bool holding_ = false;
  bool unanswered_ = false;  // an acknowledgement fell due at due_, and no post came yet
  Instant due_;
  int score_ = 0;
};

}  // namespace brdma::io
