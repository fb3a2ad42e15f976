#include "sim/host_core.h"

namespace brdma::sim {

HostCore::HostCore(const Stalls& stalls, std::uint64_t seed) : stalls_(stalls), random_(seed, "stalls") {
  if (stalls_.every > Duration{}) draw_stall();
}

// The next stall: some time after this one.
void HostCore::draw_stall() {
  const auto up_to = [this](Duration most) {
    return Duration::from_ns(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(most.ns()) + 1)));
  };
  stall_from_ = stall_until_ + up_to(stalls_.every * 2);
  stall_until_ = stall_from_ + up_to(stalls_.length_max) + kTick;
}

bool HostCore::is_away(Instant now) {
  while (stalls_.every > Duration{} && now >= stall_from_) {
    if (now < stall_until_) paused_until_ = std::max(paused_until_.value_or(stall_until_), stall_until_);
    draw_stall();
  }
  if (paused_until_ && now < *paused_until_) return true;
  paused_until_.reset();
  return false;
}

}  // namespace brdma::sim
