#include "qp/loss/sent_packets.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace brdma::qp {

using bitmap::EntryState;

bool SentPackets::acknowledge(Sequence sequence, const Message& message, Instant now) const {
  Scoreboard& board = parts_.scoreboard;
  const EntryState before = board.state(sequence);
  if (message.answered()) {
    if (!board.acknowledge_response(sequence)) return false;
  } else {
    if (!board.acknowledge(sequence, message.payload_at(sequence, parts_.id.mtu()))) return false;
    const bitmap::SendEntry& entry = board.entry(sequence);
    if (sequence < board.arrived_end() && entry.transmissions == 1) [[unlikely]]
      note_overtaken(sequence, now);
    parts_.segments.on_arrived(message, sequence);
    if (parts_.paths != nullptr) parts_.paths->acknowledged(entry, before == EntryState::kRetransmitPending, now);
  }
  if (parts_.judge != nullptr) [[unlikely]] {
    judgement().on_delivered(sequence, now);
    if (!message.answered() && board.entry(sequence).transmissions > 1) parts_.segments.on_repeated(message, sequence);
  }
  trace(sequence, before, EntryState::kAcked, now);
  return true;
}

// `late` was sent once and has arrived; the newest arrived packet came before it.
void SentPackets::note_overtaken(Sequence late, Instant now) const {
  if (parts_.paths != nullptr || parts_.judge != nullptr) return;  // they track this themselves
  const Scoreboard& board = parts_.scoreboard;
  const Instant sent = board.sent_at(late, now);
  const Instant newest = board.sent_at(board.arrived_end() - 1, now);
  if (newest <= sent) return;
  recovery::Overtaking& overtaking = repairing().overtaking;
  overtaking.on_echo(newest);
  overtaking.came_late(sent, parts_.id.recovery->age_max);
}

void SentPackets::acknowledge_before(Sequence boundary, Instant now) const {
  const Sequence from = parts_.scoreboard.cumulative();
  for (std::size_t i = parts_.messages.find(from); i < parts_.messages.size(); ++i) {
    Message& message = parts_.messages[i];
    if (message.first >= boundary) break;
    if (message.answered()) {
      request_reported(message, now);
      continue;
    }
    acknowledge_unreported(message, std::max(message.first, from), std::min(boundary, message.end()), now);
  }
}

// Those that the peer has reported before are skipped, 64 at a time.
void SentPackets::acknowledge_unreported(const Message& message, Sequence from, Sequence to, Instant now) const {
  for (Sequence at = from; at < to; at += 64) {
    std::uint64_t left = ~parts_.scoreboard.reported(at);
    if (to - at < 64) left &= (std::uint64_t{1} << (to - at)) - 1;
    parts_.scoreboard.look_at(1);
    for (; left != 0; left &= left - 1) acknowledge(at + static_cast<Sequence>(std::countr_zero(left)), message, now);
  }
}

void SentPackets::acknowledge_run(Sequence from, Sequence to, Instant now) const {
  Scoreboard& board = parts_.scoreboard;
  const std::uint64_t bytes = to == board.next() ? board.flight().bytes : payload_of(from, to);
  if (parts_.env.telemetry.sink != nullptr) [[unlikely]] {
    for (Sequence at = from; at < to; ++at) trace(at, board.state(at), EntryState::kAcked, now);
  }
  board.acknowledge_run(from, to, bytes);
}

std::uint64_t SentPackets::payload_of(Sequence from, Sequence to) const {
  const std::uint32_t mtu = parts_.id.mtu();
  std::uint64_t bytes = 0;
  std::size_t i = parts_.messages.find(from);
  for (Sequence at = from; at < to; ++i) {
    const Message& message = parts_.messages[i];
    const Sequence end = std::min(to, message.end());
    bytes += message.payload_before(end, mtu) - message.payload_before(at, mtu);
    at = end;
  }
  return bytes;
}

void SentPackets::request_arrived(Message& message) const {
  message.request_received = true;
  if (message.in_flight_counted) parts_.scoreboard.request_arrived();
  message.in_flight_counted = false;
}

void SentPackets::request_reported(Message& message, Instant now) const {
  if (parts_.judge != nullptr && !message.request_received) [[unlikely]]
    judgement().on_request_arrived(std::max(message.first, parts_.scoreboard.base()), now);
  request_arrived(message);
}

