#include "recovery/tolerance.h"

#include <algorithm>

namespace brdma::recovery {
namespace {

// Part of the distance that a period goes down, rounded up: the reference is reached, not only approached.
constexpr int kDownPart = 8;

template <class T>
T towards(T from, T to, T smallest) {
  return from <= to ? from : from - std::max((from - to) / kDownPart, std::min(from - to, smallest));
}

}  // namespace

Tolerance::Tolerance(const ToleranceConfig& config) : config_(config), limits_(config.reference) {
  config_.depth_ceiling = std::max(config_.depth_ceiling, config_.reference.depth_max);
}

void Tolerance::configure(const ToleranceConfig& config) {
  const GapLimits before = config_.reference;
  config_ = config;
  const GapLimits& floor = config_.reference;
  config_.depth_ceiling = std::max(config_.depth_ceiling, floor.depth_max);
  const auto moved = [this](auto learnt, auto old_floor, auto new_floor, auto ceiling) {
    if (!config_.adaptive || learnt <= old_floor) return new_floor;
    return std::clamp(learnt, new_floor, std::max(new_floor, ceiling));
  };
  limits_.depth_max = moved(limits_.depth_max, before.depth_max, floor.depth_max, config_.depth_ceiling);
  limits_.age_max = moved(limits_.age_max, before.age_max, floor.age_max, config_.time_ceiling);
  limits_.stall_max = moved(limits_.stall_max, before.stall_max, floor.stall_max, config_.time_ceiling);
  limits_.stall_packets = moved(limits_.stall_packets, before.stall_packets, floor.stall_packets,
                                floor.stall_packets == 0 ? 0u : config_.depth_ceiling);
}

bool Tolerance::came_late(const Lateness& lateness, Instant now, Duration repair) {
  if (!config_.adaptive) return false;
  elapse(now);
  const Duration set = config_.time_ceiling, ceiling = set == Duration{} ? set : std::max(set, repair);
  const std::uint32_t depth = std::min(lateness.depth, config_.depth_ceiling);
  const auto time_for = [ceiling](Duration late) {
    late = std::clamp(late, Duration{}, ceiling);
    return std::min(late + late / 4, ceiling);
  };
  const Need need{.depth = std::min(depth + (depth + 3) / 4, config_.depth_ceiling),
                  .age = time_for(lateness.age),
                  .stall = time_for(std::max(lateness.age, lateness.stall))};
  now_ = larger(now_, need);
  return raise(need);
}

void Tolerance::elapse(Instant now) {
  if (!config_.adaptive || (period_begun_ && now < period_end_)) return;
  if (!period_begun_) {
    period_begun_ = true;
    period_end_ = now + config_.period;
    return;
  }
  // Several periods may have passed without a call; more than are needed to come down are not counted.
  constexpr int kPeriodsMax = 64;
  for (int i = 0; i < kPeriodsMax && now >= period_end_; ++i) {
    lower(larger(before_, now_));
    before_ = now_;
    now_ = Need{};
    period_end_ = period_end_ + config_.period;
  }
  if (now >= period_end_) period_end_ = now + config_.period;
}

Tolerance::Need Tolerance::larger(const Need& one, const Need& other) {
  return {std::max(one.depth, other.depth), std::max(one.age, other.age), std::max(one.stall, other.stall)};
}

// A stall in packets is no longer than the depth.
bool Tolerance::raise(const Need& need) {
  const GapLimits old = limits_;
  limits_.depth_max = std::max(limits_.depth_max, need.depth);
  limits_.age_max = std::max(limits_.age_max, need.age);
  limits_.stall_max = std::max(limits_.stall_max, need.stall);
  if (limits_.stall_packets != 0) limits_.stall_packets = std::max(limits_.stall_packets, need.depth);
  return limits_ != old;
}

void Tolerance::lower(const Need& need) {
  const GapLimits& floor = config_.reference;
  limits_.depth_max = towards(limits_.depth_max, std::max(floor.depth_max, need.depth), 1u);
  limits_.age_max = towards(limits_.age_max, std::max(floor.age_max, need.age), 1_us);
  limits_.stall_max = towards(limits_.stall_max, std::max(floor.stall_max, need.stall), 1_us);
  if (floor.stall_packets != 0)
    limits_.stall_packets = towards(limits_.stall_packets, std::max(floor.stall_packets, need.depth), 1u);
}

}  // namespace brdma::recovery
