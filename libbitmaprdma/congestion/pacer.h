// congestion/pacer.h - a token bucket: when, and how many, bytes may leave at a rate.
//
//   credit    grows at the rate, up to `burst_bytes`; kept in bits * 1e-9, so that a rate in bit/s times a time in ns
//             is exact: no fraction is ever lost, however small the packets and however odd the times (no drift)
//   ready_at  once the credit is used up: when it will be `interval` worth of the rate (at most half the burst: a late
//             timer needs room). One timer for the credit of that time, not one a packet
//   spend     bytes that left. The last packet may be longer than the credit: the debt is paid before the next
//
// A timer that comes late loses nothing, up to the burst. Pure: `now` is an argument and does not go back.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace brdma::congestion {

struct PacerConfig {
  std::uint64_t burst_bytes = 65536;
  Duration interval = 20_us;
};

class Pacer {
 public:
  // Begins with a full burst.
  Pacer(const PacerConfig& config, Bandwidth rate);
  [[nodiscard]] Bandwidth rate() const { return rate_; }
  void set_rate(Bandwidth rate, Instant now);  // the old rate applies until now
  void set_burst(std::uint64_t bytes);         // 1 to 2^26; the present credit stays
  void set_interval(Duration interval) { config_.interval = interval; }
  // How many bytes may leave now; 0: retry at ready_at(), or sooner. One packet may be longer.
  [[nodiscard]] std::uint64_t allowance(Instant now);
  void spend(std::uint64_t bytes);
  // As of the last spend(); a time that has passed: now.
  [[nodiscard]] Instant ready_at() const;

 private:
  void catch_up(Instant now);
  [[nodiscard]] std::int64_t quantum() const;

  PacerConfig config_;
  Bandwidth rate_;
  std::int64_t credit_;  // in 1e-9 bit
  Instant at_;           // as of
};

}  // namespace brdma::congestion
