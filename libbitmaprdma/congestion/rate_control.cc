#include "congestion/rate_control.h"

#include <algorithm>

#include "base/check.h"
#include "congestion/scaled.h"

namespace brdma::congestion {
namespace {

Bandwidth mbps(std::uint32_t value) { return Bandwidth::from_bps(std::uint64_t{value} * 1'000'000); }
std::int64_t fraction(std::uint32_t permille) { return kOne * permille / 1000; }

std::uint32_t or_ports(std::uint32_t set_mbps, const CongestionConfig& config) {
  return set_mbps != 0 ? set_mbps : config.port_rate_mbps;
}

// Settings are judged one by one: where two of them contradict each other, the lower limit holds.
Bandwidth rate_max(const CongestionConfig& config) {
  return mbps(std::max(or_ports(config.rate_max_mbps, config), config.rate_min_mbps));
}

// The path's round trip replaces `min_rtt` later, where that is not set.
TimelyConfig timely_config(const CongestionConfig& config, Duration base_rtt) {
  TimelyConfig own;
  own.alpha = fraction(config.timely_alpha_permille);
  own.beta = fraction(config.timely_beta_permille);
  own.low = config.timely_low;
  own.high = std::max(config.timely_high, config.timely_low);
  own.add = mbps(config.timely_add_mbps);
  own.hyperactive_after = config.timely_hyper_after;
  own.hyperactive_factor = config.timely_hyper_factor;
  own.rate_min = mbps(config.rate_min_mbps);
  own.rate_max = rate_max(config);
  if (config.timely_min_rtt > Duration{}) {
    own.min_rtt = config.timely_min_rtt;
    return own;
  }
  return base_rtt > Duration{} ? own.with_base(base_rtt) : own;
}

DcqcnConfig dcqcn_config(const CongestionConfig& config) {
  return {.g_shift = config.dcqcn_g_shift,
          .alpha_period = config.dcqcn_alpha_period,
          .increase_period = config.dcqcn_increase_period,
          .increase_bytes = config.dcqcn_increase_bytes,
          .fast_recovery = config.dcqcn_fast_recovery,
          .additive = mbps(config.dcqcn_additive_mbps),
          .hyper = mbps(config.dcqcn_hyper_mbps),
          .rate_min = mbps(config.rate_min_mbps),
          .rate_max = rate_max(config)};
}

// Most of many queue pairs are idle: no share is smaller than this part.
constexpr std::uint32_t kShareMin = 16;

Bandwidth first_rate(const CongestionConfig& config, std::uint32_t flows) {
  Bandwidth first = mbps(or_ports(config.rate_first_mbps, config));
  if (config.control == CongestionControl::kTimely)
    first = Bandwidth::from_bps(first.bps() / std::min(flows + 1, kShareMin));
  return std::clamp(first, mbps(config.rate_min_mbps), rate_max(config));
}

}  // namespace

RateControl::RateControl(const CongestionConfig& config, std::uint32_t flows)
    : config_(config),
      pacer_({.burst_bytes = config.burst_bytes, .interval = config.pace_interval}, first_rate(config, flows)) {
  BRDMA_CHECK(is_rate_control(config.control));
  const Bandwidth first = first_rate(config, flows);
  if (config.control != CongestionControl::kDcqcn) timely_.emplace(timely_config(config, {}), first);
  if (config.control != CongestionControl::kTimely) dcqcn_.emplace(dcqcn_config(config), first, Instant{});
}

void RateControl::on_round_trip(Duration rtt, Duration base_rtt, Instant now) {
  if (!timely_) return;
  if (base_rtt != base_rtt_) {
    base_rtt_ = base_rtt;
    timely_->configure(timely_config(config_, base_rtt));
  }
  const Bandwidth in_use = wanted(now), before = timely_->rate();
  timely_->on_rtt(rtt);
  if (timely_->rate() < before && in_use < before) {  // by the same part
    const auto part = static_cast<unsigned __int128>(in_use.bps()) * timely_->rate().bps() / before.bps();
    timely_->limit(Bandwidth::from_bps(static_cast<std::uint64_t>(part)), now);
  }
  pacer_.set_rate(wanted(now), now);
}

bool RateControl::on_cnp(Instant now) {
  if (!dcqcn_) return false;
  dcqcn_->limit(wanted(now), now);
  dcqcn_->on_cnp(now);
  pacer_.set_rate(wanted(now), now);
  return true;
}

void RateControl::on_drops(std::uint64_t bytes, Duration rtt, Instant now) {
  const Bandwidth before = wanted(now);
  rtt = std::max(rtt, kTick);
  if (now - drops_from_ >= rtt) {
    drops_from_ = now;
    drops_floor_ = Bandwidth::from_bps(before.bps() / 2);
  }
  const auto lost = static_cast<unsigned __int128>(bytes) * 8 * kNsPerSecond / static_cast<std::uint64_t>(rtt.ns());
  const auto less = static_cast<std::uint64_t>(std::min<unsigned __int128>(lost, before.bps()));
  const Bandwidth after = std::max(Bandwidth::from_bps(before.bps() - less), drops_floor_);
  if (after >= before) return;
  if (timely_) timely_->limit(after, now);
  if (dcqcn_) dcqcn_->limit(after, now);
  pacer_.set_rate(wanted(now), now);
}

void RateControl::on_sent(std::uint64_t bytes, Instant now) {
  pacer_.spend(bytes);
  if (dcqcn_) dcqcn_->on_sent(bytes, now);
}

Bandwidth RateControl::wanted(Instant now) {
  if (!timely_) return dcqcn_->rate(now);
  return dcqcn_ ? std::min(timely_->rate(), dcqcn_->rate(now)) : timely_->rate();
}

std::uint64_t RateControl::allowance(Instant now) {
  if (const Bandwidth rate = wanted(now); rate != pacer_.rate()) pacer_.set_rate(rate, now);
  return pacer_.allowance(now);
}

}  // namespace brdma::congestion
