#include "qp/loss/retransmissions.h"

#include <algorithm>
#include <utility>

#include "qp/read/response_pacing.h"
#include "qp/send/local_references.h"
#include "wire/read_copy.h"

namespace brdma::qp {

using bitmap::EntryState;

namespace {

// Of one batch with so many packets; `runs`: of neighbours.
Counter counter_of(std::uint32_t packets, std::uint32_t runs) {
  if (runs > 1) return Counter::kRetransmitAggregated;
  return packets > 1 ? Counter::kRetransmitInterval : Counter::kRetransmitSingle;
}

}  // namespace

// Waits until more can leave with it; a full batch, and packets of a timeout or probe, do not wait.
bool Retransmissions::holds_back(Instant now) const {
  constexpr std::uint32_t kFullBatch = 16;
  const auto until = parts_.loss.held_until();
  return until && now < *until && parts_.scoreboard.pending() < kFullBatch && !parts_.timers.has_grant();
}

// A retransmission lost again leaves this count when it is requested again.
bool Retransmissions::window_full(std::uint32_t more) const {
  return limits().retransmissions_full(more) && !parts_.timers.has_grant();
}

bool Retransmissions::may_leave(Instant now) const {
  if (holds_back(now) || window_full()) return false;
  const Sequence next = parts_.scoreboard.next_pending(parts_.scoreboard.base());
  return parts_.rnr.may_leave(next) && (limits().congestion_admits(parts_.id.mtu()) || parts_.timers.has_grant());
}

// The fault of its message, the receiver and the retransmission window allow that the pending packet leaves.
bool Retransmissions::admits(Sequence sequence, const Message& message) const {
  if (parts_.fault.is_set_at(message.wqe) || !parts_.rnr.may_leave(sequence)) return false;
  if (!window_full()) return true;
  parts_.env.count(Counter::kResendWindowFull);
  return false;
}

bool Retransmissions::resend(Sequence sequence, PayloadCursor& cursor, TransmitBatch& batch, Instant now) const {
  Message& message = parts_.packets.message_of(sequence);
  if (!admits(sequence, message)) return false;
  return message.answered() ? resend_request(sequence, message, cursor, batch, now)
                            : resend_data(sequence, message, cursor, batch, now);
}

bool Retransmissions::poll(TransmitBatch& batch, Instant now) const {
  if (holds_back(now)) return false;
  if (parts_.loss) parts_.loss->held_until.reset();
  const Scoreboard& scoreboard = parts_.scoreboard;
  PayloadCursor cursor(parts_.env.memory, parts_.id.pd, 0);
  std::uint32_t packets = 0, runs = 0;
  Sequence from = scoreboard.base();
  while (scoreboard.pending() > 0) {
    const Sequence sequence = scoreboard.next_pending(from);
    if (sequence == scoreboard.next() || !resend(sequence, cursor, batch, now)) break;
    if (packets++ == 0 || sequence != from + 1) ++runs;
    from = sequence;
  }
  if (packets == 0) return false;
  parts_.env.count(counter_of(packets, runs));
  return true;
}

bool Retransmissions::resend_data(Sequence sequence, const Message& message, PayloadCursor& cursor,
                                  TransmitBatch& batch, Instant now) const {
  const std::uint32_t mtu = parts_.id.mtu();
  const std::uint32_t payload = message.payload_at(sequence, mtu);
  // Under the congestion window like new packets, except those that end a silence.
  if (!limits().congestion_admits(payload) && !parts_.timers.has_grant()) {
    parts_.admission.note_congestion_limited();
    return false;
  }
  cursor.seek(parts_.queue, message.wqe, message.offset + static_cast<std::uint32_t>(sequence - message.first) * mtu);
  if (!cursor.take(message.by_reference != 0 ? message.by_reference : payload)) {
    parts_.fault.set(message.wqe, CompletionStatus::kLocalProtectionError);
    return false;
  }
  ReferenceBuffer reference;
  std::span<const Slice> slices = cursor.slices();
  if (message.by_reference != 0) slices = reference.make(parts_.id.local->own_key(), slices);
  wire::Packet packet;
  builder().data(packet, message, sequence, true, now);
  const std::size_t bytes = TransmitBatch::packet_bytes(packet, payload);
  if (!batch.fits(bytes, slices.size(), packet.bitmap)) return false;
  // A standard peer acknowledges only on request: a waiting packet behind this one depends on it.
  const bool must_ask = parts_.scoreboard.pending() == 1 || parts_.rnr.ends_with(sequence) || window_full(1);
  packet.bth.ack_request = ack_requests().next_asks(message, sequence + 1 == message.end(), must_ask);
  if (!limits().congestion_admits(payload)) parts_.timers.use_grant();
  if (parts_.paths != nullptr) [[unlikely]]
    put_path(packet, sequence, batch.path(), now);
  batch.add(packet, slices, payload);
  parts_.packets.left_again(sequence, payload, batch.path(), now);
  trace_sent(parts_.env, parts_.id, packet, bytes, true, now);
  return true;
}

// A repeat of an acknowledged packet is not in flight on its path.
void Retransmissions::put_path(wire::Packet& packet, Sequence sequence, std::uint8_t path, Instant now) const {
  if (parts_.scoreboard.is_acked(sequence)) {
    packet.bxth.path = path;
  } else {
    parts_.paths->put_fields(packet, path, 1, true, now);
  }
}

// A peer in bitmap mode gets the run of pending responses from `pending` on. Any other gets one request for all from
// the oldest missing to the last pending one (in go-back-N to the end, as plain RoCE does), including received ones in
// between. Linux's responder takes the start of the newest repetition for the start of the READ, and silently drops
// requests for earlier parts.
Retransmissions::Rerequested Retransmissions::read_rerequest(Sequence pending, const Message& message) const {
  const auto state = [this](Sequence at) { return parts_.scoreboard.state(at); };
  Rerequested asked{pending, message.end()};
  if (parts_.id.bitmap_agreed && !parts_.id.goes_back()) {
    asked.end = pending;
    while (asked.end < message.end() && state(asked.end) == EntryState::kRetransmitPending) ++asked.end;
    return asked;
  }
  asked.first = std::max(message.first, parts_.scoreboard.base());
  while (state(asked.first) == EntryState::kAcked) ++asked.first;
  while (!parts_.id.goes_back() && state(asked.end - 1) != EntryState::kRetransmitPending) --asked.end;
  return asked;
}

bool Retransmissions::resend_request(Sequence pending, Message& message, PayloadCursor& cursor, TransmitBatch& batch,
                                     Instant now) const {
  const Rerequested asked = read_rerequest(pending, message);
  const std::uint32_t payload = builder().request_payload(message);
  cursor.seek(parts_.queue, message.wqe, 0);
  if (!cursor.take(payload)) {
    parts_.fault.set(message.wqe, CompletionStatus::kLocalProtectionError);
    return false;
  }
  wire::Packet packet;
  builder().request(packet, message, asked.first, asked.packets(), true, now);
  // A receiver that has got the other one by then need not respond twice.
  if (std::exchange(message.reported_dropped, false) && !message.request_received && parts_.id.peer_knows_copies &&
      message.kind == MessageKind::kRead && packet.bitmap) {
    wire::mark_copy(packet);
  }
  const std::size_t bytes = TransmitBatch::packet_bytes(packet, payload);
  if (!batch.fits(bytes, cursor.slices().size(), packet.bitmap)) return false;
  if (parts_.paths != nullptr) [[unlikely]]
    parts_.paths->put_fields(packet, batch.path(), asked.packets(), true, now);
  batch.add(packet, cursor.slices(), payload);
  for (Sequence at = asked.first; at < asked.end; ++at) {
    if (parts_.scoreboard.state(at) != EntryState::kRetransmitPending) continue;
    parts_.packets.left_again(at, 0, batch.path(), now);
  }
  if (message.kind == MessageKind::kRead) parts_.env.count(Counter::kReadsReissued);
  if (parts_.pace != nullptr) [[unlikely]]
    ResponsePacing{{parts_.env, parts_.id, parts_.rtt, parts_.return_path, *parts_.pace}}.on_requested(
        message, asked.packets(), now);
  trace_sent(parts_.env, parts_.id, packet, bytes, true, now);
  return true;
}

}  // namespace brdma::qp
