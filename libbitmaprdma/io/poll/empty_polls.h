// io/poll/empty_polls.h - decides whether an empty poll checks the socket again before it returns. Pure: receives
// nothing.
//
// A packet that comes between two checks waits for the second one, and the end of one call and the start of the next
// lie between them. A program that only polls for its reply gets it sooner if a call checks several times. A program
// that works between its polls would get it later. So a poll checks again only if the call before, also empty, ended
// less than `kAtOnceMax` ago. It does not after delivered completions without a post since: a program that polls for
// more may post once there are none.
#pragma once

#include "base/units.h"

namespace brdma::io {

class EmptyPolls {
 public:
  static constexpr Duration kAtOnceMax = 500_ns;
  // The maximum of Intake::looks_max() checks takes less; no deadline falls into it.
  static constexpr Duration kLastsMax = 8_us;

  // A poll returned completions.
  void delivered() { delivered_ = between_ = true; }
  // The program posted.
  void posted() {
    delivered_ = false;
    between_ = true;
  }
  // A poll has found nothing yet. True: check again.
  [[nodiscard]] bool look_again(Instant now) {
    // The interval before a poll that returned the reply does not count.
    if (!between_) at_once_ = now - ended_ < kAtOnceMax;
    const bool again = at_once_ && !delivered_;
    delivered_ = between_ = false;
    return again;
  }
  // It returns empty.
  void ended(Instant now) { ended_ = now; }

 private:
  Instant ended_;         // of the last poll
  bool at_once_ = false;  // the program polls in a loop and does little else in it
  bool delivered_ = false, between_ = false;
};

}  // namespace brdma::io
