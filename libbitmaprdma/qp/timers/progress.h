// qp/timers/progress.h - private: the peer acknowledges, or has not for so long that it is reported to the operator
// (events stall_begun, stall_ended).
#pragma once

#include "base/units.h"
#include "qp/loss/scoreboard.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "qp/timers/retransmission_timers.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class Progress {
 public:
  static constexpr Duration kLongStall = 100_ms;  // longer than a busy machine delays a process

  Progress(Environment& env, const Identity& id, const Scoreboard& scoreboard, RetransmissionTimers& timers)
      : env_(env), id_(id), scoreboard_(scoreboard), timers_(timers) {}

  // An entry of the send window was newly acknowledged.
  [[gnu::always_inline]] void on_acknowledged(Instant now) const {
    timers_.on_progress(now);
    if (timers_.is_stalled()) [[unlikely]]
      end_stall(now);
  }
  // The RTO has fired.
  void on_timeout(Instant now) const {
    if (timers_.is_stalled() || now - timers_.progress() < kLongStall) return;
    timers_.begin_stall();
    env_.count(Counter::kStallsBegun);
    env_.note(now, id_.qpn, trace::EventType::kStallBegun, scoreboard_.base_psn().value());
  }
  void end_stall(Instant now) const {
    if (!timers_.is_stalled()) return;
    timers_.end_stall();
    env_.count(Counter::kStallsEnded);
    env_.note(now, id_.qpn, trace::EventType::kStallEnded, scoreboard_.base_psn().value());
  }

 private:
  Environment& env_;
  const Identity& id_;
  const Scoreboard& scoreboard_;
  RetransmissionTimers& timers_;
};

}  // namespace brdma::qp
