// Retransmission: pending entries leave before new packets, lowest PSN first, so that neighbours travel in one batch,
// whoever requested them (spec 1: aggregated retransmission). Payload comes from the application's memory, looked up
// again: the region may be gone.
#include <algorithm>
#include <utility>

#include "qp/send/requester_impl.h"
#include "wire/read_copy.h"

namespace brdma::qp {

using bitmap::EntryState;

// Waits until more can leave with it; a full batch, and packets of a timeout or probe, do not wait.
bool Requester::Impl::holds_back(Instant now) const {
  constexpr std::uint32_t kFullBatch = 16;
  const auto until = loss_recovery.held_until();
  return until && now < *until && scoreboard.pending() < kFullBatch && !timers.has_grant();
}

// A retransmission lost again leaves this count when it is requested again.
bool Requester::Impl::resend_window_full(std::uint32_t more) const {
  return limits().retransmissions_full(more) && !timers.has_grant();
}

bool Requester::Impl::poll_resend(TransmitBatch& batch, Instant now) {
  if (scoreboard.pending() == 0 || holds_back(now)) return false;
  if (loss_recovery) loss_recovery->held_until.reset();
  PayloadCursor cursor(env.memory, id.pd, 0);
  std::uint32_t packets = 0, runs = 0;
  Sequence from = scoreboard.base();
  while (scoreboard.pending() > 0) {
    const Sequence sequence = scoreboard.next_pending(from);
    if (sequence == scoreboard.next()) break;
    Message& message = message_of(sequence);
    if (fault.is_set_at(message.wqe) || !rnr.may_leave(sequence)) break;
    if (resend_window_full()) {
      env.count(Counter::kResendWindowFull);
      break;
    }
    const bool sent = message.answered() ? resend_request(sequence, message, cursor, batch, now)
                                         : resend_data(sequence, message, cursor, batch, now);
    if (!sent) break;
    if (packets++ == 0 || sequence != from + 1) ++runs;
    from = sequence;
  }
  if (packets == 0) return false;
  env.count(runs > 1      ? Counter::kRetransmitAggregated
            : packets > 1 ? Counter::kRetransmitInterval
                          : Counter::kRetransmitSingle);
  return true;
}

bool Requester::Impl::resend_data(Sequence sequence, const Message& message, PayloadCursor& cursor,
                                  TransmitBatch& batch, Instant now) {
  const std::uint32_t mtu = id.mtu();
  const std::uint32_t payload = message.payload_at(sequence, mtu);
  // Under the congestion window like new packets, except those that end a silence.
  if (!limits().congestion_admits(payload) && !timers.has_grant()) {
    admission.note_congestion_limited();
    return false;
  }
  cursor.seek(queue, message.wqe, message.offset + static_cast<std::uint32_t>(sequence - message.first) * mtu);
  if (!cursor.take(message.by_reference != 0 ? message.by_reference : payload)) {
    fault.set(message.wqe, CompletionStatus::kLocalProtectionError);
    return false;
  }
  ReferenceBuffer reference;
  std::span<const Slice> slices = cursor.slices();
  if (message.by_reference != 0) slices = reference.make(id.local->own_key(), slices);
  wire::Packet packet;
  builder().data(packet, message, sequence, true, now);
  const std::size_t bytes = TransmitBatch::packet_bytes(packet, payload);
  if (!batch.fits(bytes, slices.size(), packet.bitmap)) return false;
  // A standard peer acknowledges only on request: a waiting packet behind this one depends on it.
  packet.bth.ack_request = scoreboard.pending() == 1 || rnr.ends_with(sequence) || resend_window_full(1) ||
                           wants_ack(message, sequence + 1 == message.end());
  if (!limits().congestion_admits(payload)) timers.use_grant();
  if (paths) [[unlikely]]
    fill_path_fields(packet, batch, 1, true, now);
  batch.add(packet, slices, payload);
  sent_packets().left_again(sequence, payload, batch.path(), now);
  trace_sent(env, id, packet, bytes, true, now);
  return true;
}

// A peer in bitmap mode gets the run of pending responses from `pending` on. Any other gets one request for all from
// the oldest missing to the last pending one (in go-back-N to the end, as plain RoCE does), including received ones in
// between. Linux's responder takes the start of the newest repetition for the start of the READ, and silently drops
// requests for earlier parts.
Requester::Impl::Rerequested Requester::Impl::read_rerequest(Sequence pending, const Message& message) const {
  const auto state = [this](Sequence at) { return scoreboard.state(at); };
  Rerequested asked{pending, message.end()};
  if (id.bitmap_agreed && !goes_back()) {
    asked.end = pending;
    while (asked.end < message.end() && state(asked.end) == EntryState::kRetransmitPending) ++asked.end;
    return asked;
  }
  asked.first = std::max(message.first, scoreboard.base());
  while (state(asked.first) == EntryState::kAcked) ++asked.first;
  while (!goes_back() && state(asked.end - 1) != EntryState::kRetransmitPending) --asked.end;
  return asked;
}

bool Requester::Impl::resend_request(Sequence pending, Message& message, PayloadCursor& cursor, TransmitBatch& batch,
                                     Instant now) {
  const Rerequested asked = read_rerequest(pending, message);
  const std::uint32_t payload = builder().request_payload(message);
  cursor.seek(queue, message.wqe, 0);
  if (!cursor.take(payload)) {
    fault.set(message.wqe, CompletionStatus::kLocalProtectionError);
    return false;
  }
  wire::Packet packet;
  builder().request(packet, message, asked.first, asked.packets(), true, now);
  // A receiver that has got the other one by then need not respond twice.
  if (std::exchange(message.reported_dropped, false) && !message.request_received && id.peer_knows_copies &&
      message.kind == MessageKind::kRead && packet.bitmap) {
    wire::mark_copy(packet);
  }
  const std::size_t bytes = TransmitBatch::packet_bytes(packet, payload);
  if (!batch.fits(bytes, cursor.slices().size(), packet.bitmap)) return false;
  if (paths) [[unlikely]]
    fill_path_fields(packet, batch, asked.packets(), true, now);
  batch.add(packet, cursor.slices(), payload);
  for (Sequence at = asked.first; at < asked.end; ++at) {
    if (scoreboard.state(at) != EntryState::kRetransmitPending) continue;
    sent_packets().left_again(at, 0, batch.path(), now);
  }
  if (message.kind == MessageKind::kRead) env.count(Counter::kReadsReissued);
  if (response_pace() != nullptr) [[unlikely]]
    response_pacing().on_requested(message, asked.packets(), now);
  trace_sent(env, id, packet, bytes, true, now);
  return true;
}

}  // namespace brdma::qp
