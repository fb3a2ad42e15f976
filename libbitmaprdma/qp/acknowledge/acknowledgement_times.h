// qp/acknowledge/acknowledgement_times.h - private: when an acknowledgement is due, with the settings of its queue pair
// and what is missing. While packets are missing, acknowledgements leave sooner.
#pragma once

#include <algorithm>

#include "base/config.h"
#include "base/transmit_interest.h"
#include "base/units.h"
#include "qp/acknowledge/acknowledgement_schedule.h"

namespace brdma::qp {

// A view of the responder's parts, made where it is needed. It is asked for each packet: all of it is inline.
class AcknowledgementTimes {
 public:
  static constexpr Duration kDelayOutOfOrder = 5_us;

  struct Parts {
    const AcknowledgementSchedule& schedule;
    const RecoveryConfig& recovery;
    bool missing;     // packets have come beyond the base
    bool in_message;  // the application cannot reply yet
  };
  // Member by member: a copy of all together is kept in memory.
  [[gnu::always_inline]] explicit AcknowledgementTimes(const Parts& parts)
      : schedule_(parts.schedule), recovery_(parts.recovery), missing_(parts.missing), in_message_(parts.in_message) {}

  // The longest wait for more packets to cover.
  [[nodiscard, gnu::always_inline]] Duration delay() const {
    return missing_ ? std::min(recovery_.ack_delay, kDelayOutOfOrder) : recovery_.ack_delay;
  }
  [[nodiscard, gnu::always_inline]] bool due(Instant now) const {
    return schedule_.pending() && schedule_.due(delay(), recovery_.ack_packets, now);
  }
  // It may wait for data up to so many times the delay. The peer waits for it, and so it may be due; but all its
  // packets are here, and the application may be about to reply.
  [[nodiscard, gnu::always_inline]] bool deferrable(int delays, Instant now) const {
    return !in_message_ && schedule_.pending() && schedule_.deferrable(delay() * delays, recovery_.ack_packets, now);
  }
  // Nothing before it is due; then it is deferrable for as long as a reply may come.
  [[nodiscard, gnu::always_inline]] TransmitInterest interest(Instant now) const {
    if (!due(now)) return TransmitInterest::kNone;
    return deferrable(1, now) ? TransmitInterest::kDeferrable : TransmitInterest::kForced;
  }
  [[nodiscard, gnu::always_inline]] Instant deadline() const { return schedule_.deadline(delay()); }

 private:
  const AcknowledgementSchedule& schedule_;
  const RecoveryConfig& recovery_;
  bool missing_, in_message_;
};

}  // namespace brdma::qp
