// qp/timers/retransmission_timers.h - start times of a requester's retransmission timers: when the RTO was armed and
// its backoff, whether the tail loss probe (TLP) of this silence has left, the start of the retry limit, and whether
// the last timeouts may have been spurious. State and transitions only. Lengths: timer_lengths.h; actions:
// timer_actions.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "base/compact_optional.h"
#include "base/units.h"

namespace brdma::qp {

class RetransmissionTimers {
 public:
  // --- transitions ---
  // A packet left when nothing was in flight.
  void on_flight_begun(Instant now) {
    on_progress(now);
    granted_ = 0;
    forget_timeouts();
  }
  // An entry of the send window was newly acknowledged.
  void on_progress(Instant now) {
    progress_ = armed_ = now;
    backoff_ = 0;
    probe_sent_ = false;
  }
  // A packet left or came.
  void on_activity(Instant now) { activity_ = now; }
  void on_acknowledgement(Instant now) {
    on_activity(now);
    acknowledged_since_stall_ = true;
  }
  void on_new_data() { probe_sent_ = false; }
  void on_probe(Instant now) {
    activity_ = now;
    probe_sent_ = true;
    granted_ = 1;
  }
  // The RTO has fired.
  void on_timeout(Instant now) {
    armed_ = activity_ = now;
    if (backoff_ < kCountMax) ++backoff_;
  }
  // The receiver may be ready again: all timers restart, but the backoff stays.
  void on_rnr_end(Instant now) { progress_ = armed_ = activity_ = now; }
  // The base of the send window stood still while later packets arrived. Again only after an acknowledgement.
  void on_window_stall() { acknowledged_since_stall_ = false; }
  // This process did not run for `pause`, which is no silence of the peer's; `at_least`: progress time that leaves one
  // retry.
  void on_own_pause(Duration pause, Instant at_least) { progress_ = std::max(progress_ + pause, at_least); }

  // --- start times ---
  [[nodiscard]] Instant progress() const { return progress_; }  // the retry limit
  [[nodiscard]] Instant armed() const { return armed_; }        // the RTO
  [[nodiscard]] Instant activity() const { return activity_; }  // the probe
  [[nodiscard]] std::uint16_t backoff() const { return backoff_; }
  [[nodiscard]] bool probe_sent() const { return probe_sent_; }
  [[nodiscard]] bool acknowledged_since_stall() const { return acknowledged_since_stall_; }

  // --- retransmissions that may exceed the congestion window: packets sent before a timeout still fill it ---
  void grant(unsigned packets) { granted_ = packets; }
  [[nodiscard]] bool has_grant() const { return granted_ > 0; }
  void use_grant() { --granted_; }

  // --- spurious timeouts (in the spirit of Eifel, RFC 4015): packets sent before a timeout are undecided until the
  //     peer is known to have received a packet sent after it ---
  struct Timeouts {
    Instant last;               // packets sent before are undecided
    std::uint32_t packets = 0;  // unacknowledged then
    std::uint16_t count = 0;
  };
  [[nodiscard]] bool has_undecided() const { return undecided_.has_value(); }
  void add_undecided(std::uint32_t packets, Instant now) {
    undecided_ = now;
    undecided_packets_ = std::max(undecided_packets_, packets);
    if (undecided_timeouts_ < kCountMax) ++undecided_timeouts_;
  }
  [[nodiscard]] std::optional<Timeouts> take_undecided() {
    if (!undecided_) return std::nullopt;
    const Timeouts taken{*undecided_, undecided_packets_, undecided_timeouts_};
    forget_timeouts();
    return taken;
  }
  void forget_timeouts() {
    undecided_.reset();
    undecided_packets_ = 0;
    undecided_timeouts_ = 0;
  }

  // --- a stall that lasts long enough for the operator (events stall_begun, stall_ended) ---
  [[nodiscard]] bool is_stalled() const { return stalled_; }
  void begin_stall() { stalled_ = true; }
  void end_stall() { stalled_ = false; }

 private:
  static constexpr std::uint16_t kCountMax = std::numeric_limits<std::uint16_t>::max();  // a stopped peer has no limit

  Instant progress_, armed_, activity_;
  CompactOptional<Instant> undecided_;
  std::uint32_t undecided_packets_ = 0;
  std::uint16_t undecided_timeouts_ = 0;
  std::uint16_t backoff_ = 0;
  unsigned granted_ = 0;
  bool probe_sent_ = false;
  bool stalled_ = false;
  bool acknowledged_since_stall_ = true;
};

}  // namespace brdma::qp
