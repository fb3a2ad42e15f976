#include "congestion/window/delivered_rate.h"

#include <algorithm>

#include "congestion/scaled.h"

namespace brdma::congestion {

// Acknowledgements that come at once, after a host had no core, cover the time in which their packets were sent. A
// round with such a burst can only raise the known rate.
void DeliveredRate::measure(const WindowRound& round, Instant now, Duration rtt) {
  const bool stalled = is_stall(round.silences.longest, round.rtt + round.waited);
  const Duration received = now - round.start, sent = now - rtt - round.sent;
  const bool compressed = stalled ? sent > received : is_stall(sent, received);
  const std::uint64_t measured = scale(round.bytes, kNsPerSecond, ns(compressed ? sent : received));
  latest_ = stalled || round.interrupted ? std::max(latest_, measured) : measured;
  rounds_[next_++ % rounds_.size()] = scale(round.bytes, kNsPerSecond, ns(std::max(received, sent)));
}

void DeliveredRate::note_throughput(const WindowRound& round, Instant now, Duration rtt) {
  const Duration lasted = std::max(now - round.start, now - rtt - round.sent);
  throughput_ = std::max(throughput_ - throughput_ / 8, scale(round.bytes, kNsPerSecond, ns(lasted)));
}

std::uint64_t DeliveredRate::best() const { return *std::max_element(rounds_.begin(), rounds_.end()); }

Duration DeliveredRate::time_for(std::uint64_t bytes) const {
  const std::uint64_t rate = best();
  if (rate == 0) return {};
  return Duration::from_ns(static_cast<std::int64_t>(scale(bytes, kNsPerSecond, rate)));
}

}  // namespace brdma::congestion
