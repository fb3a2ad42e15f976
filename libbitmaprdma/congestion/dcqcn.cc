#include "congestion/dcqcn.h"

#include <algorithm>

#include "base/check.h"

namespace brdma::congestion {
namespace {

constexpr unsigned kAlphaBits = 24;
// After so many periods without a CNP the rate is at its maximum, whatever its value was.
constexpr int kCatchUpMax = 20'000;

std::uint64_t times_fraction(std::uint64_t value, std::uint64_t fraction, unsigned bits) {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(value) * fraction >> bits);
}

}  // namespace

Dcqcn::Dcqcn(const DcqcnConfig& config, Bandwidth first_rate, Instant now)
    : config_(config),
      rate_(std::clamp(first_rate, config.rate_min, config.rate_max)),
      target_(rate_),
      alpha_from_(now),
      increase_from_(now) {
  BRDMA_CHECK(config.rate_min <= config.rate_max && config.g_shift < kAlphaBits);
  BRDMA_CHECK(config.alpha_period > Duration{} && config.increase_period > Duration{});
}

void Dcqcn::on_cnp(Instant now) {
  catch_up(now);
  target_ = rate_;
  const std::uint64_t kept = (std::uint64_t{2} << kAlphaBits) - alpha_;  // 2 - alpha
  rate_ = std::max(Bandwidth::from_bps(times_fraction(rate_.bps(), kept, kAlphaBits + 1)), config_.rate_min);
  alpha_ = alpha_ - (alpha_ >> config_.g_shift) + (1u << (kAlphaBits - config_.g_shift));
  alpha_ = std::min(alpha_, 1u << kAlphaBits);
  reduced_ = true;
  alpha_from_ = increase_from_ = now;
  bytes_ = 0;
  timer_count_ = byte_count_ = 0;
}

void Dcqcn::limit(Bandwidth rate, Instant now) {
  catch_up(now);
  if (rate >= rate_) return;
  rate_ = target_ = std::max(rate, config_.rate_min);
  reduced_ = true;
  increase_from_ = now;
  bytes_ = 0;
  timer_count_ = byte_count_ = 0;
}

void Dcqcn::on_sent(std::uint64_t bytes, Instant now) {
  catch_up(now);
  if (!reduced_) return;
  bytes_ += bytes;
  while (bytes_ >= config_.increase_bytes) {
    bytes_ -= config_.increase_bytes;
    ++byte_count_;
    increase();
  }
}

Bandwidth Dcqcn::rate(Instant now) {
  catch_up(now);
  return rate_;
}

std::optional<Instant> Dcqcn::next_change() const {
  if (!reduced_ || rate_ >= config_.rate_max) return std::nullopt;
  return increase_from_ + config_.increase_period;
}

void Dcqcn::catch_up(Instant now) {
  if (!reduced_) return;
  for (int i = 0; alpha_ > 0 && now - alpha_from_ >= config_.alpha_period && i < kCatchUpMax; ++i) {
    alpha_from_ = alpha_from_ + config_.alpha_period;
    alpha_ -= std::max(alpha_ >> config_.g_shift, 1u);
  }
  for (int i = 0; now - increase_from_ >= config_.increase_period && i < kCatchUpMax; ++i) {
    increase_from_ = increase_from_ + config_.increase_period;
    ++timer_count_;
    increase();
  }
  if (now - alpha_from_ >= config_.alpha_period) alpha_from_ = now;
  if (now - increase_from_ >= config_.increase_period) increase_from_ = now;
}

void Dcqcn::increase() {
  const std::uint32_t most = std::max(timer_count_, byte_count_), least = std::min(timer_count_, byte_count_);
  std::uint64_t target = target_.bps();
  if (least > config_.fast_recovery) {
    target += config_.hyper.bps() * (least - config_.fast_recovery);
  } else if (most > config_.fast_recovery) {
    target += config_.additive.bps();
  }
  target_ = std::min(Bandwidth::from_bps(target), config_.rate_max);
  rate_ = Bandwidth::from_bps((target_.bps() + rate_.bps()) / 2);
  // Half of the distance each time would never reach the last bit.
  if (target_.bps() - rate_.bps() <= 1) rate_ = target_;
}

bool CnpLimiter::on_marked(Instant now, Duration period) {
  if (last_ && now - *last_ < period) return false;
  last_ = now;
  return true;
}

}  // namespace brdma::congestion
