#include "qp/timers/timer_lengths.h"

namespace brdma::qp {
namespace {

constexpr std::int64_t kStallRtts = 4;
// The standard lets a local ACK timeout last up to four times its value (IBTA 9.7.6.1.3). The retry limit uses all of
// it: a process on a busy machine may well not run for half a second and still be alive. At most one second of it,
// though: long timeouts are chosen deliberately.
constexpr std::int64_t kTimeoutSlack = 4;
constexpr Duration kSlackMax = 1_s;
// IRN: the short timeout with so few packets in flight that an unnecessary retransmission costs little, the long one
// otherwise. Neither backs off.
constexpr std::uint32_t kFewPackets = 3;

}  // namespace

Duration TimerLengths::retransmission() const {
  if (follows_irn()) [[unlikely]]
    return parts_.scoreboard.flight().packets <= kFewPackets ? parts_.judge->irn()->low : parts_.judge->irn()->high;
  return retransmission(response_expected());
}

Duration TimerLengths::probe() const { return probe(response_expected()); }

Duration TimerLengths::stall() const {
  return std::max(parts_.id.recovery->send_stall_min, parts_.rtt.smoothed() * kStallRtts);
}

Duration TimerLengths::retry() const {
  const Duration once = attribute();
  return parts_.id.bitmap_agreed ? std::max({once, std::min(once * kTimeoutSlack, kSlackMax), two_trips()}) : once;
}

Duration TimerLengths::stopped() const { return std::min(kBackoffMax, retries() / 4); }

}  // namespace brdma::qp
