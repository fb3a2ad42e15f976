#include "fabric/switch/rtt_increment.h"

#include <algorithm>
#include <array>

namespace brdma::fabric {
namespace {

// The fifth that e = Pe / P lies in, without a division.
constexpr std::uint8_t level_of(unsigned marked, unsigned window) {
  std::uint8_t level = 0;
  while (level < 4 && marked * 5 >= (level + 1u) * window) ++level;
  return level;
}
// D shifted right by so many bits, from level 1 on.
constexpr std::array<std::uint8_t, 5> kShiftOfLevel = {63, 3, 2, 1, 0};

constexpr bool steps(IncrementRule rule) {
  return rule == IncrementRule::kStepped || rule == IncrementRule::kProbabilistic;
}

// In parts per million.
constexpr std::int64_t linear(std::uint8_t level, std::uint8_t levels) {
  return 10'000 + std::int64_t{990'000} * (level - 1) / (levels - 1);
}

}  // namespace

Duration longest_delay(std::uint64_t buffer_bytes, std::uint32_t ports, Bandwidth port_rate) {
  return Bandwidth::from_bps(port_rate.bps() * ports).time_for(buffer_bytes);
}

bool count_alike(const IncrementConfig& a, const IncrementConfig& b) {
  if (steps(a.rule) != steps(b.rule)) return false;
  return steps(a.rule) ? a.levels == b.levels : a.window == b.window;
}

void MarkCounter::on_packet(bool marked, const IncrementConfig& config) {
  if (steps(config.rule)) {
    const int next = level_ + (marked ? 1 : -1);
    level_ = static_cast<std::uint8_t>(std::clamp<int>(next, 0, config.levels));
    return;
  }
  marked_ = static_cast<std::uint8_t>(marked_ + (marked ? 1 : 0));
  if (++packets_ < config.window) return;
  level_ = level_of(marked_, config.window);
  packets_ = marked_ = 0;
}

Duration MarkCounter::increment(const IncrementConfig& config) const {
  if (level_ == 0) return {};
  switch (config.rule) {
    case IncrementRule::kTable:
      return Duration::from_ns(config.longest.ns() >> kShiftOfLevel[level_]);
    case IncrementRule::kFixed:
      return config.longest;
    case IncrementRule::kStepped:
      return config.longest * linear(level_, config.levels) / 1'000'000;
    case IncrementRule::kProbabilistic:
      return config.longest * std::max<std::int64_t>(config.pmax_ppm, linear(level_, config.levels)) / 1'000'000;
  }
  return {};
}

}  // namespace brdma::fabric
