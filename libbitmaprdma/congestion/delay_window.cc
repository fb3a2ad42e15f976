#include "congestion/delay_window.h"

#include <algorithm>

#include "base/check.h"

namespace brdma::congestion {
namespace {

constexpr Duration kNone{};

// value * numerator / denominator without overflow; all positive.
std::uint64_t scale(std::uint64_t value, std::uint64_t numerator, std::uint64_t denominator) {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 60;
  const auto result = static_cast<unsigned __int128>(value) * numerator / denominator;
  return result > kHuge ? kHuge : static_cast<std::uint64_t>(result);
}
std::uint64_t ns(Duration duration) { return static_cast<std::uint64_t>(duration.ns()); }

// What `bytes` in `took` amounts to in `time`.
std::uint64_t at_rate(std::uint64_t bytes, Duration took, Duration time) { return scale(bytes, ns(time), ns(took)); }

Duration smaller(Duration a, Duration b) { return a == kNone || (b != kNone && b < a) ? b : a; }

}  // namespace

DelayWindow::DelayWindow(const DelayWindowConfig& config)
    : config_(config), window_(config.initial_bytes), limit_(config.initial_bytes) {
  BRDMA_CHECK(config.min_bytes > 0 && config.min_bytes <= config.initial_bytes);
  BRDMA_CHECK(config.initial_bytes <= config.max_bytes);
}

Duration DelayWindow::base_rtt() const { return smaller(base_before_, base_now_); }

void DelayWindow::on_acknowledgement(std::uint64_t acked_bytes, Duration rtt, bool limited, Instant now) {
  rtt = std::max(rtt, kTick);
  note_rtt(rtt, now);
  if (!round_begun_) return begin_round(now);
  round_bytes_ += acked_bytes;
  round_limited_ = round_limited_ || limited;
  round_rtt_ = smaller(round_rtt_, rtt);
  if (phase_ != Phase::kDraining) limit_ = std::min(window_, limit_ + std::min(acked_bytes, window_));
  if (now - rtt >= round_start_ && now > round_start_) end_round(now);
}

void DelayWindow::note_rtt(Duration rtt, Instant now) {
  if (now - base_period_start_ > config_.base_rtt_period) {
    if (base_now_ != kNone) base_before_ = base_now_;
    base_now_ = kNone;
    base_period_start_ = now;
  }
  base_now_ = smaller(base_now_, rtt);
}

void DelayWindow::begin_round(Instant now) {
  round_begun_ = true;
  round_start_ = now;
  round_rtt_ = kNone;
  round_bytes_ = 0;
  round_flight_ = limit_;
  round_limited_ = false;
}

void DelayWindow::end_round(Instant now) {
  switch (phase_) {
    case Phase::kDraining:
      phase_ = Phase::kRefilling;
      break;
    case Phase::kRefilling:
      if (round_flight_ >= window_) phase_ = Phase::kSteady;
      break;
    case Phase::kStart:
    case Phase::kSteady: {
      if (!round_limited_) break;
      const Duration took = now - round_start_;
      adapt(took);
      if (phase_ != Phase::kSteady || !drain_is_due(now)) break;
      phase_ = Phase::kDraining;
      limit_ = std::clamp(at_rate(round_bytes_, took, base_rtt()) / 2, config_.min_bytes, limit_);
      break;
    }
  }
  begin_round(now);
}

void DelayWindow::adapt(Duration took) {
  if (round_bytes_ == 0) return;
  const Duration target = config_.target_queueing;
  const std::uint64_t wanted = at_rate(round_bytes_, took, base_rtt() + target) + config_.additive_bytes;
  std::uint64_t next = std::clamp(wanted, window_ - window_ / 4, window_ * 2);

  const bool delivered = round_bytes_ >= round_flight_ - round_flight_ / 4;  // else the queue drops, or the path is bad
  if (delivered && round_rtt_ - base_rtt() < target / 2) {
    next = std::max(next, phase_ == Phase::kStart ? window_ * 2 : window_ + window_ / 4);
  } else {
    phase_ = Phase::kSteady;
  }
  window_ = std::clamp(next, config_.min_bytes, config_.max_bytes);
  limit_ = std::min(limit_, window_);
}

bool DelayWindow::drain_is_due(Instant now) {
  Duration period = config_.drain_period;
  while (period < base_rtt() * 64) period = period * 2;
  const std::int64_t number = now.ns() / period.ns();
  const bool due = number != drain_number_ && drain_number_ >= 0;
  drain_number_ = number;
  return due;
}

void DelayWindow::on_timeout(Instant now) {
  window_ = std::max(config_.min_bytes, window_ / 2);
  limit_ = window_;
  phase_ = Phase::kSteady;
  if (round_begun_) begin_round(now);
}

}  // namespace brdma::congestion
