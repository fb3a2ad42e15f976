// io/poll/stay_for_message.h - is it worth staying in a poll that already has its completion, while a message of the
// peer is still arriving? Pure: told what happens, receives nothing.
//
// A program that plays ping-pong by long WRITEs (ib_write_lat) polls until its own is complete and then spins on its
// memory. The peer's reply is on its way by then: what acknowledges the one comes with the first packets of the other.
// Nobody receives the rest but the parked progress thread, which has to find that out and then shares a core with the
// program that spins. A poll that stays until the message is whole receives it all. (Shorter replies carry the
// acknowledgement in their last packets: QueuePair::acknowledgement_waits.)
//
// The price, where the program would rather go on, is a completion that comes when the message has; a program that
// computes meanwhile is not told from one that spins on its memory. So the past decides, by a score in [-8, 8]: the
// thread had to receive after such a poll +1; the program called before it had to -2. The poll stays from 2 on, but for
// each 64th time, so that a program that has changed its ways is noticed. It is asked only where nothing of the
// program's own is under way: who keeps several requests under way never stays.
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
  // The queue pair whose WRITE a poll that has completions may be about, once; null: none, as after forget().
  [[nodiscard]] const QueuePair* take_posted() {
    const QueuePair* const qp = posted_;
    posted_ = nullptr;
    return qp;
  }
  // Queue pairs may go away.
  void forget() { posted_ = nullptr; }
  // Such a poll finds a message in the midst of arriving. True: stay.
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

  const QueuePair* posted_ = nullptr;  // and not polled well since
  bool waiting_ = false;               // polled well since, and neither the program nor the thread came back
  int score_ = 0;
  std::uint32_t asked_ = 0;
};

}  // namespace brdma::io
