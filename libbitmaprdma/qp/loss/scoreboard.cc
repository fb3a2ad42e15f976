#include "qp/loss/scoreboard.h"

#include "base/check.h"

namespace brdma::qp {

using bitmap::EntryState;

void Scoreboard::begin_from(Psn first) {
  restart(first);
  cumulative_ = arrived_end_ = 0;
  flight_ = Flight{};
  retransmitted_ = 0;
}

void Scoreboard::forget_flight() {
  forget_entries();
  cumulative_ = arrived_end_ = base();
  flight_ = Flight{};
  retransmitted_ = 0;
}

bool Scoreboard::request_retransmission(Sequence sequence, std::uint32_t payload) {
  const Psn psn = psn_of(sequence);
  const EntryState before = window().entry(psn).state;
  if (!window().request_retransmission(psn)) return false;
  if (before == EntryState::kRetransmittedUnacked) --retransmitted_;
  flight_.pipe -= payload;
  return true;
}

void Scoreboard::left_again(Sequence sequence, std::uint32_t payload, std::uint8_t path, Instant now) {
  window().retransmitted(psn_of(sequence), path, now);
  if (is_acked(sequence)) return;  // a repeat
  ++retransmitted_;
  flight_.pipe += payload;
}

void Scoreboard::acknowledge_run(Sequence from, Sequence to, std::uint64_t payload) {
  BRDMA_CHECK(is_in_order());
  const auto packets = static_cast<std::uint32_t>(to - from);
  window().acknowledge_run(psn_of(from), packets);
  look_at(packets);
  flight_.packets -= packets;
  flight_.bytes -= payload;
  flight_.pipe -= payload;
}

std::uint32_t Scoreboard::advance(Instant now) {
  const std::uint32_t passed = pass_acknowledged(cumulative_);
  if (passed > 0) base_moved_ = now;
  return passed;
}

void Scoreboard::reopen(Sequence sequence, std::uint32_t payload) {
  reopen_response(sequence);
  count_sent(1, payload);
}

}  // namespace brdma::qp
