#include "qp/loss/timer_lengths.h"

#include <algorithm>

namespace brdma::qp {
namespace {

// Before the first RTT sample the path is unknown.
constexpr Duration kFirstTimeout = 5_ms, kFirstProbe = 2_ms;
constexpr Duration kTimeoutMax = 1_s;  // if the attribute is "never"
constexpr std::int64_t kStallRtts = 4;
// The standard lets a local ACK timeout last up to four times its value (IBTA 9.7.6.1.3). The retry limit uses all of
// it: a process on a busy machine may well not run for half a second and still be alive. At most one second of it,
// though: long timeouts are chosen deliberately.
constexpr std::int64_t kTimeoutSlack = 4;
constexpr Duration kSlackMax = 1_s;
// Bitmap mode's timeouts double no further, so that a restored path is found soon: long timeouts (RDMA-CM's are 2 s)
// are for outlasting an outage. A dead peer costs two packets in this time.
constexpr Duration kBackoffMax = 200_ms;
// IRN: the short timeout with so few packets in flight that an unnecessary retransmission costs little, the long one
// otherwise. Neither backs off.
constexpr std::uint32_t kFewPackets = 3;

}  // namespace

Duration TimerLengths::response_expected() const {
  return parts_.rtt.minimum() + parts_.congestion.time_for(parts_.scoreboard.flight().pipe) +
         parts_.responses.congestion().time_for(parts_.responses.bytes());
}

Duration TimerLengths::retransmission() const {
  if (follows_irn()) [[unlikely]]
    return parts_.scoreboard.flight().packets <= kFewPackets ? parts_.judge->irn()->low : parts_.judge->irn()->high;
  return retransmission(response_expected());
}

Duration TimerLengths::retransmission(Duration expected) const {
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

Duration TimerLengths::probe(Duration expected) const {
  const Duration floor = parts_.rtt.has_sample() ? parts_.id.recovery->probe_timeout_min : kFirstProbe;
  return std::max(parts_.rtt.probe_timeout(floor), expected * 5 / 4);
}

Instant TimerLengths::first_due() const {
  const Duration expected = response_expected();
  const Instant timeout = parts_.timers.armed() + retransmission(expected);
  return parts_.timers.probe_sent() ? timeout : std::min(timeout, parts_.timers.activity() + probe(expected));
}

Duration TimerLengths::stall() const {
  return std::max(parts_.id.recovery->send_stall_min, parts_.rtt.smoothed() * kStallRtts);
}

Duration TimerLengths::retry() const {
  const Duration once = attribute();
  return parts_.id.bitmap_agreed ? std::max({once, std::min(once * kTimeoutSlack, kSlackMax), two_trips()}) : once;
}

Duration TimerLengths::stopped() const { return std::min(kBackoffMax, retries() / 4); }

}  // namespace brdma::qp
