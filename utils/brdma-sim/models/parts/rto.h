// models/parts/rto.h - TCP's retransmission timeout. Source: RFC 6298 sections 2 to 5.
//   First sample R:  SRTT = R, RTTVAR = R / 2.
//   Then:            RTTVAR = 3/4 RTTVAR + 1/4 |SRTT - R|,  SRTT = 7/8 SRTT + 1/8 R.
//   RTO = SRTT + max(G, 4 RTTVAR), within [minimum, maximum]; doubled by each expiry until the next sample.
// Worked: R 100 us gives 300 us; then R 200 us gives RTTVAR 62.5, SRTT 112.5, RTO 362.5 us (minimum 0).
#pragma once

#include <algorithm>
#include <optional>

#include "base/units.h"

namespace brdma::models {

struct RtoSettings {
  Duration minimum = 200_ms;  // RFC: 1 s; Linux: 200 ms; data-centre works: 4 ms
  Duration maximum = 60_s;
  Duration initial = 1_s;       // before the first sample
  Duration granularity = 1_us;  // G
};

class RtoEstimator {
 public:
  explicit RtoEstimator(const RtoSettings& settings) : settings_(settings), rto_(settings.initial) {}

  void sample(Duration rtt) {
    if (!srtt_) {
      srtt_ = rtt;
      rttvar_ = rtt / 2;
    } else {
      const Duration off = *srtt_ > rtt ? *srtt_ - rtt : rtt - *srtt_;
      rttvar_ = rttvar_ * 3 / 4 + off / 4;
      srtt_ = *srtt_ * 7 / 8 + rtt / 8;
    }
    const Duration rto = *srtt_ + std::max(settings_.granularity, rttvar_ * 4);
    rto_ = std::clamp(rto, settings_.minimum, settings_.maximum);
    expiries_ = 0;
  }
  void back_off() {
    rto_ = std::min(rto_ * 2, settings_.maximum);
    ++expiries_;
  }
  [[nodiscard]] Duration rto() const { return rto_; }
  [[nodiscard]] std::optional<Duration> srtt() const { return srtt_; }
  [[nodiscard]] Duration rttvar() const { return rttvar_; }
  [[nodiscard]] unsigned expiries() const { return expiries_; }  // since the last sample

 private:
  RtoSettings settings_;
  std::optional<Duration> srtt_;
  Duration rttvar_;
  Duration rto_;
  unsigned expiries_ = 0;
};

}  // namespace brdma::models
