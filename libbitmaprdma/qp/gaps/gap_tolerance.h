// qp/gaps/gap_tolerance.h - private: how late a request may come before its gap counts as loss (design BR-15), as
// a queue pair keeps it: the limits of a single path, or what is known of each path of the peer (design BR-29).
#pragma once

#include <cstdint>
#include <memory>

#include "base/config.h"
#include "base/units.h"
#include "qp/gaps/gap_receiver.h"
#include "qp/paths/paths_receive.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "recovery/gap_judge.h"
#include "recovery/learnt_tolerance.h"

namespace brdma::qp {

class GapTolerance {
 public:
  // A packet that names its path, of a peer whose CAPS announces several. (Else: the global bitmap alone.)
  void on_path(std::uint8_t path, Environment& env, const Identity& identity, Instant seen) {
    if (!paths_)
      paths_ = std::make_unique<ReceivePaths>(*identity.recovery, identity.receiving_paths, env.pools.segments, seen);
    paths_->on_packet(path, seen);
  }
  // Null: packets come on one path.
  [[nodiscard]] ReceivePaths* paths() { return paths_.get(); }
  [[nodiscard]] const ReceivePaths* paths() const { return paths_.get(); }
  [[nodiscard]] recovery::LearntTolerance& single() { return single_; }
  [[nodiscard]] const recovery::LearntTolerance& single() const { return single_; }

  // The limits in force, learnt ones included.
  [[nodiscard]] recovery::GapLimits limits(const RecoveryConfig& config) const {
    return gap_limits(paths_.get(), single_, config);
  }
  // The same as they will be at `now`, if nothing comes late until then: for display.
  [[nodiscard]] recovery::GapLimits limits_at(const RecoveryConfig& config, Instant now) const {
    return gap_limits_at(paths_.get(), single_, config, now);
  }

  // The settings have changed.
  void configure(const RecoveryConfig& config) {
    single_.configure(tolerance_config(config));
    if (paths_) paths_->configure(config);
  }
  // A new connection.
  void restart() {
    single_.forget();
    paths_.reset();
  }

 private:
  recovery::LearntTolerance single_;     // of a single path
  std::unique_ptr<ReceivePaths> paths_;  // only where the peer sends on several
};

}  // namespace brdma::qp
