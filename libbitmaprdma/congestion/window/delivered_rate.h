// congestion/window/delivered_rate.h - private to the delay window: the rate that its rounds delivered, in bytes a
// second.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "congestion/window/window_round.h"

namespace brdma::congestion {

class DeliveredRate {
 public:
  // The round that ends at `now`, with an acknowledgement of that RTT.
  void measure(const WindowRound& round, Instant now, Duration rtt);
  // The same of any round, also of those that say nothing of the path.
  void note_throughput(const WindowRound& round, Instant now, Duration rtt);

  [[nodiscard]] std::uint64_t latest() const { return latest_; }
  [[nodiscard]] std::uint64_t best() const;  // of the last rounds; 0: not known
  // The best of the last rounds, an eighth less with each that brought less.
  [[nodiscard]] std::uint64_t throughput() const { return throughput_; }
  [[nodiscard]] Duration time_for(std::uint64_t bytes) const;  // at the best rate; 0: not known

 private:
  std::uint64_t latest_ = 0;
  std::array<std::uint64_t, 8> rounds_{};
  std::size_t next_ = 0;
  std::uint64_t throughput_ = 0;
};

}  // namespace brdma::congestion
