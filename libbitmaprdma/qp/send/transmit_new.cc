// New packets: a message begins when fence, READ limits, window and credit allow its first packet, then continues
// packet by packet. The order of work requests is the order on the wire.
#include <algorithm>
#include <utility>

#include "qp/send/requester_impl.h"

namespace brdma::qp {
namespace {

MessageKind kind_of(WorkOpcode opcode) {
  switch (opcode) {
    case WorkOpcode::kRdmaWrite:
    case WorkOpcode::kRdmaWriteWithImm:
      return MessageKind::kWrite;
    case WorkOpcode::kRdmaRead:
      return MessageKind::kRead;
    case WorkOpcode::kAtomicCmpSwap:
    case WorkOpcode::kAtomicFetchAdd:
      return MessageKind::kAtomic;
    case WorkOpcode::kAtomicWrite:
    case WorkOpcode::kFlush:
      return MessageKind::kConfirmed;
    default:
      return MessageKind::kSend;
  }
}

std::uint32_t packets_of(std::uint32_t bytes, std::uint32_t mtu) { return bytes == 0 ? 1 : (bytes + mtu - 1) / mtu; }

}  // namespace

bool Requester::Impl::ready_to_send_new(Instant now) {
  if (!rnr.may_leave(scoreboard.next())) return false;
  const std::uint32_t mtu = id.mtu();
  if (!messages.all_left(scoreboard.next())) {
    const Message& message = messages.back();
    if (fault.is_set_at(message.wqe)) return false;
    if (message.answered()) return admits(message.packets, 0, true);
    if (!segments.may_leave(message, scoreboard.next())) return false;
    return admits(1, message.payload_at(scoreboard.next(), mtu), false);
  }
  if (queue.next() == queue.tail() || fault.is_set()) return false;
  if (id.state != QpState::kRts && read_cut == 0) return false;  // SQD: only messages in progress
  const SendWqe& wqe = queue[queue.next()];
  if (!may_begin(wqe, now)) return false;
  if (is_local(wqe.opcode)) [[unlikely]]
    return true;
  switch (kind_of(wqe.opcode)) {
    case MessageKind::kRead:
      return admits(references().next_read() ? 1 : packets_of(next_chunk_bytes(), mtu), 0, true);
    case MessageKind::kAtomic:
    case MessageKind::kConfirmed:
      return admits(1, 0, true);
    default:
      if (references().next_bytes() != 0) [[unlikely]]
        return scoreboard.flight().packets < kFetchesInFlight && admits(1, wire::kReferenceSizeMax, false);
      if (segments.full() && Segments::packets_of_each(wqe, env.config.transfer, id) != 0) return false;
      return admits(1, std::min(wqe.length, mtu), false);
  }
}

// Is the next packet a READ request or another answered one?
bool Requester::Impl::next_is_answered() {
  if (!messages.all_left(scoreboard.next())) return messages.back().answered();
  if (queue.next() == queue.tail()) return false;
  return is_answered(kind_of(queue[queue.next()].opcode));
}

bool Requester::Impl::may_begin(const SendWqe& wqe, Instant now) {
  if ((wqe.flags & kSendFence) != 0 && read_cut == 0 && responses.messages() > 0) return false;
  const MessageKind kind = kind_of(wqe.opcode);
  if (!is_answered(kind)) return true;
  if (responses.messages() >= id.attributes.max_rd_atomic) return false;
  if (kind != MessageKind::kRead) return true;
  if (ResponsePace* const pace = response_pace(); pace != nullptr && pace->rate.allowance(now) == 0) [[unlikely]]
    return false;
  if (references().next_read()) [[unlikely]]
    return responses.messages() < kFetchesInFlight;
  return responses.admits_read(next_chunk_bytes(), id, env.credit_share());
}

// Bytes of the READ at queue.next() for the next READ request.
std::uint32_t Requester::Impl::next_chunk_bytes() {
  const std::uint32_t mtu = id.mtu();
  const std::uint32_t left = queue[queue.next()].length - read_cut;
  if (references().next_read()) [[unlikely]]
    return std::min(left, kFetchBytesMax);
  std::uint32_t packets = responses.request_packets(id, env.credit_share());
  if (response_pace() != nullptr) [[unlikely]]
    packets = std::min(packets, response_pacing().packets_of_request());
  return std::min(left, packets * mtu);
}

// Precondition: ready_to_send_new() with nothing begun left to send.
void Requester::Impl::begin_message() {
  const std::uint64_t number = queue.next();
  const SendWqe& wqe = queue[number];
  Message& message = messages.push_back({.first = scoreboard.next(),
                                         .wqe = number,
                                         .length = wqe.length,
                                         .msn = next_msn,
                                         .rsn = next_rsn,
                                         .kind = kind_of(wqe.opcode)});
  if (id.local_state == LocalState::kNotAsked && references().is_worth_one(wqe)) wants_local = true;
  if (message.kind == MessageKind::kRead) {
    message.offset = read_cut;
    message.length = next_chunk_bytes();
    if (references().next_read()) [[unlikely]]
      message.by_reference = std::exchange(message.length, wire::reference_size(1));
    read_cut += message.by_reference != 0 ? message.by_reference : message.length;
    message.last_of_wqe = read_cut == wqe.length;
    if (message.last_of_wqe) read_cut = 0;
    if (!writable(env.memory, id.pd, queue, number)) fault.set(number, CompletionStatus::kLocalProtectionError);
  }
  if (message.kind == MessageKind::kConfirmed) message.length = 0;  // of its response
  if (!message.answered()) {
    if (const std::uint32_t bytes = references().next_bytes(); bytes != 0) [[unlikely]]
      references().begin(message, wqe, bytes);
  }
  message.packets = message.kind == MessageKind::kAtomic ? 1 : packets_of(message.length, id.mtu());
  if (message.last_of_wqe || message.kind == MessageKind::kRead) {  // else on the wire a part of one message
    next_msn = (next_msn + 1) & Psn::kMask;
    const bool consumes_receive = message.kind == MessageKind::kSend || wqe.opcode == WorkOpcode::kRdmaWriteWithImm;
    if (consumes_receive) next_rsn = (next_rsn + 1) & Psn::kMask;
  }
  if (message.answered()) {
    responses.on_requested(message.packets, message.length);
  }
  if (!message.answered() && message.by_reference == 0)
    message.segment_packets = Segments::packets_of_each(wqe, env.config.transfer, id);
  message.first_operation = segments.next_number();
  if (message.last_of_wqe) queue.begin_next();
}

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
        if (!execute_local(now)) break;
        continue;
      }
      begin_message();
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

// The next packet belongs to a large command: others go first (device/transmit.cc).
bool Requester::Impl::next_is_large() {
  const TransferConfig& config = env.config.transfer;
  if (config.threshold_bytes == 0) return false;
  if (scoreboard.pending() > 0) {
    const Message& message = messages.of(scoreboard.next_pending(scoreboard.base()));
    return Segments::is_large(queue[message.wqe], config);
  }
  if (!messages.all_left(scoreboard.next())) return Segments::is_large(queue[messages.back().wqe], config);
  return queue.next() != queue.tail() && Segments::is_large(queue[queue.next()], config);
}

}  // namespace brdma::qp
