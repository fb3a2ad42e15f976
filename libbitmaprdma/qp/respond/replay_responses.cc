// qp/respond/replay_responses.cc - duplicates of READs, atomics, ATOMIC WRITEs and FLUSHes: their responses may be
// lost, so they are answered again. Nothing is executed again: a READ's data is read again, an atomic's result was
// kept.
#include "qp/receive/responder_impl.h"

namespace brdma::qp {

void Responder::Impl::replay_read(const wire::Packet& packet, Instant now) {
  const Psn psn = packet.bth.psn;
  const std::uint32_t count = psns_of(packet, mtu);
  if (speaks_bitmap()) ack.force(now);
  if (request_checks().read(packet) != Verdict::kDone) return drop(DropReason::kEarlyInvalid, packet, now);
  if (static_cast<std::uint32_t>(distance(base(), psn)) < count) return drop(DropReason::kOutOfWindow, packet, now);
  if (resources.will_response(psn, count, mtu)) return drop(DropReason::kDuplicate, packet, now);
  if (repeated_responses().have_just_left(psn, count, now)) return drop(DropReason::kDuplicate, packet, now);
  if (!resources.room_for_replay()) return drop(DropReason::kHoldFull, packet, now);
  note_rerequested(psn, count, now);
  Response response;
  response.kind = Response::Kind::kRead;
  response.bitmap = packet.bitmap;
  response.replay = true;
  response.by_reference = packet.bxth.by_reference();
  response.psn = psn;
  response.msn = msn;
  response.rkey = packet.reth.rkey;
  response.address = packet.reth.address;
  response.bytes_left = packet.reth.length;
  response.message = packet.bxth.msn;
  response.packet_index = packet.bxth.packet_index;
  resources.push(response);
}

void Responder::Impl::replay_atomic(const wire::Packet& packet, Instant now) {
  const auto* result = resources.find_atomic(packet.bth.psn);
  if (speaks_bitmap()) ack.force(now);
  if (result == nullptr || repeated_responses().have_just_left(result->psn, 1, now))
    return drop(DropReason::kDuplicate, packet, now);
  if (!resources.room_for_replay()) return drop(DropReason::kHoldFull, packet, now);
  note_rerequested(packet.bth.psn, 1, now);
  Response response;
  response.kind = Response::Kind::kAtomic;
  response.bitmap = packet.bitmap;
  response.replay = true;
  response.psn = result->psn;
  response.msn = result->msn;
  response.message = packet.bxth.msn;
  response.original = result->original;
  resources.push(response);
}

// It was executed.
void Responder::Impl::replay_confirmation(const wire::Packet& packet, Instant now) {
  if (speaks_bitmap()) ack.force(now);
  if (resources.will_response(packet.bth.psn, 1, mtu)) return drop(DropReason::kDuplicate, packet, now);
  if (repeated_responses().have_just_left(packet.bth.psn, 1, now)) return drop(DropReason::kDuplicate, packet, now);
  if (!resources.room_for_replay()) return drop(DropReason::kHoldFull, packet, now);
  note_rerequested(packet.bth.psn, 1, now);
  confirm(packet, /*replay=*/true);
}

// The response sender treats it as one to a READ without data.
void Responder::Impl::confirm(const wire::Packet& packet, bool replay) {
  Response response;
  response.kind = Response::Kind::kRead;
  response.bitmap = packet.bitmap;
  response.replay = replay;
  response.psn = packet.bth.psn;
  response.msn = msn;
  response.message = packet.bxth.msn;
  resources.push(response);
  if (!replay) log_response(response_log, identity, response, /*is_read=*/false, mtu, last_call);
}

}  // namespace brdma::qp
