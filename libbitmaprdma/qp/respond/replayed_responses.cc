#include "qp/respond/replayed_responses.h"

#include "qp/execute/request_checks.h"

namespace brdma::qp {

std::optional<DropReason> ReplayedResponses::answer(const wire::Packet& packet, Instant now) const {
  if (parts_.bitmap) parts_.ack.force(now);
  if (packet.op == wire::RcOp::kReadRequest) return read(packet, now);
  return wire::is_atomic(packet.op) ? atomic(packet, now) : confirmed(packet, now);
}

// Of a part of a READ, or of all of it.
std::optional<DropReason> ReplayedResponses::read(const wire::Packet& packet, Instant now) const {
  const Psn psn = packet.bth.psn;
  const std::uint32_t count = psns_of(packet, parts_.mtu);
  const RequestChecks checks{{parts_.env.memory, parts_.identity, parts_.mtu}};
  if (checks.read(packet) != Verdict::kDone) return DropReason::kEarlyInvalid;
  if (static_cast<std::uint32_t>(distance(parts_.base, psn)) < count) return DropReason::kOutOfWindow;
  return queue(read_response_of(packet, parts_.msn), count, now);
}

std::optional<DropReason> ReplayedResponses::atomic(const wire::Packet& packet, Instant now) const {
  const auto* const result = parts_.resources.find_atomic(packet.bth.psn);
  if (result == nullptr) return DropReason::kDuplicate;
  Response response;
  response.kind = Response::Kind::kAtomic;
  response.bitmap = packet.bitmap;
  response.psn = result->psn;
  response.msn = result->msn;
  response.message = packet.bxth.msn;
  response.original = result->original;
  return queue(response, 1, now);
}

// It was executed.
std::optional<DropReason> ReplayedResponses::confirmed(const wire::Packet& packet, Instant now) const {
  return queue(confirmation_of(packet, parts_.msn), 1, now);
}

std::optional<DropReason> ReplayedResponses::queue(Response response, std::uint32_t packets, Instant now) const {
  if (parts_.resources.will_response(response.psn, packets, parts_.mtu)) return DropReason::kDuplicate;
  if (parts_.repeated.have_just_left(response.psn, packets, now)) return DropReason::kDuplicate;
  if (!parts_.resources.room_for_replay()) return DropReason::kHoldFull;
  parts_.sprayed.on_rerequest(response.psn, packets, now);
  response.replay = true;
  parts_.resources.push(response);
  return std::nullopt;
}

}  // namespace brdma::qp
