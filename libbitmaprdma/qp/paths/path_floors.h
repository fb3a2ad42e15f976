// qp/paths/path_floors.h - the shortest round trips of late, by the path there and the path back, without what packets
// lay in the hosts. What is longer than that has waited in a queue; a path that is longer than another is not a fuller
// one. The way back counts too: acknowledgements inside data are sprayed as that is, the others keep to one path until
// it falls silent.
//
// A way back that is new is measured with the queue that stands then, and would hide it. So its first round trip counts
// without what the packet waited on its way there, which is known from the times of arrival at the peer: compared with
// each other alone, for its clock is another.
//
// Of late: of the last one to two periods. A path may become longer, and clocks drift.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/config.h"
#include "base/units.h"

namespace brdma::qp {

class PathFloors {
 public:
  static constexpr Duration kPeriod = 1_s;

  explicit PathFloors(std::size_t paths) : there_(paths) {}

  struct Sample {
    std::size_t path = 0;
    std::uint16_t back = 0;  // UDP source port that the answer came from
    Duration round_trip;
    Duration one_way;  // from our clock when it left to the peer's when it arrived
    // Of both, what was spent lying in hosts that had no core: no path is longer for that.
    Duration waited{}, waited_there{};
  };
  // Answers the floor, this one included.
  Duration sample(const Sample& sample, Instant now);
  // Of all ways back; nothing where none was measured.
  [[nodiscard]] std::optional<Duration> shortest(std::size_t path) const;
  // How much longer the longest path there is than the shortest.
  [[nodiscard]] Duration skew() const;

 private:
  struct Floor {
    std::optional<Duration> before, now;  // in the last whole period, in this one
    void take(Duration duration) { now = now ? std::min(*now, duration) : duration; }
    void begin_period() {
      if (now) before = now;
      now.reset();
    }
    [[nodiscard]] std::optional<Duration> value() const { return before && (!now || *before < *now) ? before : now; }
  };
  struct There {
    Floor one_way;
    std::array<Floor, kPathsMax> backs;  // by the place of the port in backs_; ports that find none share the last
  };
  [[nodiscard]] std::size_t place_of(std::uint16_t back);
  void begin_period(Instant now);

  std::vector<There> there_;
  std::array<std::uint16_t, kPathsMax> backs_{};
  std::size_t backs_known_ = 0;
  Instant period_start_;
  mutable std::optional<Duration> skew_;  // nothing: a floor has changed since
};

// What a congestion window is to hear of round trips that take different ways.
class RoundTripSamples {
 public:
  explicit RoundTripSamples(std::size_t paths) : floors_(paths) {}
  struct RoundTripSample {
    Duration round_trip;  // how much longer than its floor it was, on top of the mean floor
    Duration base_moved;  // how much longer that mean has become, which is no queueing
  };
  RoundTripSample take(const PathFloors::Sample& sample, Instant now);
  [[nodiscard]] const PathFloors& floors() const { return floors_; }

 private:
  PathFloors floors_;
  std::optional<Duration> mean_;  // of the packets that were heard of lately
};

}  // namespace brdma::qp
