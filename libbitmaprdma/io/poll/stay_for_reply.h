// io/poll/stay_for_reply.h - decides whether a poll that has its completion stays until the peer's reply comes. Pure:
// receives nothing.
//
// A ping-pong by WRITEs over UC (ib_write_lat -c UC) posts, polls its completion, which comes at once because UC has no
// acknowledgements, and spins on its memory. Then only the parked progress thread receives; it must first detect that,
// and needs a core. Over RC the completion comes with the peer's reply, so the same poll brings both
// (io/poll/ack_deferral.h). Staying in the poll for a moment does the same for UC.
//
// The cost without a reply is a poll that lasts `kStayMax` longer. So the past decides, by a score in [-8, 8]: a packet
// that the thread had to receive after such a poll, or that came while staying: +1; a post before any packet: -1;
// staying without a packet: -2. The poll stays from 2 on.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace brdma::io {

class StayForReply {
 public:
  // A reply for which the peer's thread must wake up takes some 40 us: both must stay for a moment to get in step.
  static constexpr Duration kStayMax = 100_us;

  // The application posts; `unacknowledged`: WRITEs over UC, which complete when they leave.
  void posted(bool unacknowledged) {
    if (waiting_) add(-1);
    waiting_ = false;
    posted_ = unacknowledged;
  }
  // Called by a poll that has completions. True: stay, then report the result.
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

  bool posted_ = false;   // no poll since
  bool waiting_ = false;  // a poll since, without a packet
  int score_ = 0;
};

}  // namespace brdma::io
