#include "congestion/delay_window.h"

#include <algorithm>

#include "base/check.h"

namespace brdma::congestion {
namespace {

// value * numerator / denominator without overflow, for positive durations.
std::uint64_t scale(std::uint64_t value, Duration numerator, Duration denominator) {
  const auto product = static_cast<unsigned __int128>(value) * static_cast<std::uint64_t>(numerator.ns());
  const auto result = product / static_cast<std::uint64_t>(denominator.ns());
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 62;
  return result > kHuge ? kHuge : static_cast<std::uint64_t>(result);
}

}  // namespace

DelayWindow::DelayWindow(const DelayWindowConfig& config) : config_(config), window_(config.initial_bytes) {
  BRDMA_CHECK(config.min_bytes > 0 && config.min_bytes <= config.initial_bytes);
  BRDMA_CHECK(config.initial_bytes <= config.max_bytes);
}

void DelayWindow::on_acknowledgement(std::uint64_t acked_bytes, Duration rtt, bool limited, Instant now) {
  rtt = std::max(rtt, kTick);
  const bool first = base_rtt_ == Duration{};
  note_base(rtt, now);
  if (first) {
    begin_round(now);
    return;
  }
  round_bytes_ += acked_bytes;
  round_limited_ = round_limited_ || limited;
  round_rtt_ = round_rtt_ == Duration{} ? rtt : std::min(round_rtt_, rtt);
  if (now - rtt >= round_start_ && now > round_start_) end_round(now);
}

void DelayWindow::note_base(Duration rtt, Instant now) {
  const bool near = base_rtt_ == Duration{} || rtt <= base_rtt_ + base_rtt_ / 8;
  if (near) base_seen_ = now;
  if (base_rtt_ == Duration{} || rtt < base_rtt_) base_rtt_ = rtt;
}

void DelayWindow::begin_round(Instant now) {
  round_start_ = now;
  round_rtt_ = Duration{};
  round_bytes_ = 0;
  round_limited_ = false;
}

void DelayWindow::end_round(Instant now) {
  const Duration took = now - round_start_;
  if (draining_) {  // packets of this round were sent into a drained path
    draining_ = false;
    base_rtt_ = round_rtt_;
    base_seen_ = now;
  } else if (round_limited_) {
    const std::uint64_t next = std::clamp(wanted(took), window_ - window_ / 4, window_ * 2);
    window_ = std::clamp(next, config_.min_bytes, config_.max_bytes);
    draining_ = now - base_seen_ > config_.base_rtt_period;
  }
  begin_round(now);
}

std::uint64_t DelayWindow::wanted(Duration took) const {
  if (round_bytes_ == 0) return 0;
  const Duration fill = Duration::from_ns(static_cast<std::int64_t>(
      scale(config_.target_queue_bytes, took, Duration::from_ns(static_cast<std::int64_t>(round_bytes_)))));
  const Duration target = std::clamp(fill, config_.target_queueing_min, config_.target_queueing);
  return scale(round_bytes_, base_rtt_ + target, took) + config_.additive_bytes;
}

void DelayWindow::on_timeout(Instant now) {
  window_ = std::max(config_.min_bytes, window_ / 2);
  draining_ = false;
  if (base_rtt_ != Duration{}) begin_round(now);
}

}  // namespace brdma::congestion
