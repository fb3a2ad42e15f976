// fabric/controller/link_health.h - one direction of a link by its feedback: up or down, congested or not, and the cost
// of sending by it. Changes slowly on purpose: routes depend on it.
//   congested   at once when its switch says so (active feedback), or the queue or the speed is beyond its limit;
//               ends when both have been well within for `clear_after`
//   up          a link that went down counts as down until it has been up for `up_after`; twice as long each time
//               that it goes down again soon, `up_after_max` at most
//   cost        the delay, longer by the load in four steps: a few per cent more or less of load change nothing
// The last report expires after `age_max`, except up and down. Loads and limits are in thousandths.
// Source: docs/design, WT-9 and WT-12.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>

#include "base/units.h"
#include "fabric/switch/link_state_limits.h"

namespace brdma::fabric::controller {

struct LinkLimits {
  LinkStateLimits state;  // also the switches' default
  Duration clear_after = 2_s;
  Duration up_after = 1_s, up_after_max = 60_s;
  Duration age_max = 10_s;
};

// A switch's report of a port. Bytes a second.
struct LinkReport {
  bool up = true;
  std::uint64_t rate = 0;                    // of the link; 0: not known
  std::uint64_t speed = 0;                   // processing speed: the port's present capacity; 0: not known
  std::uint64_t load = 0;                    // measured
  std::uint64_t queue = 0, queue_limit = 0;  // bytes; a limit of 0: not known
  std::uint64_t drops = 0;                   // since the link came up
};

// Congested links first: any path around is better than one through a congested link.
struct Cost {
  std::uint32_t congested = 0;
  std::int64_t ns = 0;
  friend auto operator<=>(const Cost&, const Cost&) = default;
  friend Cost operator+(const Cost& a, const Cost& b) { return {a.congested + b.congested, a.ns + b.ns}; }
};

class LinkHealth {
 public:
  // `over_limits`: the reporting switch regards the port as congested, by its own limits.
  void handle_report(const LinkReport& report, const LinkLimits& limits, Instant now, bool over_limits = false);
  // Clears expired state; true: an input of routing has changed. Call at next_timeout().
  bool handle_timeout(const LinkLimits& limits, Instant now);
  [[nodiscard]] std::optional<Instant> next_timeout(const LinkLimits& limits) const;

  [[nodiscard]] bool usable() const { return usable_; }
  [[nodiscard]] bool congested() const { return congested_; }
  [[nodiscard]] Cost cost(Duration delay) const;
  [[nodiscard]] Cost cost_without_load(Duration delay) const;
  [[nodiscard]] const LinkReport& last() const { return last_; }
  [[nodiscard]] std::optional<Instant> last_report() const { return last_report_; }
  // Counts up whenever usable(), congested() or cost() changed.
  [[nodiscard]] std::uint64_t version() const { return version_; }

 private:
  void judge_up(bool up, const LinkLimits& limits, Instant now);
  void judge_congestion(const LinkStateLimits& limits, bool over_limits, Instant now);
  void judge_load();
  [[nodiscard]] Duration up_after(const LinkLimits& limits) const;

  LinkReport last_;
  std::optional<Instant> last_report_;
  std::optional<Instant> calm_since_;  // congested, but within the limits since then
  std::optional<Instant> up_since_;    // up, but not usable yet
  std::optional<Instant> downed_;      // last
  std::uint32_t downs_ = 0;            // in quick succession
  std::uint32_t load_step_ = 0;        // 0..3
  std::uint64_t version_ = 0;
  bool usable_ = true, congested_ = false;
};

}  // namespace brdma::fabric::controller
