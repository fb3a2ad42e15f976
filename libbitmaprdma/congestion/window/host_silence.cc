#include "congestion/window/host_silence.h"

#include "congestion/delay_window.h"
#include "congestion/scaled.h"

namespace brdma::congestion {
namespace {

constexpr DelayWindowConfig kConfig;
constexpr Duration kHalfLife = Duration::from_ns(1 << 27);  // 134 ms

}  // namespace

Duration HostSilence::on_acknowledgement(bool full, Instant now) {
  const Duration silence = full ? now - acknowledged_ : Duration{};
  acknowledged_ = now;
  while (now - longest_at_ > kHalfLife && longest_ > Duration{}) {
    longest_ = longest_ / 2;
    longest_at_ = longest_at_ + kHalfLife;
  }
  return silence;
}

void HostSilence::note(Duration silence, Instant now) {
  if (silence < longest_) return;
  longest_ = silence;
  longest_at_ = now;
}

bool HostSilence::was_absent(Duration base_rtt, Instant now) const {
  return absent_at_ && now - *absent_at_ < std::max(kConfig.absent_time, base_rtt * kConfig.absent_rounds);
}

// From half a round trip of silence on: the bytes the path would have delivered since.
std::uint64_t HostSilence::bridge_bytes(const DeliveredRate& rate, Duration rtt, Instant now) const {
  const Duration silence = now - acknowledged_ - rtt / 2;
  if (silence <= Duration{}) return 0;
  return std::min(bytes_in(rate.best(), std::min(silence, kConfig.bridge_max)), kConfig.bridge_bytes_max);
}

std::optional<Instant> HostSilence::next_bridge(const DeliveredRate& rate, Duration rtt, std::uint64_t bridged) const {
  const std::uint64_t step = bytes_in(rate.best(), kConfig.bridge_step);
  const std::uint64_t wanted = bridged + std::clamp(step, kConfig.bridge_step_min, kConfig.bridge_step_max);
  const Duration at = rate.time_for(wanted);
  if (at == Duration{} || at > kConfig.bridge_max || wanted > kConfig.bridge_bytes_max) return std::nullopt;
  return acknowledged_ + rtt / 2 + at + kTick;
}

}  // namespace brdma::congestion
