// models/tcp/sender.h - the source of a TCP flow. It joins the parts: scoreboard, window, RTO, RACK, probe.
// Recovery with SACK: RFC 6675 section 5, with 3 duplicate SACKs or RACK as its entry. Without: RFC 6582 section 3.2.
//   entry: ssthresh and window by `Window`; the first lost segment leaves at once, others while pipe < window
//   NewReno: the window is inflated by one SMSS per duplicate ACK, a partial ACK resends the next hole and deflates
//   exit: `una` passes the highest byte sent at entry
// ssthresh is taken of min(flight, window): limited transmit is not counted (RFC 5681 section 3.2).
// RTO: RFC 6298; expiry marks all outstanding segments lost (with RACK: those that are late). It is armed again by each
// advance of `una`, and by a retransmission of the first segment.
// EDN: a notification marks its segment lost, if it is of the copy in flight. The window is reduced as by the entry to
// recovery, once each recovery.
// Left out: the rescue retransmission of RFC 6675 (optional), proportional rate reduction, F-RTO, ECN.
#pragma once

#include <memory>

#include "models/tcp/probe.h"
#include "models/tcp/rack.h"
#include "models/tcp/window.h"

namespace brdma::models::tcp {

class TcpSender final : public Sender {
 public:
  TcpSender(FlowId flow, const Settings& settings);

  void start(std::uint64_t bytes, Instant now) override;
  void on_frame(const Frame& frame, Instant now) override;
  [[nodiscard]] std::optional<Instant> ready_at() const override;
  [[nodiscard]] std::optional<Frame> next_frame(Instant now) override;
  [[nodiscard]] std::optional<Instant> next_deadline() const override;
  void on_deadline(Instant now) override;
  [[nodiscard]] bool done() const override { return started_at_ && board_.all_acknowledged(); }
  [[nodiscard]] const Counters& counters() const override { return counters_; }
  [[nodiscard]] std::uint64_t window() const override { return window_->bytes() + recovery_.inflation; }
  [[nodiscard]] Bandwidth rate() const override { return {}; }
  [[nodiscard]] const RtoEstimator& rto() const { return rto_; }

 private:
  enum class State : std::uint8_t { kOpen, kRecovery, kLoss };
  struct Recovery {
    State state = State::kOpen;
    std::uint64_t point = 0;      // bytes; it ends when all below are acknowledged
    std::uint64_t inflation = 0;  // NewReno
    unsigned duplicate_acks = 0;  // NewReno
    unsigned forced = 0;          // retransmissions that the window does not hold back
    bool probe_due = false;
  };
  struct Plan {
    SegmentIndex index;
    bool is_new;
    Cause cause;
  };

  void on_ack(const Frame& frame, Instant now);
  bool take_delivered(const Frame& frame, Instant now);
  void on_notice(const Frame& frame, Instant now);
  void sample_rtt(const Frame& frame, Instant now);
  void on_advance(std::uint64_t acked, Instant now);
  void on_duplicate_ack(Instant now);
  void detect_losses(Instant now);
  void enter_recovery(Instant now);
  void leave_recovery();
  void on_timeout(Instant now);
  void on_probe_time(Instant now);
  void arm_probe(Instant now);
  void on_sent(const Plan& plan, Instant now);
  [[nodiscard]] bool has_room(std::uint32_t bytes) const { return board_.pipe() + bytes <= window(); }
  [[nodiscard]] std::uint64_t flight() const { return std::min(board_.flight(), window_->bytes()); }
  [[nodiscard]] Duration rack_window() const;
  [[nodiscard]] std::optional<Plan> plan() const;
  [[nodiscard]] std::optional<Plan> plan_probe() const;
  [[nodiscard]] std::optional<Plan> plan_in_window() const;

  FlowId flow_;
  Settings settings_;
  Counters counters_;
  Scoreboard board_;
  std::unique_ptr<Window> window_;
  RtoEstimator rto_;
  std::optional<Instant> rto_deadline_;
  Rack rack_;
  Probe probe_;
  Recovery recovery_;
  std::optional<Instant> started_at_;
};

}  // namespace brdma::models::tcp