void SentPackets::reopen(Sequence sequence, const Message& message, Instant now) const {
  Scoreboard& board = parts_.scoreboard;
  if (message.answered()) {
    board.reopen_response(sequence);
  } else {
    board.reopen(sequence, message.payload_at(sequence, parts_.id.mtu()));
    parts_.segments.on_reopened(message, sequence);
    if (parts_.paths != nullptr) parts_.paths->reopened(board.entry(sequence));
  }
  trace(sequence, EntryState::kAcked, EntryState::kSuspectedLost, now);
}

void SentPackets::suspect(Sequence sequence, Instant now) const {
  if (parts_.scoreboard.state(sequence) != EntryState::kSentUnacked) return;
  parts_.scoreboard.suspect(sequence);
  trace(sequence, EntryState::kSentUnacked, EntryState::kSuspectedLost, now);
}

bool SentPackets::retransmit(Sequence sequence, const Message& message, Counter cause, Instant now) const {
  const EntryState before = parts_.scoreboard.state(sequence);
  const std::uint32_t mtu = parts_.id.mtu(), payload = message.payload_at(sequence, mtu);
  if (!parts_.scoreboard.request_retransmission(sequence, message.answered() ? 0 : payload)) return false;
  // Judged lost by later arrivals. Drops that a switch reports are counted there; timeouts and probes are no sign of a
  // queue.
  const bool by_arrivals = cause == Counter::kRetransmittedFfm || cause == Counter::kRetransmittedAck;
  if (!message.answered()) {
    if (by_arrivals) parts_.congestion.on_loss(payload, mtu, now);
  } else if (!message.request_received) {
    parts_.responses.congestion().on_interruption();
    parts_.responses.on_request_lost();
  } else if (by_arrivals) {
    parts_.responses.congestion().on_loss(payload, mtu, now);
  }
  if (parts_.paths != nullptr) [[unlikely]]
    note_lost_on_path(sequence, message);
  parts_.env.count(cause);
  trace(sequence, before, EntryState::kRetransmitPending, now);
  return true;
}

// Of a READ request only the request counts, and once: if it arrived, the missing responses took the peer's paths.
void SentPackets::note_lost_on_path(Sequence sequence, const Message& message) const {
  const bitmap::SendEntry& entry = parts_.scoreboard.entry(sequence);
  if (!message.answered()) return parts_.paths->lost(entry);
  if (!message.request_received && sequence == std::max(message.first, parts_.scoreboard.base()))
    parts_.paths->request_lost(entry.path);
}

std::uint32_t SentPackets::retransmit_range(Sequence from, Sequence to, Counter cause, Instant now) const {
  const Scoreboard& board = parts_.scoreboard;
  from = std::max(from, board.base());
  to = std::min(to, board.next());
  std::uint32_t requested = 0;
  while (from < to) {
    const Message& message = message_of(from);
    Sequence first = from, end = std::min(to, message.end());
    if (message.answered()) {  // one request brings all missing responses
      first = std::max(message.first, board.base());
      end = message.end();
    }
    for (Sequence at = first; at < end; ++at) requested += retransmit(at, message, cause, now) ? 1 : 0;
    from = end;
  }
  return requested;
}

void SentPackets::withdraw(Instant made, Instant now) const {
  constexpr Duration kTick = 64_ns;  // resolution of the kept times
  const Scoreboard& board = parts_.scoreboard;
  for (Sequence at = board.base(); at < board.next(); ++at) {
    const EntryState state = board.state(at);
    const bool under_way = state == EntryState::kSentUnacked || state == EntryState::kRetransmittedUnacked;
    if (!under_way || board.sent_at(at, now) + kTick < made) continue;
    retransmit(at, message_of(at), Counter::kRetransmittedTimeout, now);
  }
}

void SentPackets::left_again(Sequence sequence, std::uint32_t payload, std::uint8_t path, Instant now) const {
  parts_.scoreboard.left_again(sequence, payload, path, now);
  if (parts_.scoreboard.is_acked(sequence)) return;  // a repeat: nothing is awaited of it
  note_left(sequence, now);
  trace(sequence, EntryState::kRetransmitPending, EntryState::kRetransmittedUnacked, now);
}

Sequence SentPackets::newest_open() const {
  Sequence last = parts_.scoreboard.next() - 1;
  while (parts_.scoreboard.is_acked(last)) --last;
  return last;
}

Sequence SentPackets::oldest_open() const {
  Sequence first = parts_.scoreboard.base();
  while (parts_.scoreboard.is_acked(first)) ++first;
  return first;
}

void SentPackets::repeat(Sequence sequence, Counter cause) const {
  BRDMA_CHECK(!message_of(sequence).answered());  // a response that has arrived shows that its request was executed
  if (parts_.scoreboard.request_repeat(sequence)) parts_.env.count(cause);
}

}  // namespace brdma::qp
