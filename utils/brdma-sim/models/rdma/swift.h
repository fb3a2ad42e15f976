// models/rdma/swift.h - Swift-like control by delay. Sources: "Swift: Delay is Simple and Effective" (SIGCOMM 2020);
// the rule as htsim has it, values as Falcon's model publishes them (settings.h). Windows are in packets and may be
// below 1.
//   target = base + hops * per_hop + flow scaling: clamp(a / sqrt(window) + b, 0, range), where a and b let it be
//     `range` at flow_min and 0 at flow_max
//   delay < target: window += additive * acked / window, or additive * acked below one packet
//   else, once an RTT: window *= max(1 - beta (delay - target) / delay, 1 - max_cut)
//   loss, once an RTT: window *= 1 - max_cut;  timeout: the same; after 3 in a row the window is the smallest
//   below one packet a packet leaves every RTT / window
// Delay here is the whole RTT of the echoed packet: hosts in the model have no delay of their own.
#pragma once

#include <optional>

#include "models/rdma/control.h"

namespace brdma::models::rdma {

class Swift final : public Control {
 public:
  explicit Swift(const Settings& settings);

  void on_ack(const AckFacts& facts, Instant now) override;
  void on_loss(Instant now) override;
  void on_timeout(Instant now) override;
  [[nodiscard]] std::uint64_t window() const override;
  std::int64_t gap_ps(std::uint32_t wire_bytes, Instant now) override;
  [[nodiscard]] std::uint64_t reductions() const override { return reductions_; }
  [[nodiscard]] double packets() const { return packets_; }
  [[nodiscard]] Duration target() const;

 private:
  bool cut(double factor, Instant now);
  void clamp();

  SwiftSettings settings_;
  double payload_;
  double packets_;  // the window
  double scale_;    // a, nanoseconds
  double offset_;   // b, nanoseconds
  Duration rtt_;    // the last
  std::optional<Instant> last_cut_;
  unsigned timeouts_ = 0;  // since the last answer
  std::uint64_t reductions_ = 0;
};

}  // namespace brdma::models::rdma
