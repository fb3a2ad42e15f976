#include "qp/respond/response_sender.h"

#include <algorithm>
#include <array>

#include "qp/respond/repeated_responses.h"
#include "qp/state/local_path.h"
#include "wire/local_reference.h"

namespace brdma::qp {

using wire::RcOp;

namespace {

// Of a response with data. `started`: others of its READ have left.
RcOp read_response_op(bool started, bool last) {
  if (started) return last ? RcOp::kReadResponseLast : RcOp::kReadResponseMiddle;
  return last ? RcOp::kReadResponseOnly : RcOp::kReadResponseFirst;
}

}  // namespace

bool ResponseSender::poll(TransmitBatch& batch, bool naks, SendNak send, Instant now) const {
  ResponderResources& resources = parts_.resources;
  bool added = false;
  while (!resources.empty()) {
    Response& response = resources.front();
    if (!naks && response.kind == Response::Kind::kNak) break;
    const Sending sending = send_response(response, batch, send, now);
    if (sending == Sending::kFull) break;
    if (sending != Sending::kMore) resources.pop();
    added = added || sending != Sending::kStale;
  }
  if (added && parts_.paths != nullptr) [[unlikely]]
    parts_.paths->batch_left(batch.path(), now);
  return added;
}

ResponseSender::Sending ResponseSender::send_response(Response& response, TransmitBatch& batch, SendNak send,
                                                      Instant now) const {
  switch (response.kind) {
    case Response::Kind::kRead:
      return send_read_packet(response, batch, now);
    case Response::Kind::kAtomic:
      return send_atomic_response(response, batch, now);
    case Response::Kind::kNak:
      break;
  }
  const Sending sending = send_nak(response, send, batch, now);
  if (sending == Sending::kDone && parts_.halted) parts_.refusal = std::make_unique<Response>(response);
  return sending;
}

wire::Packet ResponseSender::packet_of(const Response& response, RcOp op, Instant now) const {
  const Identity& identity = parts_.identity;
  wire::Packet packet;
  packet.op = op;
  packet.bitmap = response.bitmap;
  packet.bth.opcode = opcode_of(identity, op, response.bitmap);
  packet.bth.dest_qpn = identity.attributes.destination_qpn;
  packet.bth.psn = response.psn;
  packet.aeth = {wire::kSyndromeAck, response.msn};
  if (response.bitmap) {
    packet.bxth.retransmitted = response.replay;
    packet.bxth.source_qpn = identity.qpn;
    packet.bxth.token = identity.peer_token;
    packet.bxth.msn = response.message;
    packet.bxth.packet_index = response.packet_index;
    packet.bxth.timestamp = wire::timestamp_of(now);
  }
  return packet;
}

// The response is about to be added to the batch: sets its path, and the header field about earlier packets there.
void ResponseSender::fill_path_fields(wire::Packet& packet, const Response& response,
                                      const TransmitBatch& batch) const {
  if (parts_.paths == nullptr || !response.bitmap) [[likely]]
    return;
  packet.bxth.path = batch.path();
  packet.bxth.before = parts_.paths->sent(batch.path(), response.psn, response.replay);
}

// It is in the batch.
void ResponseSender::note_left(const wire::Packet& packet, const Response& response, std::size_t bytes,
                               Instant now) const {
  if (!response.replay) parts_.env.count(Counter::kSentDataPackets);
  trace(packet, response, bytes, now);
  if (response.replay) on_left_again(parts_.env, parts_.log, response, now);
}

void ResponseSender::trace(const wire::Packet& packet, const Response& response, std::size_t bytes, Instant now) const {
  if (parts_.env.telemetry.sink == nullptr) [[likely]]
    return;
  parts_.env.trace(
      now, parts_.identity.qpn,
      trace::PacketSent{packet.bth.opcode, packet.bth.psn, static_cast<std::uint32_t>(bytes), response.replay});
}

ResponseSender::Sending ResponseSender::send_read_packet(Response& response, TransmitBatch& batch, Instant now) const {
  if (response.by_reference) [[unlikely]]
    return send_by_reference(response, batch, now);
  if (send_middle(response, batch, now)) return Sending::kMore;
  Environment& env = parts_.env;
  const std::uint32_t mtu = parts_.mtu;
  const std::uint32_t size = std::min(response.bytes_left, mtu);
  const bool last = response.bytes_left <= mtu;
  if (parts_.paths != nullptr && batch.packets() >= parts_.paths->batch_max(batch.path())) [[unlikely]]
    return Sending::kFull;
  wire::Packet packet = packet_of(response, read_response_op(response.started, last), now);
  if (!batch.fits(TransmitBatch::packet_bytes(packet, size), size == 0 ? 0 : 1, response.bitmap)) return Sending::kFull;
  std::byte* data = nullptr;
  const bool there = env.memory.resolve(parts_.identity.accessor(), response.rkey, response.address, size,
                                        kAccessRemoteRead, &data) == memory::Fault::kNone &&
                     env.memory.holds(data, size);
  if (!there) return read_failed(response);
  const Slice slice{data, size};
  fill_path_fields(packet, response, batch);
  batch.add(packet, size == 0 ? std::span<const Slice>{} : std::span<const Slice>{&slice, 1}, size);
  note_left(packet, response, size, now);
  response.started = true;
  response.psn = response.psn + 1;
  response.packet_index = (response.packet_index + 1) & 0xFF'FFFF;
  response.address += size;
  response.bytes_left -= size;
  return last ? Sending::kDone : Sending::kMore;
}

// A READ response by reference: one packet with the location of all data. Its key was looked up just now, as for data.
ResponseSender::Sending ResponseSender::send_by_reference(const Response& response, TransmitBatch& batch,
                                                          Instant now) const {
  Environment& env = parts_.env;
  const Identity& identity = parts_.identity;
  wire::Packet packet = packet_of(response, wire::RcOp::kReadResponseOnly, now);
  packet.bxth.operation = wire::Bxth::kByReference;
  const std::size_t size = wire::reference_size(1);
  if (!batch.fits(TransmitBatch::packet_bytes(packet, size), 1, true)) return Sending::kFull;
  std::byte* data = nullptr;
  const auto fault = env.memory.resolve(identity.accessor(), response.rkey, response.address, response.bytes_left,
                                        kAccessRemoteRead, &data);
  if (fault != memory::Fault::kNone) {
    refuse_read(response);
    return Sending::kMore;
  }
  if (identity.local == nullptr) return Sending::kStale;
  std::array<std::byte, wire::kReferenceSizeMax> bytes;
  const LocalPiece piece{reinterpret_cast<std::uintptr_t>(data), response.bytes_left};
  const Slice slice{bytes.data(), wire::emit_reference(identity.local->own_key(), {&piece, 1}, bytes.data())};
  fill_path_fields(packet, response, batch);
  batch.add(packet, {&slice, 1}, size);
  env.count(Counter::kByReference);
  note_left(packet, response, size, now);
  return Sending::kDone;
}

// Its data is gone.
ResponseSender::Sending ResponseSender::read_failed(const Response& response) const {
  if (response.unasked) {  // read before, and done
    parts_.env.count(Counter::kEdnPacketsGone, response_packets(response.bytes_left, parts_.mtu));
    return Sending::kStale;
  }
  refuse_read(response);
  return Sending::kMore;
}

// The region, or its memory, went away while its data was being sent: a NAK replaces the rest of the responses.
void ResponseSender::refuse_read(const Response& response) const {
  Response nak;
  nak.bitmap = response.bitmap;
  nak.syndrome = wire::kSyndromeNakRemoteAccess;
  nak.psn = response.psn;
  nak.msn = (response.msn - 1) & Psn::kMask;  // the READ is not done
  if (!parts_.halted) {
    parts_.read_refused = true;
    parts_.env.count(Counter::kRemoteAccessErrors);
  }
  parts_.halted = true;
  parts_.resources.replace_all(nak);
}

ResponseSender::Sending ResponseSender::send_atomic_response(const Response& response, TransmitBatch& batch,
                                                             Instant now) const {
  wire::Packet packet = packet_of(response, RcOp::kAtomicAcknowledge, now);
  packet.atomic_original = response.original;
  if (!batch.fits(TransmitBatch::packet_bytes(packet, 0), 0, response.bitmap)) return Sending::kFull;
  fill_path_fields(packet, response, batch);
  batch.add(packet, {}, 0);
  note_left(packet, response, sizeof response.original, now);
  return Sending::kDone;
}

ResponseSender::Sending ResponseSender::send_nak(const Response& response, SendNak send, TransmitBatch& batch,
                                                 Instant now) const {
  // The missing packet has come meanwhile: the peer must not go back for it.
  if (!parts_.halted && response.psn != parts_.base) return Sending::kStale;
  if (response.bitmap && response.psn != parts_.base) return send_nak_of_read(response, batch, now);
  if (!send({response.syndrome, response.msn}, response.psn, response.bitmap)) return Sending::kFull;
  if (response.syndrome == wire::kSyndromeNakSequence) parts_.env.count(Counter::kSentSeqNak);
  return Sending::kDone;
}

// A BitmapAck's NAK is always of the base, and a READ that cannot be served any more lies before it. A standard NAK
// has no token: the peer refuses it.
ResponseSender::Sending ResponseSender::send_nak_of_read(const Response& response, TransmitBatch& batch,
                                                         Instant now) const {
  wire::Packet packet = packet_of(response, RcOp::kAcknowledge, now);
  packet.aeth.syndrome = response.syndrome;
  if (!batch.fits(TransmitBatch::packet_bytes(packet, 0), 0, response.bitmap)) return Sending::kFull;
  fill_path_fields(packet, response, batch);
  batch.add(packet, {}, 0);
  trace(packet, response, 0, now);
  parts_.env.count(Counter::kAcksSent);
  return Sending::kDone;
}

}  // namespace brdma::qp
