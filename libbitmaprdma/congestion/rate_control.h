// congestion/rate_control.h - the sending rate of one queue pair: TIMELY, DCQCN or the lower of the two, enforced by a
// pacer. Only queue pairs whose CongestionConfig asks for a rate have one.
//
// The owner reports events (RTT samples, notifications, bytes that left) and asks allowance() before it sends. Pure:
// `now` is an argument.
#pragma once

#include <cstdint>
#include <optional>

#include "base/config.h"
#include "congestion/dcqcn.h"
#include "congestion/pacer.h"
#include "congestion/timely.h"

namespace brdma::congestion {

[[nodiscard]] constexpr bool is_rate_control(CongestionControl control) {
  return control == CongestionControl::kTimely || control == CongestionControl::kDcqcn ||
         control == CongestionControl::kBoth;
}

// A sender with RTT samples decides by itself; DCQCN's signal goes to the sender of the marked packet.
[[nodiscard]] constexpr bool goes_by_round_trips(CongestionControl control) {
  return control == CongestionControl::kTimely || control == CongestionControl::kBoth;
}

class RateControl {
 public:
  // `flows`: of this host, this one included. With TIMELY each begins at its share; otherwise the first RTT sample
  // would include the queue that they fill together (the paper's section 4.3: C / (N + 1)). DCQCN begins at the line's
  // rate.
  // Precondition: is_rate_control(config.control).
  explicit RateControl(const CongestionConfig& config, std::uint32_t flows = 0);

  // `base_rtt`: the path's RTT without queues.
  void on_round_trip(Duration rtt, Duration base_rtt, Instant now);
  // False: the control does not use CNPs.
  bool on_cnp(Instant now);
  // A switch had no room for `bytes` of the data sent within `rtt`: the rest is what the path carries. Not below half
  // of the rate in that time, whatever is reported.
  void on_drops(std::uint64_t bytes, Duration rtt, Instant now);
  void on_sent(std::uint64_t bytes, Instant now);

  // Bytes that may leave now; 0: not before ready_at().
  [[nodiscard]] std::uint64_t allowance(Instant now);
  [[nodiscard]] Instant ready_at() const { return pacer_.ready_at(); }
  [[nodiscard]] const CongestionConfig& config() const { return config_; }
  [[nodiscard]] Bandwidth rate() const { return pacer_.rate(); }
  // A responder has no RTT samples of its READ responses, only their marks.
  [[nodiscard]] bool paces_responses() const { return dcqcn_.has_value(); }

 private:
  [[nodiscard]] Bandwidth wanted(Instant now);

  CongestionConfig config_;
  Pacer pacer_;
  Duration base_rtt_{};
  // With two, each follows its own signal; one that has to decrease starts from the rate in use.
  std::optional<Timely> timely_;
  std::optional<Dcqcn> dcqcn_;
  // Drops: since when they lower the rate, and how far at most.
  Instant drops_from_;
  Bandwidth drops_floor_;
};

}  // namespace brdma::congestion
