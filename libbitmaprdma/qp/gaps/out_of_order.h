// qp/gaps/out_of_order.h - what a responder knows only while packets are missing. Taken from the engine's pool when
// the first packet comes early, and given back when all is in order again. It costs a queue pair without losses a
// pointer, and busy ones share a few warm ones. The requester's is in qp/loss/loss_recovery.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/config.h"
#include "base/psn.h"
#include "base/units.h"
#include "base/warm_pool.h"
#include "bitmap/gap_table.h"
#include "bitmap/segment_pool.h"
#include "bitmap/window_shape.h"
#include "memory/copy.h"
#include "qp/acknowledge/sack_ranges.h"
#include "qp/receive/early_packets.h"

namespace brdma::qp {

// A standard peer that got a sequence NAK sends everything from `base` to `end` again. A gap in there is no new
// evidence until packets beyond it come a second time.
struct GoBack {
  bool active = false;
  Psn base;                   // named by the NAK
  Psn end;                    // highest PSN received when the peer went back: all before that had left before
  std::uint32_t repeats = 0;  // packets beyond the base that came again since the base last moved
  Instant first_repeat;
};

inline void bring_forward(std::optional<Instant>& deadline, Instant candidate) {
  if (!deadline || candidate < *deadline) deadline = candidate;
}

// Next time or highest PSN that changes the gap records; most packets pass without a look at them.
struct GapWatch {
  std::optional<Instant> judge_at;   // earliest deadline of a waiting gap
  std::optional<Instant> repeat_at;  // earliest repetition of an FFM
  bool depth_armed = false;
  Psn depth_psn;  // once the highest PSN gets here, a waiting gap is too deep

  // A gap waits that is too deep once the highest PSN is `too_deep`. Only the first one counts: others are behind it.
  void arm_depth(Psn too_deep) {
    if (!depth_armed) depth_psn = too_deep;
    depth_armed = true;
  }
  [[nodiscard]] bool is_too_deep(Psn highest) const { return depth_armed && distance(highest, depth_psn) >= 0; }
  [[nodiscard]] bool is_judgement_due(Instant now) const { return judge_at && now >= *judge_at; }
  [[nodiscard]] bool is_repetition_due(Instant now) const { return repeat_at && now >= *repeat_at; }
  // `naming`: an FFM is about to leave anyway.
  [[nodiscard]] std::optional<Instant> next_event(bool naming) const {
    std::optional<Instant> next = judge_at;
    if (repeat_at && !naming) bring_forward(next, *repeat_at);
    return next;
  }
};

// The promoted gaps to report next, without a look at each: on a long path there are thousands, and nearly all wait for
// their retransmission.
struct FeedbackWatch {
  static constexpr std::size_t kClasses = 5;  // by times a gap was named: the interval doubles so often at most
  std::optional<Psn> unnamed;                 // no gap before it is promoted and unnamed
  std::uint32_t unnamed_count = 0;       // promoted since the last FFM: as many as recovery.ffm_threshold leave at once
  std::optional<Instant> unnamed_until;  // fewer wait until then
  std::optional<Psn> continued_at;       // the last message was full: the next begins there
  std::array<std::optional<Instant>, kClasses> oldest{};  // by class: none was named earlier, though it may have closed
  bool look = false;                                      // scan all of them: one may be due
  [[nodiscard]] static std::size_t class_of(std::uint16_t feedbacks) {
    return std::min<std::size_t>(feedbacks == 0 ? 0 : feedbacks - 1u, kClasses - 1);
  }
  void promoted(Psn start) {
    ++unnamed_count;
    if (!unnamed || distance(start, *unnamed) < 0) unnamed = start;
    if (continued_at && distance(start, *continued_at) < 0) continued_at = start;
  }
  void all_named() {
    unnamed.reset();
    unnamed_count = 0;
    unnamed_until.reset();
    continued_at.reset();
  }
};

// The packet at the base is here and waits for a receive.
struct ReceiveWait {
  std::optional<Instant> until;  // the RNR NAK is due
  bool refused = false;          // it has left: this packet waits no more
};

// Of a responder: as long as its receive window holds packets.
struct OutOfOrderState {
  bitmap::GapTable gaps;
  EarlyPackets early;
  GapWatch watch;
  FeedbackWatch feedback;
  SackRanges ranges;
  GoBack go_back;
  ReceiveWait receive_wait;
  Instant last_arrival;              // the peer's last request packet
  std::uint64_t gaps_looked_at = 0;  // for feedback; a measure of its cost, for tests

  // Nothing has come early yet. `shape`: of the window.
  void begin(const RecoveryConfig& recovery, const bitmap::WindowShape& shape, std::uint32_t mtu,
             bitmap::SegmentPool& segments) {
    early.begin(mtu, recovery.hold_bytes_max, shape, segments);
    gaps.begin(bitmap::gaps_max(recovery.window_packets));
    watch = GapWatch{};
    feedback = FeedbackWatch{};
    gaps_looked_at = 0;
    ranges = SackRanges{};
    go_back = GoBack{};
    receive_wait = ReceiveWait{};
    last_arrival = Instant{};
  }
  void clear() {
    gaps.clear();
    early.clear();
  }
  // Of the records of early packets (payload apart) and of gaps.
  [[nodiscard]] std::size_t records_bytes() const {
    return early.state_bytes() + gaps.size() * sizeof(bitmap::GapRecord);
  }
  [[nodiscard]] std::size_t allocated_bytes() const { return gaps.allocated_bytes() + early.allocated_bytes(); }
};

// Its place in a responder. The pool outlives it; end() comes before its destruction.
class PooledOutOfOrder {
 public:
  PooledOutOfOrder() = default;
  ~PooledOutOfOrder() { BRDMA_CHECK(state_ == nullptr); }
  PooledOutOfOrder(const PooledOutOfOrder&) = delete;
  PooledOutOfOrder& operator=(const PooledOutOfOrder&) = delete;

  [[nodiscard]] explicit operator bool() const { return state_ != nullptr; }
  [[nodiscard]] OutOfOrderState* operator->() const { return state_; }
  [[nodiscard]] OutOfOrderState& operator*() const { return *state_; }
  [[nodiscard]] OutOfOrderState* get() const { return state_; }

  // It is to be begun then (OutOfOrderState::begin). Precondition: there is none.
  OutOfOrderState& take(WarmPool<OutOfOrderState>& pool) { return *(state_ = pool.take()); }
  void end(WarmPool<OutOfOrderState>& pool) {
    if (state_ == nullptr) return;
    state_->clear();
    pool.give(std::exchange(state_, nullptr));
  }
  [[nodiscard]] std::size_t records_bytes() const { return state_ == nullptr ? 0 : state_->records_bytes(); }

 private:
  OutOfOrderState* state_ = nullptr;
};

// The record of an early packet with that PSN. `state` is null while nothing has come early.
[[nodiscard]] inline const EarlyPackets::Record* find_early(const OutOfOrderState* state, Psn psn) {
  return state == nullptr ? nullptr : state->early.find(psn);
}
// Copies the part not written by packets of a higher PSN. False: part of the memory is not mapped.
[[nodiscard]] inline bool copy_uncovered(const OutOfOrderState* state, Psn psn, std::byte* to, ConstBytes payload) {
  if (state == nullptr) [[likely]]
    return copy_end_last(to, payload);
  return state->early.copy_uncovered(psn, to, payload);
}

}  // namespace brdma::qp
