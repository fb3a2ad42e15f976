#include "qp/paths/paths_receive.h"

#include <algorithm>

#include "qp/state/environment.h"

namespace brdma::qp {
namespace {

using bitmap::GapRecord;
using bitmap::GapState;

// The difference between paths counts as so many times the lateness of a single path: before it is known, and at least.
constexpr std::int64_t kAcrossTimes = 4;
// A path that has been silent for so long no longer delays any gap.
constexpr Duration kInUse = 10_ms;
// After a pause of this length that time restarts: no path has delivered recently.
constexpr Duration kPause = 1_ms;

recovery::ToleranceConfig within_a_path(const RecoveryConfig& config) {
  return {.reference = {.depth_max = 0, .age_max = config.age_max, .stall_max = config.stall_max},
          .adaptive = config.adaptive,
          .depth_ceiling = config.depth_ceiling,
          .time_ceiling = config.time_ceiling};
}

// Depth is no evidence across paths, so that only the ceiling bounds it.
recovery::ToleranceConfig across_paths(const RecoveryConfig& config) {
  const Duration age = config.age_max * kAcrossTimes, stall = config.stall_max * kAcrossTimes;
  return {
      .reference = {.depth_max = std::max(config.depth_ceiling, config.depth_max), .age_max = age, .stall_max = stall},
      .adaptive = config.adaptive,
      .depth_ceiling = config.depth_ceiling,
      .time_ceiling = std::max({config.time_ceiling, age, stall})};
}

}  // namespace

ReceivePaths::ReceivePaths(const RecoveryConfig& config, std::uint32_t count, bitmap::SegmentPool& pool, Instant now)
    : across_(across_paths(config)), busy_since_(now), last_arrival_(now) {
  paths_.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) paths_.emplace_back(within_a_path(config), window_shape(config), pool);
}

void ReceivePaths::configure(const RecoveryConfig& config) {
  across_.configure(across_paths(config));
  for (Path& path : paths_) path.within.configure(within_a_path(config));
}

void ReceivePaths::on_packet(std::uint8_t path, Instant now) {
  if (now - last_arrival_ > kPause) busy_since_ = now;
  last_arrival_ = now;
  if (path < paths_.size()) {
    paths_[path].last_arrival = now;
    ++paths_[path].packets;
  } else {
    strangers_ = true;
  }
}

void ReceivePaths::received(std::uint8_t path, Psn base, Psn first, std::uint32_t count) {
  if (path < paths_.size()) paths_[path].bitmap.receive(base, first, count);
}

void ReceivePaths::forget(Psn base, std::uint32_t count) {
  for (Path& path : paths_) path.bitmap.forget(base, count);
}

void ReceivePaths::clear() {
  for (Path& path : paths_) path.bitmap.clear();
  awaited_ = 0;
}

bool ReceivePaths::attribute(const wire::Bxth& header, Psn psn, bitmap::GapTable& gaps) {
  if (header.path >= paths_.size()) return false;
  const wire::BeforeOnPath before = header.before;
  if (before.distance != 0 && !header.retransmitted) {
    const Psn last = psn - before.distance;
    if (gaps.attribute(last - (before.run - 1u), before.run, header.path)) {
      awaited_ |= 1u << header.path;
      return true;
    }
  }
  if ((awaited_ >> header.path & 1) == 0) return false;
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    const GapRecord& gap = gaps[i];
    if (gap.state == GapState::kWaiting && gap.path_known && gap.path == header.path) return true;
  }
  awaited_ &= ~(1u << header.path);
  return false;
}

bool ReceivePaths::in_use(const Path& path, Instant now) const {
  return now - std::max(path.last_arrival, busy_since_) < kInUse;
}

bool ReceivePaths::laggard_passed(std::uint8_t path, const GapRecord& gap, Instant now) {
  if (path >= paths_.size() || strangers_ || paths_[path].bitmap.empty()) return false;
  const Psn last = gap.start + (gap.length - 1);
  const auto is_behind = [last](const Path& other) {
    return other.bitmap.empty() || distance(other.bitmap.newest(), last) <= 0;
  };
  if (is_behind(paths_[path])) return false;
  return std::none_of(paths_.begin(), paths_.end(),
                      [&](const Path& other) { return is_behind(other) && in_use(other, now); });
}

bool ReceivePaths::passed(const GapRecord& gap, Instant now) const {
  const Psn last = gap.start + (gap.length - 1);
  if (gap.path_known) return has_passed(paths_[gap.path], last);
  if (strangers_) return false;
  return std::all_of(paths_.begin(), paths_.end(),
                     [&](const Path& path) { return !in_use(path, now) || has_passed(path, last); });
}

bool ReceivePaths::all_among(std::uint32_t paths, Instant now) const {
  if (strangers_ || paths == 0) return false;
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    if ((paths >> i & 1) == 0 && in_use(paths_[i], now)) return false;
  }
  return true;
}

bool ReceivePaths::came_late(std::uint8_t path, Psn psn, Duration late, Instant now, Duration repair) {
  constexpr std::uint32_t kCountMax = 1u << 20;
  bool raised = false;
  if (path < paths_.size()) {
    const std::uint32_t overtaken_by = paths_[path].bitmap.beyond(psn, kCountMax);
    if (overtaken_by > 0) raised = paths_[path].within.came_late({overtaken_by, late, late}, now, repair);
  }
  return across_.came_late({0, late, late}, now, repair) || raised;
}

void ReceivePaths::expect_repetition(Psn psn, Instant asked) {
  constexpr Duration kRecoveryMax = 2_s;  // it was lost
  if (!repetition_ || asked - repetition_->asked > kRecoveryMax) repetition_ = Expected{psn, asked};
}

std::optional<Duration> ReceivePaths::repetition_came(Psn psn, Instant now) {
  if (!repetition_ || repetition_->psn != psn) return std::nullopt;
  const Duration took = now - repetition_->asked;
  repetition_.reset();
  return took;
}

std::vector<PathReceived> ReceivePaths::report(Instant now) const {
  std::vector<PathReceived> all;
  all.reserve(paths_.size());
  for (const Path& path : paths_) {
    all.push_back({.path = static_cast<std::uint8_t>(all.size()),
                   .in_use = path.packets != 0 && in_use(path, now),
                   .packets = path.packets,
                   .marked = path.bitmap.marked(),
                   .newest = path.bitmap.empty() ? 0 : path.bitmap.newest().value(),
                   .depth_max = path.within.limits_at(now).depth_max,
                   .bytes = path.bitmap.allocated_bytes()});
  }
  return all;
}

std::size_t ReceivePaths::allocated_bytes() const {
  std::size_t bytes = sizeof(*this) + paths_.capacity() * sizeof(Path);
  for (const Path& path : paths_) bytes += path.bitmap.allocated_bytes();
  return bytes;
}

}  // namespace brdma::qp
