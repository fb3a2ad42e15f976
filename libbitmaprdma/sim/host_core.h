// sim/host_core.h - the core that a host's process runs on: when the process has it, and when its machine reports the
// process as stopped.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/random.h"
#include "base/units.h"
#include "sim/host_config.h"

namespace brdma::sim {

class HostCore {
 public:
  HostCore(const Stalls& stalls, std::uint64_t seed);

  void pause_until(Instant until) { paused_until_ = until; }
  void stop_until(Instant until) { paused_until_ = stopped_until_ = until; }
  // The process has ended; the next one is neither paused nor stopped.
  void release() {
    paused_until_.reset();
    stopped_until_.reset();
  }
  // True: the process has no core at `now`. Times do not go back.
  [[nodiscard]] bool is_away(Instant now);
  [[nodiscard]] bool is_stopped(Instant now) const { return stopped_until_ && now < *stopped_until_; }
  // The time from `wake` on at which a pause that has begun is over.
  [[nodiscard]] Instant not_before(Instant wake) const { return paused_until_ ? std::max(wake, *paused_until_) : wake; }

 private:
  void draw_stall();

  Stalls stalls_;
  Random random_;
  Instant stall_from_, stall_until_;  // the next one
  std::optional<Instant> paused_until_, stopped_until_;
};

}  // namespace brdma::sim
