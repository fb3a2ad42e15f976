#include "qp/loss/scoreboard.h"

#include <algorithm>

#include "base/check.h"

namespace brdma::qp {

using bitmap::EntryState;

void Scoreboard::begin_from(Psn first) {
  window_.reset(first);
  base_ = cumulative_ = arrived_end_ = 0;
  flight_ = Flight{};
  retransmitted_ = 0;
}

void Scoreboard::forget_flight() {
  window_.reset(window_.next());
  cumulative_ = arrived_end_ = base_;
  flight_ = Flight{};
  retransmitted_ = 0;
}

std::optional<Sequence> Scoreboard::sequence_of(Psn psn) const {
  if (!window_.contains(psn)) return std::nullopt;
  return base_ + static_cast<Sequence>(distance(psn, window_.base()));
}

Sequence Scoreboard::next_pending(Sequence from) const {
  return base_ + static_cast<Sequence>(distance(window_.next_pending(psn_of(from)), window_.base()));
}

bool Scoreboard::request_retransmission(Sequence sequence, std::uint32_t payload) {
  const Psn psn = psn_of(sequence);
  const EntryState before = window_.entry(psn).state;
  if (!window_.request_retransmission(psn)) return false;
  if (before == EntryState::kRetransmittedUnacked) --retransmitted_;
  flight_.pipe -= payload;
  return true;
}

void Scoreboard::left_again(Sequence sequence, std::uint32_t payload, std::uint8_t path, Instant now) {
  window_.retransmitted(psn_of(sequence), path, now);
  ++retransmitted_;
  flight_.pipe += payload;
}

void Scoreboard::acknowledge_run(Sequence from, Sequence to, std::uint64_t payload) {
  BRDMA_CHECK(is_in_order());
  const auto packets = static_cast<std::uint32_t>(to - from);
  window_.acknowledge_run(psn_of(from), packets);
  looked_at_ += packets;
  flight_.packets -= packets;
  flight_.bytes -= payload;
  flight_.pipe -= payload;
}

std::uint32_t Scoreboard::advance(Instant now) {
  const std::uint32_t passed = window_.advance(psn_of(cumulative_));
  if (passed == 0) return 0;
  looked_at_ += passed;
  base_ += passed;
  base_moved_ = now;
  return passed;
}

void Scoreboard::reopen(Sequence sequence, std::uint32_t payload) {
  reopen_response(sequence);
  count_sent(1, payload);
}

Sequence Scoreboard::first_unreported(Sequence from, Sequence to) const {
  from = std::max(from, base_);
  if (from >= to) return to;
  const std::uint32_t passed = window_.find_unreported(psn_of(from), static_cast<std::uint32_t>(to - from));
  looked_at_ += 1 + passed / 64;
  return from + passed;
}

}  // namespace brdma::qp
