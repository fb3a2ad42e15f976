#include "qp/receive/early_placement.h"

namespace brdma::qp {

std::optional<DropReason> EarlyPlacement::keep(const wire::Packet& packet, Instant now) const {
  if (!payload_fits_opcode(packet, parts_.mtu)) return DropReason::kEarlyInvalid;
  if (!in_operation(packet)) return place_or_hold(packet);
  const auto place = [this](const wire::Packet& known) { return place_or_hold(known); };
  return OperationReceiver{parts_}.keep(packet, place, now);
}

std::optional<DropReason> EarlyPlacement::place_or_hold(const wire::Packet& packet) const {
  if (packet.bitmap && !wire::is_last_or_only(packet.op) && !packet.bxth.by_reference()) {
    return wire::is_write(packet.op) ? place_write(packet) : place_send(packet);
  }
  if (const auto reason = checks().held(packet)) return reason;
  if (!parts_.out_of_order->early.hold(base(), packet)) return DropReason::kHoldFull;
  parts_.env.count(Counter::kHeldPackets);
  return std::nullopt;
}

void EarlyPlacement::note_placed(const wire::Packet& packet, const std::byte* place) const {
  parts_.out_of_order->early.note_placed(base(), packet, place);
  parts_.env.count(Counter::kPlacedEarly);
}

std::optional<DropReason> EarlyPlacement::place_send(const wire::Packet& packet) const {
  const auto index = checks().receive_index(packet);
  if (!index) return DropReason::kEarlyNoReceive;
  const std::uint64_t offset = std::uint64_t{packet.bxth.packet_index} * parts_.mtu;
  if (offset + packet.payload.size() > parts_.receives[*index].bytes) return DropReason::kEarlyInvalid;
  const auto fault = parts_.receives.scatter(parts_.env.memory, parts_.identity.pd, *index, offset, packet.payload);
  if (fault != memory::Fault::kNone) return DropReason::kEarlyInvalid;
  note_placed(packet, nullptr);
  return std::nullopt;
}

std::optional<DropReason> EarlyPlacement::place_write(const wire::Packet& packet) const {
  Environment& env = parts_.env;
  if ((parts_.identity.attributes.access & kAccessRemoteWrite) == 0) return DropReason::kEarlyInvalid;
  const std::uint64_t offset = std::uint64_t{packet.bxth.packet_index} * parts_.mtu;
  const std::size_t size = packet.payload.size();
  if (offset + size >= packet.reth.length) return DropReason::kEarlyInvalid;  // only a last packet ends the message
  std::byte* to = in_operation(packet) ? parts_.operations.place_of(packet, env.memory) : nullptr;
  if (to == nullptr) {
    // The whole message must pass the checks like this packet: nothing is written of a message that will be refused.
    const auto fault = env.memory.resolve(parts_.identity.accessor(), packet.reth.rkey, packet.reth.address - offset,
                                          packet.reth.length, kAccessRemoteWrite, &to);
    if (fault != memory::Fault::kNone) return DropReason::kEarlyInvalid;
    to += offset;
  }
  if (!copy_uncovered(parts_.out_of_order, packet.bth.psn, to, packet.payload)) return DropReason::kEarlyInvalid;
  note_placed(packet, to);
  return std::nullopt;
}

}  // namespace brdma::qp
