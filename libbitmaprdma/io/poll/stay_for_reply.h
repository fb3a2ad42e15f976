// io/poll/stay_for_reply.h - is it worth staying in a poll that already has its completion, until the peer's reply
// comes? Pure: told what happens, receives nothing.
//
// A program that plays ping-pong by WRITEs over UC (ib_write_lat -c UC) posts, polls its completion, which is there at
// once, since nobody acknowledges it, and spins on its memory. Nobody receives then but the parked progress thread,
// which has to find that out and needs a core. Over RC the completion comes with the peer's reply, so the poll that
// waits for the one brings the other (io/poll/ack_deferral.h). Staying in the poll for a moment does the same for UC.
//
// The price, when no reply comes, is a poll that lasts `kStayMax` longer. So the past decides, by a score in [-8, 8]: a
// packet that the thread had to receive after such a poll, or that came while staying +1; a post before anything came
// -1; staying in vain -2. The poll stays from 2 on.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace brdma::io {

class StayForReply {
 public:
  // A reply that the peer's thread had to wake up for takes some 40 us: both must stay for a moment to get in step.
  static constexpr Duration kStayMax = 100_us;

  // The application posts; `unacknowledged`: WRITEs over UC, of which it hears nothing but that they left.
  void posted(bool unacknowledged) {
    if (waiting_) add(-1);
    waiting_ = false;
    posted_ = unacknowledged;
  }
  // Asked by a poll that has completions. True: stay, then say how it went.
  [[nodiscard]] bool stay() {
    if (!posted_) [[likely]]
      return false;
    posted_ = false;
    waiting_ = true;
    return score_ >= kScoreToStay;
  }
  void stayed(bool received) {
    waiting_ = waiting_ && !received;
    add(received ? 1 : -2);
  }
  // The progress thread received something.
  void thread_received() {
    if (waiting_) add(1);
    waiting_ = false;
  }

 private:
  static constexpr int kScoreMax = 8, kScoreToStay = 2;
  void add(int points) { score_ = std::clamp(score_ + points, -kScoreMax, kScoreMax); }

  bool posted_ = false;   // and not polled since
  bool waiting_ = false;  // polled since, and nothing came
  int score_ = 0;
};

}  // namespace brdma::io
