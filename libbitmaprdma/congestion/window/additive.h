// congestion/window/additive.h - private to the delay window: the additive part of the rule, which makes flows equal.
//
// It decreases with the queue that the round met: bytes * ((base + target) / (base + queue)) ^ 12. Many flows then add
// little more to a queue than a few. A loss while the queue stood above 3/4 of the target shows that the queue has no
// room for it. It is then left out for calm_rounds / 4 rounds, and comes back linearly over calm_rounds more.
//
// Pure; called by congestion/delay_window.cc.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace brdma::congestion {

struct AdditiveConfig {
  std::uint64_t bytes = 8 * 1024;
  std::uint64_t bytes_reported = 1024;  // while a switch's report of its queue is known
  int calm_rounds = 64;
};

class Additive {
 public:
  void on_loss() { lost_ = true; }
  // A round has ended in which the window adapts, and met `queued`. True: packets were lost in a queue with no room.
  bool on_round(Duration queued, Duration target);
  // `allowed`: base and target; `rtt`: the round's. Both on the path.
  [[nodiscard]] std::uint64_t bytes(Duration allowed, Duration rtt) const;
  [[nodiscard]] std::uint64_t bytes_reported() const { return returned(AdditiveConfig{}.bytes_reported); }

 private:
  [[nodiscard]] std::uint64_t returned(std::uint64_t bytes) const;

  bool lost_ = false;  // since the last such round
  int calm_ = 0;       // rounds until all of it is back
};

}  // namespace brdma::congestion
