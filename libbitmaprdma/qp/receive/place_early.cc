// qp/receive/place_early.cc - early packets. A bitmap-mode First or Middle names the place of its data and is placed at
// once. All others are held: a message's last packet because programs poll on the last byte; READs, atomics and the
// like because they see or change memory; standard packets because they don't name their message; packets by reference
// with the reference. A faulty packet is left unreceived and never answered: it is judged when it comes again in order.
#include "qp/receive/responder_impl.h"

namespace brdma::qp {

std::optional<DropReason> Responder::Impl::keep_early(const wire::Packet& packet, Instant now) {
  if (!payload_fits_opcode(packet, mtu)) return DropReason::kEarlyInvalid;
  if (!in_operation(packet)) return place_or_hold(packet);
  const auto place = [this](const wire::Packet& known) { return place_or_hold(known); };
  return operation_receiver().keep(packet, place, now);
}

std::optional<DropReason> Responder::Impl::place_or_hold(const wire::Packet& packet) {
  if (packet.bitmap && !wire::is_last_or_only(packet.op) && !packet.bxth.by_reference()) {
    return wire::is_write(packet.op) ? place_write_early(packet) : place_send_early(packet);
  }
  if (const auto reason = early_checks().held(packet)) return reason;
  if (!out_of_order->early.hold(base(), packet)) return DropReason::kHoldFull;
  env.count(Counter::kHeldPackets);
  return std::nullopt;
}

std::optional<DropReason> Responder::Impl::place_send_early(const wire::Packet& packet) {
  const auto index = early_checks().receive_index(packet);
  if (!index) return DropReason::kEarlyNoReceive;
  const std::uint64_t offset = std::uint64_t{packet.bxth.packet_index} * mtu;
  if (offset + packet.payload.size() > receives[*index].bytes) return DropReason::kEarlyInvalid;
  if (receives.scatter(env.memory, identity.pd, *index, offset, packet.payload) != memory::Fault::kNone) {
    return DropReason::kEarlyInvalid;
  }
  out_of_order->early.note_placed(base(), packet, nullptr);
  env.count(Counter::kPlacedEarly);
  return std::nullopt;
}

std::optional<DropReason> Responder::Impl::place_write_early(const wire::Packet& packet) {
  if ((identity.attributes.access & kAccessRemoteWrite) == 0) return DropReason::kEarlyInvalid;
  const std::uint64_t offset = std::uint64_t{packet.bxth.packet_index} * mtu;
  const std::size_t size = packet.payload.size();
  if (offset + size >= packet.reth.length) return DropReason::kEarlyInvalid;  // only a last packet ends the message
  std::byte* registered = in_operation(packet) ? operations.place_of(packet, env.memory) : nullptr;
  if (registered != nullptr) {
    if (!copy_uncovered(out_of_order, packet.bth.psn, registered, packet.payload)) return DropReason::kEarlyInvalid;
    out_of_order->early.note_placed(base(), packet, registered);
    env.count(Counter::kPlacedEarly);
    return std::nullopt;
  }
  // The whole message must pass the checks like this packet: nothing is written of a message that will be refused.
  std::byte* whole = nullptr;
  const auto fault = env.memory.resolve(identity.accessor(), packet.reth.rkey, packet.reth.address - offset,
                                        packet.reth.length, kAccessRemoteWrite, &whole);
  if (fault != memory::Fault::kNone) return DropReason::kEarlyInvalid;
  std::byte* const to = whole + offset;
  if (!copy_uncovered(out_of_order, packet.bth.psn, to, packet.payload)) return DropReason::kEarlyInvalid;
  out_of_order->early.note_placed(base(), packet, to);
  env.count(Counter::kPlacedEarly);
  return std::nullopt;
}

}  // namespace brdma::qp
