// qp/timers/receiver_not_ready.h - a requester after an RNR NAK (IBTA 9.7.5.2.8): how long nothing leaves, how often
// the receiver has refused in a row, and how few packets leave at first. State and transitions only; handle_ack.cc and
// timer_actions.h act on them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/compact_optional.h"
#include "base/units.h"
#include "qp/queues/message_table.h"

namespace brdma::qp {

// The wait that an RNR NAK's syndrome asks for: 10 us to 655 ms (IBTA table 45).
[[nodiscard]] Duration rnr_wait(std::uint8_t syndrome);

class ReceiverNotReady {
 public:
  static constexpr std::uint8_t kRetriesForever = 7;  // of ibv_qp_attr::rnr_retry
  // A receiver that has executed so many packets after an RNR NAK is ready.
  static constexpr std::uint32_t kFewMax = 64;

  // --- transitions ---
  // The packet at `at` was refused. False: more often in a row than `retries`. `few_first`: packets behind it may be
  // refused as well, and then all behind those are dropped again; so it leaves alone, then twice as many as were
  // executed. Precondition: not waiting().
  [[nodiscard]] bool on_nak(Sequence at, std::uint8_t retries, bool few_first, Instant until) {
    if (retries != kRetriesForever && refusals_++ >= retries) return false;
    if (few_first) {
      end_ = at + 1;
      few_ = 1;
    }
    until_ = until;
    return true;
  }
  void on_wait_over() { until_.reset(); }
  // The receiver has executed everything before `cumulative`.
  void on_executed(Sequence cumulative) {
    if (is_recovering() && cumulative >= end_) widen(cumulative);
    refusals_ = 0;
  }
  // As on_executed(), where nothing was refused recently.
  void on_executed_in_steady_state() { refusals_ = 0; }
  // Silence: acknowledgements that would have widened it may have been lost.
  void on_timeout(Sequence cumulative) {
    if (is_recovering()) widen(cumulative);
  }
  // The receiver reports that it has taken all that was let out.
  void on_taken() { few_ = 0; }

  // --- answers ---
  [[nodiscard]] bool waiting() const { return until_.has_value(); }
  [[nodiscard]] std::optional<Instant> until() const { return until_; }
  [[nodiscard]] bool wait_is_over(Instant now) const { return waiting() && now >= *until_; }
  [[nodiscard]] bool is_recovering() const { return few_ != 0; }
  [[nodiscard]] Sequence end() const { return end_; }  // of what may leave. Precondition: is_recovering()
  [[nodiscard]] bool may_leave(Sequence sequence) const { return !is_recovering() || sequence < end_; }
  // `sequence` is the last that may leave, so that it asks for an acknowledgement.
  [[nodiscard]] bool ends_with(Sequence sequence) const { return is_recovering() && sequence + 1 == end_; }

 private:
  void widen(Sequence cumulative) {
    few_ *= 2;
    end_ = std::max(end_, cumulative) + few_;
    if (few_ > kFewMax) few_ = 0;
  }

  CompactOptional<Instant> until_;  // nothing leaves before
  Sequence end_ = 0;
  std::uint32_t few_ = 0;  // packets that may leave at once; 0: any number
  std::uint32_t refusals_ = 0;
};

}  // namespace brdma::qp
