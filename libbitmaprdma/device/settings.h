// device/settings.h - an engine's settings, and the recovery settings of queue pairs that differ from them. Queue pairs
// share recovery settings by pointer, so an idle one pays for a pointer.
#pragma once

#include <algorithm>
#include <list>

#include "base/config.h"
#include "device/qp_table.h"

namespace brdma::device {

class Settings {
 public:
  explicit Settings(const EngineConfig& given) : config(given) {}

  // Settings equal to `wanted`: the engine's, those of other queue pairs, or a new copy. Valid until drop_unused()
  // finds no queue pair with them.
  [[nodiscard]] const RecoveryConfig* shared(const RecoveryConfig& wanted) {
    if (config.recovery == wanted) return &config.recovery;
    const auto found = std::find(own_recoveries_.begin(), own_recoveries_.end(), wanted);
    return found != own_recoveries_.end() ? &*found : &own_recoveries_.emplace_back(wanted);
  }
  void drop_unused(const QpTable& queue_pairs) {
    own_recoveries_.remove_if([&queue_pairs](const RecoveryConfig& recovery) {
      bool used = false;
      queue_pairs.for_each([&](const QueuePair* qp) { used = used || qp->identity().recovery == &recovery; });
      return !used;
    });
  }

  EngineConfig config;

 private:
  std::list<RecoveryConfig> own_recoveries_;
};

}  // namespace brdma::device
