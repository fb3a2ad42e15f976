// io/poll/park_interval.h - how long a parked progress thread sleeps until it looks again whether the program still
// calls. Pure: told what the looks found.
//
// A look costs a wake-up, and what comes while nobody calls waits for the next one. So the interval is a quarter of
// what it was each time when something had waited, and grows again while all is well: twofold, but only after some
// looks. A program that polls for a moment in each of its turns and then spins on its memory would else have made it
// long again by the time it has to be helped next.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace brdma::io {

class ParkInterval {
 public:
  ParkInterval(Duration least, Duration most) : least_(least), most_(most), interval_(most) {}

  [[nodiscard]] Duration interval() const { return interval_; }
  // The program has called since the last look.
  void present() {
    if (++looks_ % kLooks == 0) interval_ = std::min(interval_ * 2, most_);
  }
  // It was not, and packets had waited.
  void helped() {
    interval_ = std::max(interval_ / 4, least_);
    looks_ = 0;
  }
  // It may go to sleep at any moment.
  void alert() {
    interval_ = least_;
    looks_ = 0;
  }

 private:
  static constexpr unsigned kLooks = 4;
  Duration least_, most_, interval_;
  unsigned looks_ = 0;
};

}  // namespace brdma::io
