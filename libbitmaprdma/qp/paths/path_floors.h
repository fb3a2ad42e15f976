// qp/paths/path_floors.h - the shortest recent round trips, by forward and return path, without the packets' time in
// the hosts. Longer round trips include queueing; a longer path is not a fuller one. The return path counts too:
// piggybacked ACKs are sprayed with their data, the others keep to one path until it falls silent.
//
// A new return path is measured with the queue that stands then, which would stay hidden. So its first round trip
// counts without the packet's queueing on the forward path. That is known from arrival times at the peer, compared only
// with each other, because its clock is another.
//
// Recent: the last one to two periods. A path may become longer, and clocks drift.
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
    std::uint16_t back = 0;  // UDP source port of the reply
    Duration round_trip;
    Duration one_way;  // from our clock at sending to the peer's at arrival
    // Of both, time in hosts that had no core: it does not lengthen the path.
    Duration waited{}, waited_there{};
  };
  // Returns the floor, this sample included.
  Duration sample(const Sample& sample, Instant now);
  // Over all return paths; nothing if none was measured.
  [[nodiscard]] std::optional<Duration> shortest(std::size_t path) const;
  // How much longer the longest forward path is than the shortest.
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
    std::array<Floor, kPathsMax> backs;  // by the index of the port in backs_; ports beyond share the last
  };
  [[nodiscard]] std::size_t place_of(std::uint16_t back);
  void begin_period(Instant now);

  std::vector<There> there_;
  std::array<std::uint16_t, kPathsMax> backs_{};
  std::size_t backs_known_ = 0;
  Instant period_start_;
  mutable std::optional<Duration> skew_;  // nothing: a floor has changed since
};

// RTT samples of different paths, normalised for the congestion window.
class RoundTripSamples {
 public:
  explicit RoundTripSamples(std::size_t paths) : floors_(paths) {}
  struct RoundTripSample {
    Duration round_trip;  // excess over its floor, on top of the mean floor
    Duration base_moved;  // increase of that mean, which is no queueing
  };
  RoundTripSample take(const PathFloors::Sample& sample, Instant now);
  [[nodiscard]] const PathFloors& floors() const { return floors_; }

 private:
  PathFloors floors_;
  std::optional<Duration> mean_;  // of the recently acknowledged packets
};

}  // namespace brdma::qp
