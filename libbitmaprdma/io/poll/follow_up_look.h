// io/poll/follow_up_look.h - decides whether a program that sleeps on completion channels looks at the socket once more
// after it has taken a packet. Pure: it receives nothing and reads no clock.
//
// A packet has woken such a program. It takes the packet, polls until nothing is left, and sleeps again; each of these
// looks at an empty socket is a system call. Packets wake the program, so the look is not needed: a packet that waits
// wakes it at once. Where packets do wait, looking is cheaper than being woken again. So the past decides: after
// kEmptyMin empty looks in a row the look is left out. A packet that had arrived before a look that was left out ends
// that. Of two looks in a row, one is made in any case. No look is left out where something may have been behind the
// packet, so a program that learns next of a disconnect has what its peer sent before.
//
//   on_packet()   a packet was taken; the next look follows it, if nothing was behind it
//   leaves_out()  before a look: true: it is not made
//   on_look()     a look was made
#pragma once

#include <optional>

#include "base/units.h"

namespace brdma::io {

class FollowUpLook {
 public:
  static constexpr unsigned kEmptyMin = 8;

  // `arrived`: at the socket; Instant{}: unknown, which counts as long ago. `last`: nothing was behind it.
  void on_packet(Instant arrived, bool last, Instant now) {
    if (left_out_ && arrived <= *left_out_) empty_ = 0;
    left_out_.reset();
    packet_ = last ? std::optional{now} : std::nullopt;
  }
  // `age_max`: of the last packet.
  [[nodiscard]] bool leaves_out(Instant now, Duration age_max) {
    if (empty_ < kEmptyMin || !packet_ || now - *packet_ > age_max) return false;
    packet_.reset();
    left_out_ = now;
    return true;
  }
  void on_look(bool found) {
    if (!packet_) return;
    packet_.reset();
    empty_ = found ? 0 : empty_ + 1;
  }

 private:
  std::optional<Instant> packet_;    // the last was taken; no look since
  std::optional<Instant> left_out_;  // a look; no packet since
  unsigned empty_ = 0;               // looks in a row
};

}  // namespace brdma::io
