// qp/timers/timer_lengths.h - private: how long a requester's timers are. When they started: retransmission_timers.h;
// what they do: timer_actions.h.
//
//   bitmap mode    probe (TLP) after max(250 us, 2 SRTT, 5/4 D) without anything; retransmission timeout (RTO) after
//                  max(1 ms, SRTT + 4 RTTVAR, 2 D) without progress, at most the queue pair's own timeout, or two of
//                  the path's shortest round trips if that is longer; doubling up to there, or to 200 ms if that is
//                  less; retry limit after retry_count + 1 of the longest of: the queue pair's timeout, four of it up
//                  to a second, two of those round trips. D: expected response time of the last packet in flight, by
//                  the path's rate. Neither is shorter than the longest recent round trip, with a margin
//   standard mode  RTO 4.096 us * 2^timeout without progress; retry limit after retry_count of them
//   IRN            a baseline: two fixed RTOs, no probe (Mittal et al., SIGCOMM 2018, section 3.1)
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"
#include "congestion/delay_window.h"
#include "qp/loss/scoreboard.h"
#include "qp/loss/sender_judge.h"
#include "qp/read/response_admission.h"
#include "qp/state/identity.h"
#include "qp/timers/retransmission_timers.h"
#include "recovery/rtt_estimator.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class TimerLengths {
 public:
  struct Parts {
    const Identity& id;
    const Scoreboard& scoreboard;
    const recovery::RttEstimator& rtt;
    const congestion::DelayWindow& congestion;
    const ResponseAdmission& responses;
    const RetransmissionTimers& timers;
    const SenderJudge* judge;  // nullptr: the sender does not judge losses
  };
  explicit TimerLengths(const Parts& parts) : parts_(parts) {}

  [[nodiscard]] bool follows_irn() const { return parts_.judge != nullptr && parts_.judge->irn(); }

  // RTO with its backoff, and the tail loss probe.
  [[nodiscard]] Duration retransmission() const;
  [[nodiscard]] Duration probe() const;
  // The RTO of plain RoCE: the queue pair's attribute.
  [[nodiscard]] Duration attribute() const {
    return Duration::from_ns(std::int64_t{4096} << parts_.id.attributes.timeout);
  }
  // When the first of RTO and probe is due. Precondition: bitmap mode, not IRN, no RTO has fired yet.
  [[nodiscard]] Instant first_due() const;

  // Replies to a link inquiry: as for a probe, and no longer than for a timeout.
  [[nodiscard]] Duration replies() const { return std::max(kRepliesMin, std::min(probe(), retransmission())); }

  // The window's base stands still, and packets beyond it arrive.
  [[nodiscard]] Duration stall() const;
  [[nodiscard]] Duration retry() const;  // one retry
  // The retry limit: all retries, and the first transmission.
  [[nodiscard]] Duration retries() const { return retry() * (std::int64_t{parts_.id.attributes.retry_count} + 1); }
  // The RTO towards a stopped peer. The packets waiting in its socket suffice for a response when it continues; four
  // more times after that.
  [[nodiscard]] Duration stopped() const;

 private:
  // An application that does not know the path's length may set less than a round trip.
  [[nodiscard]] Duration two_trips() const { return std::max(parts_.rtt.minimum(), parts_.congestion.base_rtt()) * 2; }
  // Packets in flight leave at the path's rate: time until the last of them is acknowledged.
  [[nodiscard]] Duration response_expected() const;
  [[nodiscard]] Duration retransmission(Duration expected) const;
  [[nodiscard]] Duration probe(Duration expected) const;

  // Before the first RTT sample the path is unknown.
  static constexpr Duration kFirstTimeout = 5_ms, kFirstProbe = 2_ms;
  static constexpr Duration kRepliesMin = 10_ms;
  static constexpr Duration kTimeoutMax = 1_s;  // if the attribute is "never"
  // Bitmap mode's timeouts double no further, so that a restored path is found soon: long timeouts (RDMA-CM's are 2 s)
  // are for outlasting an outage. A dead peer costs two packets in this time.
  static constexpr Duration kBackoffMax = 200_ms;

  Parts parts_;
};

// Inlined with its caller: each turn of a ping-pong computes it.
[[gnu::always_inline]] inline Duration TimerLengths::response_expected() const {
  return parts_.rtt.minimum() + parts_.congestion.time_for(parts_.scoreboard.flight().pipe) +
         parts_.responses.congestion().time_for(parts_.responses.bytes());
}

[[gnu::always_inline]] inline Duration TimerLengths::retransmission(Duration expected) const {
  const recovery::RttEstimator& rtt = parts_.rtt;
  const Duration shortest = parts_.id.recovery->retransmit_timeout_min;
  const Duration longest =
      std::max({parts_.id.attributes.timeout == 0 ? kTimeoutMax : attribute(), two_trips(), shortest});
  const Duration floor = std::max(rtt.has_sample() ? shortest : kFirstTimeout, expected * 2);
  const Duration first = rtt.retransmit_timeout(floor, longest, 0);
  if (parts_.timers.backoff() == 0) return first;
  const Duration ceiling = std::max(first, std::min(longest, std::max(kBackoffMax, two_trips())));
  return rtt.retransmit_timeout(floor, ceiling, parts_.timers.backoff());
}

[[gnu::always_inline]] inline Duration TimerLengths::probe(Duration expected) const {
  const Duration floor = parts_.rtt.has_sample() ? parts_.id.recovery->probe_timeout_min : kFirstProbe;
  return std::max(parts_.rtt.probe_timeout(floor), expected * 5 / 4);
}

[[gnu::always_inline]] inline Instant TimerLengths::first_due() const {
  const Duration expected = response_expected();
  const Instant timeout = parts_.timers.armed() + retransmission(expected);
  return parts_.timers.probe_sent() ? timeout : std::min(timeout, parts_.timers.activity() + probe(expected));
}

}  // namespace brdma::qp
