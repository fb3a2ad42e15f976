// qp/serve_read.cc - answers on their way: READ responses, results of atomics, NAKs, in the order of their requests.
// A READ's data is read from the application's memory when its packet is made, and its key is looked up then: the
// region may be gone since the request came.
#include <algorithm>

#include "qp/responder_impl.h"

namespace brdma::qp {

using wire::RcOp;

bool Responder::Impl::poll_responses(TransmitBatch& batch, bool naks, Instant now) {
  bool added = false;
  while (!resources.empty()) {
    Response& answer = resources.front();
    if (!naks && answer.kind == Response::Kind::kNak) break;
    Sending sending = Sending::kDone;
    switch (answer.kind) {
      case Response::Kind::kRead:
        sending = send_read_packet(answer, batch, now);
        break;
      case Response::Kind::kAtomic:
        sending = send_atomic_answer(answer, batch, now);
        break;
      case Response::Kind::kNak:
        sending = send_nak(answer, batch, now);
        break;
    }
    if (sending == Sending::kFull) break;
    if (sending != Sending::kMore) resources.pop();
    added = added || sending != Sending::kStale;
  }
  if (added && answer_paths) [[unlikely]]
    answer_paths->batch_left(batch.path(), now);
  return added;
}

wire::Packet Responder::Impl::answer_packet(const Response& answer, RcOp op, Instant now) const {
  wire::Packet packet;
  packet.op = op;
  packet.bitmap = answer.bitmap;
  packet.bth.opcode = wire::opcode_of(op, answer.bitmap);
  packet.bth.dest_qpn = identity.attributes.destination_qpn;
  packet.bth.psn = answer.psn;
  packet.aeth = {wire::kSyndromeAck, answer.msn};
  if (answer.bitmap) {
    packet.bxth.retransmitted = answer.replay;
    packet.bxth.source_qpn = identity.qpn;
    packet.bxth.token = identity.peer_token;
    packet.bxth.msn = answer.message;
    packet.bxth.packet_index = answer.packet_index;
    packet.bxth.timestamp = wire::timestamp_of(now);
  }
  return packet;
}

// The answer is about to be added to the batch: which path it takes, and what went before it there.
void Responder::Impl::label(wire::Packet& packet, const Response& answer, const TransmitBatch& batch) {
  if (!answer_paths || !answer.bitmap) [[likely]]
    return;
  packet.bxth.path = batch.path();
  packet.bxth.before = answer_paths->sent(batch.path(), answer.psn, answer.replay);
}

void Responder::Impl::count_answer(const wire::Packet& packet, const Response& answer, std::size_t bytes,
                                   Instant now) const {
  if (!answer.replay) env.count(Counter::kSentDataPackets);
  trace_answer(packet, answer, bytes, now);
}

void Responder::Impl::trace_answer(const wire::Packet& packet, const Response& answer, std::size_t bytes,
                                   Instant now) const {
  if (env.sink == nullptr) [[likely]]
    return;
  env.trace(now, identity.qpn,
            trace::PacketSent{packet.bth.opcode, packet.bth.psn, static_cast<std::uint32_t>(bytes), answer.replay});
}

Responder::Impl::Sending Responder::Impl::send_read_packet(Response& answer, TransmitBatch& batch, Instant now) {
  if (answer.described) [[unlikely]]
    return send_described(answer, batch, now);
  if (send_inside(answer, batch, now)) return Sending::kMore;
  const std::uint32_t size = std::min(answer.bytes_left, mtu);
  const bool last = answer.bytes_left <= mtu;
  if (answer_paths && batch.packets() >= answer_paths->batch_max(batch.path())) [[unlikely]]
    return Sending::kFull;
  const RcOp op = answer.started ? (last ? RcOp::kReadResponseLast : RcOp::kReadResponseMiddle)
                                 : (last ? RcOp::kReadResponseOnly : RcOp::kReadResponseFirst);
  wire::Packet packet = answer_packet(answer, op, now);
  if (!batch.fits(TransmitBatch::packet_bytes(packet, size), size == 0 ? 0 : 1, answer.bitmap)) return Sending::kFull;
  std::byte* data = nullptr;
  const bool there = env.memory.resolve(identity.accessor(), answer.rkey, answer.address, size, kAccessRemoteRead,
                                        &data) == memory::Fault::kNone &&
                     env.memory.holds(data, size);
  if (!there && answer.unasked) {  // read before, and done with
    env.count(Counter::kEdnPacketsGone, response_packets(answer.bytes_left, mtu));
    return Sending::kStale;
  }
  if (!there) {
    refuse_read(answer);
    return Sending::kMore;
  }
  const Slice slice{data, size};
  label(packet, answer, batch);
  batch.add(packet, size == 0 ? std::span<const Slice>{} : std::span<const Slice>{&slice, 1}, size);
  count_answer(packet, answer, size, now);
  if (answer.replay) note_sent_again(answer, now);
  answer.started = true;
  answer.psn = answer.psn + 1;
  answer.packet_index = (answer.packet_index + 1) & 0xFF'FFFF;
  answer.address += size;
  answer.bytes_left -= size;
  return last ? Sending::kDone : Sending::kMore;
}

// The region, or its memory, went away while its data was being sent: the rest of the answers makes place for a NAK.
void Responder::Impl::refuse_read(const Response& answer) {
  Response nak;
  nak.syndrome = wire::kSyndromeNakRemoteAccess;
  nak.psn = answer.psn;
  nak.msn = (answer.msn - 1) & Psn::kMask;  // the READ is not done
  if (!halted) {
    owed = Outcome{true, kEventQpAccessError};
    env.count(Counter::kRemoteAccessErrors);
  }
  halted = true;
  resources.replace_all(nak);
}

Responder::Impl::Sending Responder::Impl::send_atomic_answer(const Response& answer, TransmitBatch& batch,
                                                             Instant now) {
  wire::Packet packet = answer_packet(answer, RcOp::kAtomicAcknowledge, now);
  packet.atomic_original = answer.original;
  if (!batch.fits(TransmitBatch::packet_bytes(packet, 0), 0, answer.bitmap)) return Sending::kFull;
  label(packet, answer, batch);
  batch.add(packet, {}, 0);
  count_answer(packet, answer, sizeof answer.original, now);
  if (answer.replay) note_sent_again(answer, now);
  return Sending::kDone;
}

Responder::Impl::Sending Responder::Impl::send_nak(const Response& answer, TransmitBatch& batch, Instant now) {
  // What it asks for has come meanwhile: the peer must not go back for it.
  if (!halted && answer.psn != base()) return Sending::kStale;
  // A BitmapAck can only speak of the base.
  const bool bitmap = answer.bitmap && answer.psn == base();
  if (!send_acknowledgement(batch, {answer.syndrome, answer.msn}, answer.psn, bitmap, now)) return Sending::kFull;
  if (answer.syndrome == wire::kSyndromeNakSequence) env.count(Counter::kSentSeqNak);
  return Sending::kDone;
}

}  // namespace brdma::qp
