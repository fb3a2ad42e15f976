// qp/loss/loss_recovery.h - private: what a requester knows only while a packet is missing or was late. Taken from the
// engine's pool then and given back when all is in order again, so that a queue pair without losses pays one pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/psn.h"
#include "base/units.h"
#include "base/warm_pool.h"
#include "bitmap/gap_table.h"
#include "qp/queues/message_table.h"
#include "recovery/learnt_tolerance.h"
#include "recovery/overtaking.h"

namespace brdma::qp {

// Gaps among the responses of READs and atomics, retransmissions that are held back or in flight, and how far packets
// recently overtook each other.
struct LossRecovery {
  bitmap::GapTable response_gaps;
  std::optional<Instant> response_judge_at;  // the next time at which they are to be judged
  Instant last_response;
  recovery::LearntTolerance response_tolerance;  // of responses that come on one path
  std::optional<Instant> held_until;
  std::optional<Instant> paused_until;  // a switch is full: nothing leaves before
  recovery::Overtaking overtaking;      // lost retransmissions
  // The last sequence NAK that was gone back for. One for a later packet is new, however soon it comes: the peer sends
  // each only once, and is silent then until that packet arrives.
  std::optional<Sequence> gone_back_to;

  [[nodiscard]] bool done() const {
    return response_gaps.empty() && response_tolerance.at_rest() && !held_until && !paused_until &&
           overtaking.at_rest() && !gone_back_to;
  }
  // The base is at `base_psn` now. What has aged is forgotten.
  void on_base_moved(Psn base_psn, Sequence base, Instant now) {
    response_gaps.drop_before(base_psn);
    // The base may have moved up to a gap, which stops it from now on.
    if (!response_gaps.empty() && distance(response_gaps[0].start, base_psn) <= 0)
      response_gaps[0].base_stuck_since = response_judge_at.emplace(now);
    overtaking.elapse(now);
    response_tolerance.elapse(now);
    if (gone_back_to && *gone_back_to < base) gone_back_to.reset();
  }
  void end_waits(Instant now) {  // those that are over
    if (held_until && now >= *held_until) held_until.reset();
    if (paused_until && now >= *paused_until) paused_until.reset();
  }
  void forget() {
    response_gaps.clear();
    response_judge_at.reset();
    last_response = Instant{};
    held_until.reset();
    paused_until.reset();
    response_tolerance.forget();
    overtaking = recovery::Overtaking{};
    gone_back_to.reset();
  }
  [[nodiscard]] std::size_t allocated_bytes() const {
    return response_gaps.allocated_bytes() + response_tolerance.allocated_bytes();
  }
};

// Its place in a requester. The pool outlives it; end() comes before its destruction.
class PooledLossRecovery {
 public:
  PooledLossRecovery() = default;
  ~PooledLossRecovery() { BRDMA_CHECK(state_ == nullptr); }
  PooledLossRecovery(const PooledLossRecovery&) = delete;
  PooledLossRecovery& operator=(const PooledLossRecovery&) = delete;

  [[nodiscard]] explicit operator bool() const { return state_ != nullptr; }
  [[nodiscard]] LossRecovery* operator->() { return state_; }
  [[nodiscard]] const LossRecovery* operator->() const { return state_; }

  // `window`: in packets, of the queue pair.
  LossRecovery& begun(WarmPool<LossRecovery>& pool, std::uint32_t window) {
    if (state_ == nullptr) {
      state_ = pool.take();
      state_->response_gaps.begin(bitmap::response_gaps_max(window));
    }
    return *state_;
  }
  void end(WarmPool<LossRecovery>& pool) {
    if (state_ == nullptr) return;
    state_->forget();
    pool.give(std::exchange(state_, nullptr));
  }

  // The end of the wait of held-back retransmissions.
  [[nodiscard]] std::optional<Instant> held_until() const {
    return state_ == nullptr ? std::nullopt : state_->held_until;
  }
  [[nodiscard]] std::optional<Instant> paused_until() const {
    return state_ == nullptr ? std::nullopt : state_->paused_until;
  }
  [[nodiscard]] bool paused(Instant now) const {
    const auto until = paused_until();
    return until && now < *until;
  }

 private:
  LossRecovery* state_ = nullptr;
};

}  // namespace brdma::qp
