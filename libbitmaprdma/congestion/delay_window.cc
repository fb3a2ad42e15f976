#include "congestion/delay_window.h"

#include <algorithm>

#include "base/check.h"

namespace brdma::congestion {
namespace {

constexpr Duration kNone{};
constexpr Duration kSilenceHalfLife = Duration::from_ns(1 << 27);  // 134 ms
constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

// value * numerator / denominator without overflow; all positive.
std::uint64_t scale(std::uint64_t value, std::uint64_t numerator, std::uint64_t denominator) {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 60;
  const auto result = static_cast<unsigned __int128>(value) * numerator / denominator;
  return result > kHuge ? kHuge : static_cast<std::uint64_t>(result);
}
std::uint64_t ns(Duration duration) { return static_cast<std::uint64_t>(duration.ns()); }

// A window smaller than the path is answered once a round trip, all at once; longer than that nothing comes only when
// somebody on the way has no core.
bool is_stall(Duration silence, Duration rtt) { return silence * 4 > rtt * 5; }

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
  note_silence(limited, now);
  rtt_ = rtt;
  if (!round_begun_) return begin_round(now, rtt);
  round_bytes_ += acked_bytes;
  round_limited_ = round_limited_ || limited;
  round_rtt_ = smaller(round_rtt_, rtt);
  // A queue forms long before the round ends that will say so: growing meanwhile would make it overflow. (On a path
  // that is much longer than the target, bursts alone make such a queue.)
  const bool queue_forms = phase_ == Phase::kStart && base_rtt() <= config_.target_queueing * 4 &&
                           rtt - base_rtt() >= config_.target_queueing / 2;
  if (phase_ != Phase::kDraining && !queue_forms) limit_ = std::min(window_, limit_ + std::min(acked_bytes, window_));
  if (now - rtt >= round_start_ && now > round_start_) end_round(now, rtt);
}

// How long nothing came although the window was full: then somebody on the way had no core.
void DelayWindow::note_silence(bool limited, Instant now) {
  const Duration silence = limited && round_begun_ ? now - acknowledged_ : kNone;
  acknowledged_ = now;
  round_silence_ = std::max(round_silence_, silence);
  while (now - silence_at_ > kSilenceHalfLife && silence_ > kNone) {
    silence_ = silence_ / 2;
    silence_at_ = silence_at_ + kSilenceHalfLife;
  }
  if (silence < silence_ || !is_stall(silence, rtt_) || phase_ > Phase::kSteady) return;
  silence_ = silence;
  silence_at_ = now;
}

// A queue that covers the silences of late, but not more than the switches can be expected to have room for.
Duration DelayWindow::queueing() const {
  return std::max(config_.target_queueing,
                  std::min({silence_, time_for(config_.silence_bytes_max), config_.silence_max}));
}

Duration DelayWindow::time_for(std::uint64_t bytes) const {
  const std::uint64_t rate = best_rate();
  if (rate == 0) return kNone;
  return Duration::from_ns(static_cast<std::int64_t>(scale(bytes, kNsPerSecond, rate)));
}

std::uint64_t DelayWindow::best_rate() const { return *std::max_element(rates_.begin(), rates_.end()); }

// From half a round trip of silence on, what the path would have delivered since.
std::uint64_t DelayWindow::bridge_bytes(Instant now) const {
  const Duration silence = now - acknowledged_ - rtt_ / 2;
  if (silence <= kNone) return 0;
  const Duration bridged = std::min(silence, config_.bridge_max);
  return std::min(scale(best_rate(), ns(bridged), kNsPerSecond), config_.bridge_bytes_max);
}

std::optional<Instant> DelayWindow::next_bridge(std::uint64_t bridged) const {
  const std::uint64_t step = scale(best_rate(), ns(config_.bridge_step), kNsPerSecond);
  const std::uint64_t wanted = bridged + std::clamp(step, config_.bridge_step_min, config_.bridge_step_max);
  const Duration at = time_for(wanted);
  if (at == kNone || at > config_.bridge_max || wanted > config_.bridge_bytes_max) return std::nullopt;
  return acknowledged_ + rtt_ / 2 + at + kTick;
}

void DelayWindow::note_rtt(Duration rtt, Instant now) {
  if (now - base_period_start_ > config_.base_rtt_period) {
    if (base_now_ != kNone) base_before_ = base_now_;
    base_now_ = kNone;
    base_period_start_ = now;
  }
  base_now_ = smaller(base_now_, rtt);
}

void DelayWindow::begin_round(Instant now, Duration rtt) {
  round_begun_ = true;
  round_start_ = now;
  round_sent_ = now - rtt;
  round_silence_ = kNone;
  round_rtt_ = kNone;
  round_bytes_ = 0;
  round_flight_ = limit_;
  round_limited_ = false;
}

void DelayWindow::end_round(Instant now, Duration rtt) {
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
      measure_rate(now, rtt);
      adapt();
      if (phase_ != Phase::kSteady || !drain_is_due(now)) break;
      phase_ = Phase::kDraining;
      limit_ = std::clamp(scale(rate_, ns(base_rtt()), kNsPerSecond) / 2, config_.min_bytes, limit_);
      break;
    }
  }
  begin_round(now, rtt);
}

// Of the round that ends. Acknowledgements that come all at once, after somebody had no core, tell of the time in which
// their packets were sent; and a round in which that happened can only show that the path is faster than was known.
void DelayWindow::measure_rate(Instant now, Duration rtt) {
  const bool stalled = is_stall(round_silence_, round_rtt_);
  const Duration received = now - round_start_, sent = now - rtt - round_sent_;
  const bool compressed = stalled ? sent > received : is_stall(sent, received);
  const std::uint64_t measured = scale(round_bytes_, kNsPerSecond, ns(compressed ? sent : received));
  rate_ = stalled ? std::max(rate_, measured) : measured;
  rates_[rates_next_++ % rates_.size()] = scale(round_bytes_, kNsPerSecond, ns(std::max(received, sent)));
}

void DelayWindow::adapt() {
  if (round_bytes_ == 0) return;
  if (phase_ == Phase::kStart) window_ = limit_;  // what a queue kept from growing was never tried
  const Duration target = phase_ == Phase::kStart ? config_.target_queueing : queueing();
  const std::uint64_t wanted = scale(rate_, ns(base_rtt() + target), kNsPerSecond) + config_.additive_bytes;
  std::uint64_t next = std::clamp(wanted, window_ - window_ / 4, window_ * 2);

  if (round_bytes_ < round_flight_ - round_flight_ / 8) silence_ = silence_ / 2;
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

void DelayWindow::shift_base(Duration by) {
  for (Duration* smallest : {&base_before_, &base_now_, &round_rtt_}) {
    if (*smallest != kNone) *smallest = std::max(*smallest + by, kTick);
  }
}

void DelayWindow::on_timeout() {
  window_ = std::max(config_.min_bytes, window_ / 2);
  limit_ = window_;
  phase_ = Phase::kSteady;
  round_begun_ = false;
}

}  // namespace brdma::congestion
