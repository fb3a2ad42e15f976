// models/tcp/probe.h - the tail loss probe: when it is due, and what its acknowledgement means.
// Source: RFC 8985 section 7.
//   PTO = 2 SRTT, + WCDelAckT if one segment is in flight; 1 s without SRTT; never later than the RTO's deadline
//   only outside of recovery, with nothing SACKed, one probe at a time; after it the RTO begins again
//   A repeated segment that was acknowledged without DSACK, once a later byte is: it repaired a loss; one reduction.
// Worked: one segment, SRTT 12 us, WCDelAckT 200 ms, RTO 4 ms: the probe leaves at 4 ms, where the RTO would.
#pragma once

#include <algorithm>
#include <optional>

#include "models/model.h"

namespace brdma::models::tcp {

enum class ProbeOutcome : std::uint8_t { kNone, kLossRepaired };

class Probe {
 public:
  [[nodiscard]] static Duration timeout(std::optional<Duration> srtt, bool one_in_flight, Duration worst_ack_delay) {
    if (!srtt) return 1_s;
    return *srtt * 2 + (one_in_flight ? worst_ack_delay : Duration{});
  }
  void schedule(Instant at, Instant rto_deadline) { deadline_ = std::min(at, rto_deadline); }
  void cancel() { deadline_.reset(); }
  [[nodiscard]] std::optional<Instant> deadline() const { return deadline_; }
  [[nodiscard]] bool is_out() const { return end_.has_value(); }  // no second one until it is acknowledged
  // end: the highest byte sent, the probe included.
  void on_sent(std::uint64_t end, bool repeats) {
    end_ = end;
    repeats_ = repeats;
  }
  // advanced: the ACK acknowledges or SACKs something.
  ProbeOutcome on_ack(const Frame& frame, bool advanced) {
    if (!end_ || frame.ack < *end_) return ProbeOutcome::kNone;
    const bool later = frame.ack > *end_;
    const bool spurious = frame.duplicate.end == *end_ && !frame.duplicate.empty();
    if (!repeats_ || spurious || later || !advanced) end_.reset();
    return repeats_ && later && !spurious ? ProbeOutcome::kLossRepaired : ProbeOutcome::kNone;
  }
  void forget() { *this = Probe{}; }

 private:
  std::optional<Instant> deadline_;
  std::optional<std::uint64_t> end_;
  bool repeats_ = false;
};

}  // namespace brdma::models::tcp
