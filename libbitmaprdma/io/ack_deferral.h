// io/ack_deferral.h - is it worth holding an acknowledgement back until the application's next post? Pure: told the
// time, sends nothing.
//
// In a ping-pong the acknowledgement of the message just received can leave behind the reply in one GSO message. That
// saves a send in the critical path; and it keeps a peer that polls its memory in step: it sits in ibv_poll_cq until
// our acknowledgement comes, so our reply is received in the same call, and the peer, which then spins on memory
// without calling us, finds it there (ib_write_lat does just this).
// The price, when no post follows, is an acknowledgement that is late by `delay_max`, or, if nobody is there to send it
// in time, by up to a round of the parked progress thread. So the past decides: a hold-back that a post ended in time
// is a hit; one that ran out is a miss, after which the next ones (16, then twice as many for each miss in a row) are
// sent at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/units.h"

namespace brdma::io {

class AckDeferral {
 public:
  explicit AckDeferral(Duration delay_max) : delay_max_(delay_max) {}

  // Asked when only deferrable output is due. True: hold it back (until deadline()).
  [[nodiscard]] bool hold_back(Instant now) {
    if (holding_) return now < since_ + delay_max_;
    if (penalty_left_ > 0) {
      --penalty_left_;
      return false;
    }
    holding_ = true;
    since_ = now;
    return true;
  }
  // The application posted: whatever was held back leaves with its data.
  void posted(Instant now) {
    if (!holding_) return;
    if (now < since_ + delay_max_) {
      penalty_ = kPenaltyMin;
      holding_ = false;
    } else {
      missed();
    }
  }
  // What was held back left without data of the application's. `gained`: more output came up by itself that it joined,
  // so nothing was lost by waiting.
  void sent(bool gained) {
    if (!holding_) return;
    if (gained) {
      holding_ = false;
    } else {
      missed();
    }
  }
  [[nodiscard]] bool holding() const { return holding_; }
  // When what is held back must leave.
  [[nodiscard]] std::optional<Instant> deadline() const {
    return holding_ ? std::optional{since_ + delay_max_} : std::nullopt;
  }

 private:
  static constexpr std::uint32_t kPenaltyMin = 16, kPenaltyMax = 4096;
  void missed() {
    penalty_left_ = penalty_;
    penalty_ = std::min(penalty_ * 2, kPenaltyMax);
    holding_ = false;
  }

  Duration delay_max_;
  bool holding_ = false;
  Instant since_;
  std::uint32_t penalty_ = kPenaltyMin;  // after the next miss
  std::uint32_t penalty_left_ = 0;
};

}  // namespace brdma::io
