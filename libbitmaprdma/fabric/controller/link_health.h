// fabric/controller/link_health.h - one direction of a link as feedback shows it: up or down, congested or not, and
// what it costs to send by it. Calm on purpose: what follows from this moves routes.
//   congested   at once when its switch says so (active feedback), or the queue or the speed is beyond its limit; no
//               longer when both have been well within for `clear_after`
//   up          a link that went down counts as down until it has been up for `up_after`; twice as long each time that
//   it
//               goes down again soon, `up_after_max` at most
//   cost        the delay, longer by the load in four steps: a few per cent more or less of load change nothing
// What was last said is forgotten after `age_max`, except up and down. Loads and limits are in thousandths.
// Source: spec 3: link-state feedback.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>

#include "base/units.h"
#include "fabric/switch/link_state_limits.h"

namespace brdma::fabric::controller {

struct LinkLimits {
  LinkStateLimits state;  // a switch's, too, unless one of them is told otherwise
  Duration clear_after = 2_s;
  Duration up_after = 1_s, up_after_max = 60_s;
  Duration age_max = 10_s;
};

// What a switch says of a port. Bytes a second.
struct LinkReport {
  bool up = true;
  std::uint64_t rate = 0;                    // of the link; 0: not known
  std::uint64_t speed = 0;                   // processing speed: what the port can do now; 0: not known
  std::uint64_t load = 0;                    // what it did
  std::uint64_t queue = 0, queue_limit = 0;  // bytes; a limit of 0: not known
  std::uint64_t drops = 0;                   // since the link came up
};

// Congested links first: any way around is better than through one.
struct Cost {
  std::uint32_t congested = 0;
  std::int64_t ns = 0;
  friend auto operator<=>(const Cost&, const Cost&) = default;
  friend Cost operator+(const Cost& a, const Cost& b) { return {a.congested + b.congested, a.ns + b.ns}; }
};

class LinkHealth {
 public:
  // `over_limits`: the switch that said it takes the port for congested, by its own limits.
  void handle_report(const LinkReport& report, const LinkLimits& limits, Instant now, bool over_limits = false);
  // Clears what time alone clears; true: something that routes follow from has changed. To be called at next_timeout().
  bool handle_timeout(const LinkLimits& limits, Instant now);
  [[nodiscard]] std::optional<Instant> next_timeout(const LinkLimits& limits) const;

  [[nodiscard]] bool usable() const { return usable_; }
  [[nodiscard]] bool congested() const { return congested_; }
  [[nodiscard]] Cost cost(Duration delay) const;
  [[nodiscard]] Cost cost_without_load(Duration delay) const;
  [[nodiscard]] const LinkReport& last() const { return last_; }
  [[nodiscard]] std::optional<Instant> heard() const { return heard_; }
  // Counts up whenever usable(), congested() or cost() changed.
  [[nodiscard]] std::uint64_t version() const { return version_; }

 private:
  void judge_up(bool up, const LinkLimits& limits, Instant now);
  void judge_congestion(const LinkStateLimits& limits, bool over_limits, Instant now);
  void judge_load();
  [[nodiscard]] Duration up_after(const LinkLimits& limits) const;

  LinkReport last_;
  std::optional<Instant> heard_;
  std::optional<Instant> calm_since_;  // congested, but within the limits since then
  std::optional<Instant> up_since_;    // up, but not usable yet
  std::optional<Instant> downed_;      // last
  std::uint32_t downs_ = 0;            // soon after each other
  std::uint32_t load_step_ = 0;        // 0..3
  std::uint64_t version_ = 0;
  bool usable_ = true, congested_ = false;
};

}  // namespace brdma::fabric::controller
