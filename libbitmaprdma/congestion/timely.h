// congestion/timely.h - TIMELY: a sending rate from round-trip times alone (Mittal et al., SIGCOMM 2015, algorithm 1).
// One sample an acknowledged segment:
//
//   rtt < low                      rate += add                             little queueing: grow
//   rtt > high                     rate *= 1 - beta * (1 - high / rtt)     too much of it, whatever the gradient
//   else gradient <= 0             rate += add, 5 * add from the fifth such sample in a row on (hyperactive increase)
//        gradient > 0              rate *= 1 - beta * gradient
//
// The gradient is the change of the RTT from sample to sample, smoothed by weight alpha and divided by the minimum RTT.
// A switch that turns ECN marks into round-trip time (design ER-10) needs no other sender than this one.
//
// Defaults are the paper's (its section 6), which were chosen for 10 Gbit/s and an RTT of 20 us; `for_path` scales
// the thresholds and the step to another. Integers only: fractions are in units of 2^-16. Pure.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace brdma::congestion {

inline constexpr std::int64_t kOne = 1 << 16;  // 1.0

struct TimelyConfig {
  std::int64_t alpha = kOne * 875 / 1000;  // weight of the new difference
  std::int64_t beta = kOne * 8 / 10;
  Duration low = 50_us;
  Duration high = 500_us;
  Duration min_rtt = 20_us;
  Bandwidth add = Bandwidth::from_bps(10'000'000);
  std::uint32_t hyperactive_after = 5;
  std::uint32_t hyperactive_factor = 5;
  Bandwidth rate_min = Bandwidth::from_bps(1'000'000);
  Bandwidth rate_max = Bandwidth::from_bps(400'000'000'000);
  // Thresholds lie as far above the path's own RTT as the paper's above its 20 us; the step is the same part of the
  // rate that the path can carry.
  [[nodiscard]] TimelyConfig for_path(Duration base_rtt, Bandwidth capacity) const;
  // Scales the thresholds only.
  [[nodiscard]] TimelyConfig with_base(Duration base_rtt) const;
};

class Timely {
 public:
  Timely(const TimelyConfig& config, Bandwidth first_rate);
  void configure(const TimelyConfig& config) { config_ = config; }  // the rate stays
  void on_rtt(Duration rtt);
  void limit(Bandwidth rate, Instant now);  // the path carries no more; continues from there
  [[nodiscard]] Bandwidth rate() const { return rate_; }
  // In units of 2^-16; as of the last on_rtt.
  [[nodiscard]] std::int64_t gradient() const { return gradient_; }

 private:
  void scale_down(std::int64_t by);  // rate *= 1 - by
  void grow(std::uint32_t steps);

  TimelyConfig config_;
  Bandwidth rate_;
  Duration previous_{};               // 0: no sample yet
  std::int64_t difference_ns16_ = 0;  // smoothed, in 2^-16 ns
  std::int64_t gradient_ = 0;
  std::uint32_t falling_ = 0;  // samples in a row whose gradient did not rise
};

}  // namespace brdma::congestion
