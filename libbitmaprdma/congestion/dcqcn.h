// congestion/dcqcn.h - DCQCN: a sending rate from congestion notification packets (Zhu et al., SIGCOMM 2015), for
// standard peers, and as the comparison for the controls that use RTT samples (docs/design/ecn-to-rtt.md).
//
//   CNP              target = rate; rate *= 1 - alpha / 2; alpha = (1 - g) alpha + g; both counters restart
//   alpha_period     without a CNP: alpha = (1 - g) alpha
//   increase         each increase_period and each increase_bytes sent is one event of its own counter:
//     fast recovery    while neither counter has reached 5: rate = (target + rate) / 2
//     additive         one of them has: target += additive, then as above
//     hyper            both have: target += hyper * (how far the smaller is beyond 5), then as above
//
// The receiver's side is CnpLimiter: at most one CNP a queue pair in 50 us. Defaults: the paper's. Integers only. Pure;
// `now` is an argument, and elapsed periods are applied at the next call.
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"

namespace brdma::congestion {

struct DcqcnConfig {
  std::uint32_t g_shift = 8;  // g = 1/256
  Duration alpha_period = 55_us;
  Duration increase_period = 55_us;
  std::uint64_t increase_bytes = 10'000'000;
  std::uint32_t fast_recovery = 5;
  Bandwidth additive = Bandwidth::from_bps(40'000'000);
  Bandwidth hyper = Bandwidth::from_bps(400'000'000);
  Bandwidth rate_min = Bandwidth::from_bps(1'000'000);
  Bandwidth rate_max = Bandwidth::from_bps(400'000'000'000);
};

class Dcqcn {
 public:
  // Sends at `first_rate` (line rate) until the first CNP.
  Dcqcn(const DcqcnConfig& config, Bandwidth first_rate, Instant now);
  void on_cnp(Instant now);
  void on_sent(std::uint64_t bytes, Instant now);
  void limit(Bandwidth rate, Instant now);  // the path carries no more; continues from there, as after a CNP
  // The rate at `now`.
  [[nodiscard]] Bandwidth rate(Instant now);
  // When the rate changes next by itself; nothing: it is at its maximum.
  [[nodiscard]] std::optional<Instant> next_change() const;
  [[nodiscard]] std::uint32_t alpha_2_24() const { return alpha_; }  // in units of 2^-24

 private:
  void catch_up(Instant now);
  void increase();

  DcqcnConfig config_;
  Bandwidth rate_, target_;
  std::uint32_t alpha_ = 1u << 24;  // 1.0 at first
  bool reduced_ = false;            // a CNP has come; before the first, there is nothing to increase
  Instant alpha_from_, increase_from_;
  std::uint64_t bytes_ = 0;
  std::uint32_t timer_count_ = 0, byte_count_ = 0;
};

// NP algorithm: marked packets of one queue pair cause at most one CNP in a period.
class CnpLimiter {
 public:
  static constexpr Duration kPeriod = 50_us;
  // A packet with the CE mark came: is a CNP due?
  [[nodiscard]] bool on_marked(Instant now, Duration period = kPeriod);

 private:
  std::optional<Instant> last_;
};

}  // namespace brdma::congestion
