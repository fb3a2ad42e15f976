// io/poll/stay_for_message.h - decides whether a poll that has its completion stays while a message of the peer is
// still arriving. Pure: receives nothing.
//
// A ping-pong by long WRITEs (ib_write_lat) polls until its own WRITE is complete and then spins on its memory. The
// peer's reply is arriving by then: its first packets carry the acknowledgement. Only the parked progress thread could
// receive the rest; it must first detect that, and then shares a core with the spinning program. A poll that stays
// until the message is complete receives it all. (Shorter replies carry the acknowledgement in their last packets:
// QueuePair::acknowledgement_waits.)
//
// The cost, for a program with other work, is a completion that comes as late as the message. A program that computes
// meanwhile cannot be distinguished from one that spins on its memory. So the past decides, by a score in [-8, 8]: the
// thread had to receive after such a poll: +1; the program called before: -2. The poll stays from 2 on, except each
// 64th time, so that a change of the program is noticed. Only polls without own requests in flight are considered: a
// program that keeps several requests in flight never stays.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace brdma {
class QueuePair;
}

namespace brdma::io {

class StayForMessage {
 public:
  static constexpr Duration kSilenceMax = 5_ms;  // without a packet; a peer that has lost its core is back by then
  static constexpr Duration kStayMax = 20_ms;    // in one call

  // The application posts a WRITE over `qp`; null: something else.
  void posted(const QueuePair* qp) {
    called();
    posted_ = qp;
  }
  // The application polls.
  void called() {
    if (!waiting_) [[likely]]
      return;
    waiting_ = false;
    add(-2);
  }
  // The queue pair whose WRITE a poll with completions may complete, once; null: none, as after forget().
  [[nodiscard]] const QueuePair* take_posted() {
    const QueuePair* const qp = posted_;
    posted_ = nullptr;
    return qp;
  }
  // Queue pairs may be destroyed.
  void forget() { posted_ = nullptr; }
  // Such a poll finds a partly arrived message. True: stay.
  [[nodiscard]] bool stay() {
    const bool stays = score_ >= kScoreToStay && ++asked_ % kAskAnew != 0;
    waiting_ = !stays;
    return stays;
  }
  // The progress thread received something.
  void thread_received() {
    if (!waiting_) return;
    waiting_ = false;
    add(1);
  }

 private:
  static constexpr int kScoreMax = 8, kScoreToStay = 2;
  static constexpr std::uint32_t kAskAnew = 64;
  void add(int points) { score_ = std::clamp(score_ + points, -kScoreMax, kScoreMax); }

  const QueuePair* posted_ = nullptr;  // no poll with completions since
  bool waiting_ = false;               // such a poll came since, and neither the program nor the thread came back
  int score_ = 0;
  std::uint32_t asked_ = 0;
};

}  // namespace brdma::io
