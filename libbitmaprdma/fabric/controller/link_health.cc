#include "fabric/controller/link_health.h"

#include <algorithm>
#include <array>

namespace brdma::fabric::controller {
namespace {

constexpr std::uint32_t kDownsMax = 16;
constexpr std::int64_t kDelayMin = 10'000;  // ns: minimum cost of a hop without delay
// Load rises a step above the first limit, and falls below the second. The cost in halves of the delay.
struct LoadStep {
  std::uint32_t above = 0, below = 0;
};
constexpr std::array<LoadStep, 3> kSteps{{{600, 500}, {800, 700}, {950, 850}}};
constexpr std::array<std::int64_t, 4> kHalves{2, 3, 4, 6};

// In thousandths of `whole`, without overflow for any input of a peer.
std::uint32_t share(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return 0;
  return static_cast<std::uint32_t>(
      std::min<unsigned __int128>(static_cast<unsigned __int128>(part) * 1000 / whole, 100'000));
}

}  // namespace

void LinkHealth::handle_report(const LinkReport& report, const LinkLimits& limits, Instant now, bool over_limits) {
  judge_up(report.up, limits, now);
  last_ = report;
  last_report_ = now;
  judge_congestion(limits.state, over_limits, now);
  judge_load();
}

Duration LinkHealth::up_after(const LinkLimits& limits) const {
  Duration wait = limits.up_after;
  for (std::uint32_t i = 1; i < downs_ && wait < limits.up_after_max; ++i) wait = wait * 2;
  return std::min(wait, limits.up_after_max);
}

void LinkHealth::judge_up(bool up, const LinkLimits& limits, Instant now) {
  if (!up) {
    const bool was_up = usable_ || up_since_;
    if (was_up) {
      // Soon: before it had been up for twice its wait.
      if (downed_ && now - *downed_ > up_after(limits) * 2 && usable_) downs_ = 0;
      downs_ = std::min(downs_ + 1, kDownsMax);
      downed_ = now;
    }
    up_since_.reset();
    version_ += usable_ ? 1 : 0;
    usable_ = false;
  } else if (!usable_ && !up_since_) {
    up_since_ = now;
  }
}

void LinkHealth::judge_congestion(const LinkStateLimits& limits, bool over_limits, Instant now) {
  const std::uint32_t queue = share(last_.queue, last_.queue_limit);
  const bool speed_known = last_.rate != 0 && last_.speed != 0;
  const std::uint32_t speed = speed_known ? share(last_.speed, last_.rate) : 1000;
  if (over_limits || queue >= limits.queue_high || speed < limits.speed_low) {
    version_ += congested_ ? 0 : 1;
    congested_ = true;
    calm_since_.reset();
  } else if (congested_ && queue <= limits.queue_low && speed >= limits.speed_high) {
    if (!calm_since_) calm_since_ = now;
  } else {
    calm_since_.reset();  // in between: as it was
  }
}

void LinkHealth::judge_load() {
  const std::uint32_t load = share(last_.load, last_.rate);
  const std::uint32_t before = load_step_;
  while (load_step_ < kSteps.size() && load > kSteps[load_step_].above) ++load_step_;
  while (load_step_ > 0 && load < kSteps[load_step_ - 1].below) --load_step_;
  version_ += load_step_ != before ? 1 : 0;
}

bool LinkHealth::handle_timeout(const LinkLimits& limits, Instant now) {
  const std::uint64_t before = version_;
  if (last_report_ && now >= *last_report_ + limits.age_max) {
    version_ += congested_ || load_step_ != 0 ? 1 : 0;
    congested_ = false;
    calm_since_.reset();
    load_step_ = 0;
    last_.load = last_.queue = 0;
    last_report_.reset();
  }
  if (calm_since_ && now >= *calm_since_ + limits.clear_after) {
    calm_since_.reset();
    congested_ = false;
    ++version_;
  }
  if (up_since_ && now >= *up_since_ + up_after(limits)) {
    up_since_.reset();
    usable_ = true;
    ++version_;
  }
  return version_ != before;
}

std::optional<Instant> LinkHealth::next_timeout(const LinkLimits& limits) const {
  std::optional<Instant> next;
  const auto consider = [&next](const std::optional<Instant>& since, Duration after) {
    if (since && (!next || *since + after < *next)) next = *since + after;
  };
  consider(last_report_, limits.age_max);
  consider(calm_since_, limits.clear_after);
  consider(up_since_, up_after(limits));
  return next;
}

Cost LinkHealth::cost(Duration delay) const {
  const Cost idle = cost_without_load(delay);
  return {idle.congested, idle.ns * kHalves[load_step_] / 2};
}

Cost LinkHealth::cost_without_load(Duration delay) const {
  return {congested_ ? 1u : 0u, std::max(delay.ns(), kDelayMin)};
}

}  // namespace brdma::fabric::controller
