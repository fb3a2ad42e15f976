// A window that leaves over a round trip instead of at once. On a long path the queue before the slowest link holds a
// small part of the data in flight. A window's worth of retransmissions at once, or the first window after a silence,
// would be dropped there. A window longer than the path, sent at once, fills and empties that queue within a round
// trip. The shortest RTT sample then shows no queue at all, so the window would grow.
//
// While the window doubles, its rate is twice the window a round trip. Then it is a sixteenth more than the recent
// delivered rate, to find free capacity. An excess shows two round trips later; by then an eighth of the path's content
// waits in its queue. While no queue shows, a millisecond's worth is added, up to a quarter in all. Late
// acknowledgements end a round that late on a busy host, and a path of 10 ms is then measured a tenth too low; with a
// sixteenth alone the rate would fall from round to round on a nearly empty path.
//
// A burst of a sixteenth of the window compensates for a late timer: on a busy host it is late by milliseconds.
#include <algorithm>

#include "qp/send/requester_impl.h"

namespace brdma::qp {
namespace {

constexpr std::uint64_t kBurstsPerWindow = 16;
constexpr std::uint64_t kRateMin = 1'000'000, kRateMax = std::uint64_t{1} << 40;  // bit/s
constexpr std::uint64_t kMoreMax = 4;                                             // divisor of the delivered rate
// The window grows only as far as these let it leave.
constexpr auto kMore = static_cast<std::uint64_t>(congestion::DelayWindowConfig{}.spread_more);
constexpr Duration kLate = congestion::DelayWindowConfig{}.spread_late;
// On paths from this length on a window is always spread: data that an application posts when a gap has closed, and
// everything behind it completed at once, would leave as one burst, which no queue in front of it holds.
constexpr Duration kSpreadFrom = 8_ms;
// On shorter paths, from this length on, only bursts are bounded: a host that gets its processor back after a while has
// a whole window to send at once, which overflows a queue that is shorter than the window. A quarter of the window
// leaves at once, the rest at twice the rate of the window.
constexpr Duration kBoundBurstsFrom = 1_ms;
constexpr std::uint64_t kBoundedBurstsPerWindow = 4;

std::uint64_t more_than(std::uint64_t delivered, Duration trip, const congestion::DelayWindow& congestion) {
  const std::uint64_t more = delivered / kMore;
  if (congestion.queue() >= congestion.queueing() / 2) return more;
  const auto late = static_cast<unsigned __int128>(delivered) * static_cast<std::uint64_t>(kLate.ns()) /
                    static_cast<std::uint64_t>(trip.ns());
  return std::min(delivered / kMoreMax, more + static_cast<std::uint64_t>(late));
}

}  // namespace

// Requested, or the path is long.
bool Requester::Impl::wants_spreading() const {
  const RecoveryConfig& config = *id.recovery;
  if (config.congestion.control != CongestionControl::kWindow)
    return config.congestion.control == CongestionControl::kPaced;
  const bool spreads = signals && signals->spread && signals->whole;
  return waits_for_delays(config.mode) || congestion.base_rtt() >= (spreads ? kSpreadFrom / 2 : kSpreadFrom);
}

bool Requester::Impl::wants_bounded_bursts() const {
  const bool bounded = signals && signals->spread;
  return id.recovery->congestion.control == CongestionControl::kWindow &&
         congestion.base_rtt() >= (bounded ? kBoundBurstsFrom / 2 : kBoundBurstsFrom);
}

void Requester::Impl::choose_spreading() {
  const RecoveryConfig& config = *id.recovery;
  const bool whole = wants_spreading(), wanted = whole || wants_bounded_bursts();
  congestion.set_spread(whole);
  if (signals) signals->whole = whole;
  if (wanted == (signals && signals->spread)) return;
  if (!wanted) {
    signals->spread.reset();
    return;
  }
  const congestion::PacerConfig pacer{.burst_bytes = config.congestion.burst_bytes,
                                      .interval = config.congestion.pace_interval};
  // The path is not known yet: its first window leaves at once.
  signals_made().spread.emplace(pacer, Bandwidth::from_bps(kRateMax));
  signals->whole = whole;
}

void Requester::Impl::spread_window(Instant now) {
  const bool whole = wants_spreading();
  if ((whole || wants_bounded_bursts()) != (signals && signals->spread) || (signals && signals->whole != whole))
      [[unlikely]]
    choose_spreading();
  const Duration trip = rtt.smoothed();
  if (!signals || !signals->spread || trip <= Duration{}) return;
  const auto second = static_cast<std::uint64_t>((1_s).ns());
  const auto window = static_cast<unsigned __int128>(limits().window_bytes()) * second /
                      static_cast<std::uint64_t>(trip.ns());  // bytes a second
  if (whole) congestion.set_spread(true);
  const std::uint64_t delivered = congestion.delivered();
  const bool doubles = !whole || congestion.starting() || delivered == 0;
  const unsigned __int128 bytes = doubles ? window * 2 : delivered + more_than(delivered, trip, congestion);
  const auto bits = static_cast<std::uint64_t>(std::min<unsigned __int128>(bytes * 8, kRateMax));
  signals->spread->set_burst(std::max<std::uint64_t>(
      id.recovery->congestion.burst_bytes, congestion.bytes() / (whole ? kBurstsPerWindow : kBoundedBurstsPerWindow)));
  signals->spread->set_rate(Bandwidth::from_bps(std::max(kRateMin, bits)), now);
}

}  // namespace brdma::qp
