// io/poll/park_interval.h - how long a parked progress thread sleeps until it checks again whether the program still
// calls. Pure.
//
// A check costs a wake-up, and packets that come without calls wait for the next one. So the interval shrinks to a
// quarter each time packets had waited, and doubles again after some checks without. The delay covers a program that
// polls for a moment in each of its turns and then spins on its memory: else the interval would be long again at its
// next need.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace brdma::io {

class ParkInterval {
 public:
  ParkInterval(Duration least, Duration most) : least_(least), most_(most), interval_(most) {}

  [[nodiscard]] Duration interval() const { return interval_; }
  // The program has called since the last check.
  void present() {
    if (++looks_ % kLooks == 0) interval_ = std::min(interval_ * 2, most_);
  }
  // It had not, and packets had waited.
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
