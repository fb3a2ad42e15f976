#include "congestion/window/crowding.h"

#include <utility>

#include "congestion/delay_window.h"

namespace brdma::congestion {
namespace {

constexpr CrowdingConfig kConfig;
constexpr DelayWindowConfig kWindow;

// In 1/16, rounded up.
std::uint64_t root_of(std::uint64_t value, std::uint64_t of) {
  const std::uint64_t square = (value << 8) / of;
  std::uint64_t root = 16;
  while (root * root < square) ++root;
  return root;
}

}  // namespace

std::uint64_t Crowding::least() const {
  if (crowded_) return kConfig.least_bytes;
  return least_ != 0 ? least_ : kWindow.min_bytes;
}

void Crowding::on_drained(bool emptied) {
  const int rounds = std::exchange(rounds_, 0), below = std::exchange(rounds_below_, 0);
  if (!emptied || below == 0 || below * kConfig.part_below < rounds) return;
  crowded_ = shared_ = true;
  free_ = 0;
}

void Crowding::on_round(Duration rtt, bool saw_queue, std::uint64_t next, Instant now) {
  const Duration differs = rtt > rtt_ ? rtt - rtt_ : rtt_ - rtt;
  constant_ = differs * kConfig.constant_part < rtt ? constant_ + 1 : 0;
  if (constant_ >= kConfig.constant_rounds) shared_ = false;
  rtt_ = rtt;
  ++rounds_;
  if (next < kWindow.min_bytes) ++rounds_below_;
  free_ = saw_queue ? 0 : free_ + 1;
  ++calm_;
  if (next >= kWindow.min_bytes) least_ = 0;
  if (free_ >= kConfig.free_rounds ||
      (calm_ >= kConfig.calm_rounds && next >= kConfig.large_bytes && now - lost_ > kConfig.calm_time))
    crowded_ = shared_ = false;
}

Duration Crowding::target(Duration target, std::uint64_t window) const {
  if (!crowded_ || window >= kWindow.min_bytes) return target;
  const std::uint64_t root = root_of(kWindow.min_bytes, std::max(window, kConfig.least_bytes));
  return target + target * static_cast<std::int64_t>(root - 16) / 32;
}

std::uint64_t Crowding::bound(std::uint64_t next, std::uint64_t window, std::uint64_t more) const {
  if (!crowded_) return next;
  const std::uint64_t quarter = (window - std::min(window, kWindow.min_bytes)) / 4;
  const std::uint64_t down = kConfig.step_bytes + quarter, up = kConfig.step_bytes + std::min(quarter, more);
  return std::clamp(next, window - std::min(window, down), window + up);
}

}  // namespace brdma::congestion
