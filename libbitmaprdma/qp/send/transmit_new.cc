// New packets: a message begins when fence, READ limits, window and credit allow its first packet, then continues
// packet by packet. The order of work requests is the order on the wire.
#include "qp/send/local_operation.h"
#include "qp/send/requester_impl.h"

namespace brdma::qp {
bool Requester::Impl::poll_new(TransmitBatch& batch, Instant now) {
  if (queue.next() == queue.tail() && messages.all_left(scoreboard.next())) return false;
  PayloadCursor cursor(env.memory, id.pd, 0);
  bool added = false;
  while (true) {
    if (transmit_small(cursor, batch, now)) {
      added = true;
      if (queue.next() == queue.tail()) break;
    }
    if (!ready_to_send_new(now)) break;
    if (messages.all_left(scoreboard.next())) {
      if (is_local(queue[queue.next()].opcode)) [[unlikely]] {
        if (!LocalOperations{{env, id, queue, fault}}.execute(now)) break;
        continue;
      }
      message_start().begin();
    }
    Message& message = messages.back();
    if (fault.is_set_at(message.wqe)) break;
    if (message.packets > 2 && transmit_middle(message, cursor, batch, now)) {
      added = true;
      continue;
    }
    const bool sent =
        message.answered() ? transmit_request(message, cursor, batch, now) : transmit_data(message, cursor, batch, now);
    if (!sent) break;
    added = true;
  }
  env.note_length(now, id.qpn, trace::WindowSide::kSend, scoreboard);
  return added;
}

bool Requester::Impl::transmit_data(const Message& message, PayloadCursor& cursor, TransmitBatch& batch, Instant now) {
  const std::uint32_t mtu = id.mtu();
  const Sequence sequence = scoreboard.next();
  const std::uint32_t payload = message.payload_at(sequence, mtu);
  cursor.seek(queue, message.wqe, message.offset + static_cast<std::uint32_t>(sequence - message.first) * mtu);
  if (!cursor.take(message.by_reference != 0 ? message.by_reference : payload)) {
    fault.set(message.wqe, CompletionStatus::kLocalProtectionError);
    return false;
  }
  ReferenceBuffer reference;
  std::span<const Slice> slices = cursor.slices();
  if (message.by_reference != 0) [[unlikely]]
    slices = reference.make(id.local->own_key(), slices);
  wire::Packet packet;
  builder().data(packet, message, sequence, false, now);
  const std::size_t bytes = TransmitBatch::packet_bytes(packet, payload);
  if (!batch.fits(bytes, slices.size(), packet.bitmap)) return false;
  packet.bth.ack_request = ack_requests().next_asks(message, sequence + 1 == message.end());
  if (scoreboard.empty()) timers.on_flight_begun(now);
  if (paths) [[unlikely]]
    paths->put_fields(packet, batch.path(), 1, false, now);
  batch.add(packet, slices, payload);
  if (message.by_reference != 0) [[unlikely]]
    env.count(Counter::kByReference);
  if (message.segment_packets != 0 && segments.on_sent(message, sequence)) env.count(Counter::kOperationsSent);
  scoreboard.sent(payload, batch.path(), now);
  sent_packets().note_left(sequence, now);
  admission.on_sent();
  timers.on_new_data();
  env.count(Counter::kSentDataPackets);
  trace_sent(env, id, packet, bytes, false, now);
  return true;
}

bool Requester::Impl::transmit_request(Message& message, PayloadCursor& cursor, TransmitBatch& batch, Instant now) {
  const std::uint32_t payload = builder().request_payload(message);
  cursor.seek(queue, message.wqe, 0);
  if (!cursor.take(payload)) {
    fault.set(message.wqe, CompletionStatus::kLocalProtectionError);
    return false;
  }
  wire::Packet packet;
  builder().request(packet, message, message.first, message.packets, false, now);
  const std::size_t bytes = TransmitBatch::packet_bytes(packet, payload);
  if (!batch.fits(bytes, cursor.slices().size(), packet.bitmap)) return false;
  if (responses.copies_left() > 0 && !request_copies().copy_last(packet, batch, now)) [[unlikely]]
    return false;
  if (scoreboard.empty()) timers.on_flight_begun(now);
  if (paths) [[unlikely]]
    paths->put_fields(packet, batch.path(), message.packets, false, now);
  batch.add(packet, cursor.slices(), payload);
  scoreboard.sent_request(message.packets, batch.path(), now);
  sent_packets().note_left(message.first, now);
  message.in_flight_counted = true;
  if (response_pace() != nullptr) [[unlikely]]
    response_pacing().on_requested(message, message.packets, now);
  admission.on_asked();
  admission.on_sent();
  timers.on_new_data();
  env.count(Counter::kSentDataPackets);
  trace_sent(env, id, packet, bytes, false, now);
  return true;
}

}  // namespace brdma::qp
