// recovery/learnt_tolerance.h - a tolerance that takes no memory while its limits are the configured ones: most queue
// pairs never see a late packet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/units.h"
#include "recovery/gap_judge.h"
#include "recovery/tolerance.h"

namespace brdma::recovery {

class LearntTolerance {
 public:
  [[nodiscard]] GapLimits limits(const ToleranceConfig& config) const {
    return learnt_ ? learnt_->limits() : config.reference;
  }
  // Limits at `now`, if no packet comes late until then: for display.
  [[nodiscard]] GapLimits limits_at(const ToleranceConfig& config, Instant now) const {
    return learnt_ ? learnt_->limits_at(now) : config.reference;
  }
  // As Tolerance::came_late().
  bool came_late(const ToleranceConfig& config, const Lateness& lateness, Instant now, Duration repair) {
    if (learnt_) return learnt_->came_late(lateness, now, repair);
    Tolerance made{config};
    if (!made.came_late(lateness, now, repair)) return false;
    learnt_ = std::make_unique<Tolerance>(made);
    return true;
  }
  void elapse(Instant now) {
    if (!learnt_) [[likely]]
      return;
    learnt_->elapse(now);
    if (learnt_->at_rest()) learnt_.reset();
  }
  void configure(const ToleranceConfig& config) {
    if (learnt_) learnt_->configure(config);
  }
  void forget() { learnt_.reset(); }
  [[nodiscard]] bool at_rest() const { return learnt_ == nullptr; }
  [[nodiscard]] std::size_t allocated_bytes() const { return learnt_ ? sizeof(Tolerance) : 0; }

 private:
  std::unique_ptr<Tolerance> learnt_;
};

}  // namespace brdma::recovery
