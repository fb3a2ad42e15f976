// io/poll/empty_polls.h - may a poll that has found nothing look again before it returns? Pure: told what happens,
// looks at nothing.
//
// A packet that comes between two looks at the socket waits for the second one, and to end a call and begin another
// keeps them apart. Who does nothing but poll until his reply is there has it sooner if a call looks several times. Who
// does other work between his polls would have it later; so a poll looks again only where the call before, as vain, had
// ended less than `kAtOnceMax` ago, and not where completions were delivered and nothing posted since: who asks whether
// there are more may post once there are none.
#pragma once

#include "base/units.h"

namespace brdma::io {

class EmptyPolls {
 public:
  static constexpr Duration kAtOnceMax = 500_ns;
  // To look as often as Intake::looks_max() says takes less; no deadline falls into it.
  static constexpr Duration kLastsMax = 8_us;

  // A poll had completions.
  void delivered() { delivered_ = between_ = true; }
  // The program posted.
  void posted() {
    delivered_ = false;
    between_ = true;
  }
  // A poll has found nothing yet. True: look again.
  [[nodiscard]] bool look_again(Instant now) {
    // What lies between two polls of which one had the reply says nothing of those that wait for one.
    if (!between_) at_once_ = now - ended_ < kAtOnceMax;
    const bool again = at_once_ && !delivered_;
    delivered_ = between_ = false;
    return again;
  }
  // It returns with nothing.
  void ended(Instant now) { ended_ = now; }

 private:
  Instant ended_;         // of the last one
  bool at_once_ = false;  // the program polls in a loop and does little else in it
  bool delivered_ = false, between_ = false;
};

}  // namespace brdma::io
