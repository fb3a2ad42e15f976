#include "qp/send/sending_rate.h"

#include <algorithm>

#include "qp/read/response_pacing.h"

namespace brdma::qp {
namespace {

constexpr std::uint64_t kBurstsPerWindow = 16;
constexpr std::uint64_t kSecond = 1'000'000'000;                                  // ns
constexpr std::uint64_t kSpacedRateMin = 1000;                                    // bit/s
constexpr std::uint64_t kRateMin = 1'000'000, kRateMax = std::uint64_t{1} << 40;  // bit/s
constexpr std::uint64_t kMoreMax = 4;                                             // divisor of the delivered rate
// The window grows only as far as these let it leave.
constexpr auto kMore = static_cast<std::uint64_t>(congestion::DelayWindowConfig{}.spread_more);
constexpr Duration kLate = congestion::DelayWindowConfig{}.spread_late;
constexpr std::uint64_t kBoundedBurstsPerWindow = 4;

std::uint64_t more_than(std::uint64_t delivered, Duration trip, const congestion::DelayWindow& congestion) {
  const std::uint64_t more = delivered / kMore;
  if (congestion.queue() >= congestion.queueing() / 2) return more;
  const auto late = static_cast<unsigned __int128>(delivered) * static_cast<std::uint64_t>(kLate.ns()) /
                    static_cast<std::uint64_t>(trip.ns());
  return std::min(delivered / kMoreMax, more + static_cast<std::uint64_t>(late));
}

}  // namespace

void SendingRate::configure() const {
  const CongestionConfig& config = parts_.id.recovery->congestion;
  std::unique_ptr<CongestionState>& signals = parts_.signals;
  parts_.congestion.set_bounded(config.control == CongestionControl::kWindow ||
                                config.control == CongestionControl::kPaced);
  parts_.responses.set_bounded(!congestion::goes_by_round_trips(config.control));
  if (signals && signals->rate && signals->rate->config() == config) return;
  if (congestion::is_rate_control(config.control)) {
    made(signals).rate.emplace(config, parts_.env.active_qps);
  } else if (signals) {
    signals->rate.reset();
  }
  choose_response_pace(parts_.env, parts_.id, signals);
  choose_spreading();
}

void SendingRate::choose_spreading() const {
  const RecoveryConfig& config = *parts_.id.recovery;
  std::unique_ptr<CongestionState>& signals = parts_.signals;
  const bool whole = wants_spreading(), wanted = wants_rate();
  parts_.congestion.set_spread(whole);
  if (signals) signals->whole = whole;
  if (wanted == is_spread()) {
    if (wanted) signals->spread->set_interval(config.congestion.pace_interval);
    return;
  }
  if (!wanted) {
    signals->spread.reset();
    return;
  }
  const congestion::PacerConfig pacer{.burst_bytes = config.congestion.burst_bytes,
                                      .interval = config.congestion.pace_interval};
  // The path is not known yet: its first window leaves at once.
  made(signals).spread.emplace(pacer, Bandwidth::from_bps(kRateMax));
  signals->whole = whole;
}

void SendingRate::spread(std::uint64_t window, Instant now) const {
  congestion::DelayWindow& congestion = parts_.congestion;
  const bool whole = wants_spreading();
  if (wants_rate() != is_spread() || (parts_.signals && parts_.signals->whole != whole)) choose_spreading();
  const Duration trip = parts_.rtt.smoothed();
  if (!is_spread() || trip <= Duration{}) return;
  congestion::Pacer& pacer = *parts_.signals->spread;
  const auto rate = static_cast<unsigned __int128>(window) * kSecond / static_cast<std::uint64_t>(trip.ns());
  if (whole) congestion.set_spread(true);
  if (congestion.is_paced()) return space_packets(window, now);
  const std::uint64_t delivered = congestion.delivered();
  const bool doubles = !whole || congestion.starting() || delivered == 0;
  const unsigned __int128 bytes = doubles ? rate * 2 : delivered + more_than(delivered, trip, congestion);
  const auto bits = static_cast<std::uint64_t>(std::min<unsigned __int128>(bytes * 8, kRateMax));
  pacer.set_burst(std::max<std::uint64_t>(parts_.id.recovery->congestion.burst_bytes,
                                          congestion.bytes() / (whole ? kBurstsPerWindow : kBoundedBurstsPerWindow)));
  pacer.set_rate(Bandwidth::from_bps(std::max(kRateMin, bits)), now);
}

// One of many flows: no more than one packet at once.
void SendingRate::space_packets(std::uint64_t window, Instant now) const {
  const auto trip = static_cast<std::uint64_t>(std::max(parts_.congestion.latest_rtt(), kTick).ns());
  const auto bits = static_cast<unsigned __int128>(window) * 8 * kSecond / trip;
  parts_.signals->spread->set_burst(1);
  parts_.signals->spread->set_rate(
      Bandwidth::from_bps(std::clamp(static_cast<std::uint64_t>(std::min<unsigned __int128>(bits, kRateMax)),
                                     kSpacedRateMin, kRateMax)),
      now);
}

}  // namespace brdma::qp
