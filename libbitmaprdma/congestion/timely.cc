#include "congestion/timely.h"

#include <algorithm>

#include "base/check.h"

namespace brdma::congestion {

TimelyConfig TimelyConfig::for_path(Duration base_rtt, Bandwidth capacity) const {
  constexpr std::uint64_t kPaperRate = 10'000'000'000;
  TimelyConfig own = with_base(base_rtt);
  own.add = Bandwidth::from_bps(std::max<std::uint64_t>(
      static_cast<std::uint64_t>(static_cast<unsigned __int128>(add.bps()) * capacity.bps() / kPaperRate), 1));
  own.rate_max = capacity;
  return own;
}

TimelyConfig TimelyConfig::with_base(Duration base_rtt) const {
  TimelyConfig own = *this;
  own.low = low - min_rtt + base_rtt;
  own.high = high - min_rtt + base_rtt;
  own.min_rtt = base_rtt;
  return own;
}

Timely::Timely(const TimelyConfig& config, Bandwidth first_rate)
    : config_(config), rate_(std::clamp(first_rate, config.rate_min, config.rate_max)) {
  BRDMA_CHECK(config.min_rtt > Duration{} && config.low <= config.high && config.rate_min <= config.rate_max);
}

void Timely::on_rtt(Duration rtt) {
  if (rtt <= Duration{}) return;
  if (previous_ == Duration{}) previous_ = rtt;
  const std::int64_t difference = (rtt - previous_).ns();
  previous_ = rtt;
  difference_ns16_ += config_.alpha * difference - ((config_.alpha * difference_ns16_) >> 16);
  gradient_ = difference_ns16_ / config_.min_rtt.ns();
  if (rtt < config_.low) return grow(1);
  if (rtt > config_.high) {
    falling_ = 0;
    const std::int64_t high_part = (config_.high.ns() << 16) / rtt.ns();
    return scale_down((config_.beta * (kOne - high_part)) >> 16);
  }
  if (gradient_ > 0) {
    falling_ = 0;
    return scale_down((config_.beta * std::min(gradient_, kOne)) >> 16);
  }
  ++falling_;
  grow(falling_ >= config_.hyperactive_after ? config_.hyperactive_factor : 1);
}

void Timely::limit(Bandwidth rate, Instant /*now*/) {
  rate_ = std::max(std::min(rate, rate_), config_.rate_min);
  falling_ = 0;
}

void Timely::scale_down(std::int64_t by) {
  const auto kept = static_cast<unsigned __int128>(kOne - by);
  const auto next = static_cast<std::uint64_t>(static_cast<unsigned __int128>(rate_.bps()) * kept >> 16);
  rate_ = std::max(Bandwidth::from_bps(next), config_.rate_min);
}

void Timely::grow(std::uint32_t steps) {
  rate_ = std::min(Bandwidth::from_bps(rate_.bps() + config_.add.bps() * steps), config_.rate_max);
}

}  // namespace brdma::congestion
