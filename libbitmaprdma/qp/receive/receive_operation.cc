// qp/receive/receive_operation.cc - operations of large transfers as they arrive (spec 4: receiver). Division of
// labour:
//   receive window   which PSNs are here, acknowledgements, order of execution: the rules of RC
//   registry         where a packet of a registered operation goes, whether it is a duplicate, when the operation is
//                    whole
//   escape channel   packets before their operation's start: kept, counted as missing in every acknowledgement, and
//                    so free to be dropped when the start does not come in time
// The start registers an operation whether it comes in order or early; in-order packets are entered as they are
// executed, early ones as they are kept.
#include <bit>
#include <cstring>

#include "qp/receive/responder_impl.h"

namespace brdma::qp {
namespace {

constexpr std::int64_t kEscapeRtts = 4;  // the start is resent a round trip after an FFM has requested it

bool is_start(const wire::Packet& packet) { return packet.bxth.operation_start; }

}  // namespace

// Target address for the registry: a SEND's receive buffer begins at 0.
std::uint64_t Responder::Impl::target_of(const wire::Packet& packet) const {
  return wire::is_write(packet.op) ? packet.reth.address : std::uint64_t{packet.bxth.packet_index} * mtu;
}

registry::Match Responder::Impl::look(const wire::Packet& packet) const {
  return operations->look(packet.bxth.operation, target_of(packet), packet.bxth.operation_packets);
}

// Place of a packet of a registered WRITE operation, if still valid; else null.
std::byte* Responder::Impl::registered_place(const wire::Packet& packet) const {
  const registry::Operation* const operation = operations->find(packet.bxth.operation);
  if (operation == nullptr || operation->start.memory == nullptr) return nullptr;
  const registry::OperationStart& start = operation->start;
  if (start.memory_version != env.memory.version() || start.rkey != packet.reth.rkey) return nullptr;
  const std::uint64_t offset = packet.reth.address - start.address;
  if (offset > start.bytes || packet.payload.size() > start.bytes - offset) return nullptr;
  return start.memory + offset;
}

// The start has come, and has passed the checks of every packet. Escaped packets of its operation are placed.
void Responder::Impl::register_operation(const wire::Packet& packet, Instant now) {
  if (operations->find(packet.bxth.operation) != nullptr) return;
  registry::OperationStart start{.address = target_of(packet),
                                 .rkey = packet.reth.rkey,
                                 .packets = packet.bxth.operation_packets,
                                 .packet_shift = static_cast<std::uint8_t>(std::countr_zero(mtu)),
                                 .number = packet.bxth.operation,
                                 .last = !packet.bxth.operation_more,
                                 .memory_version = env.memory.version()};
  const std::uint64_t before = std::uint64_t{packet.bxth.packet_index} * mtu;
  if (wire::is_write(packet.op) && before < packet.reth.length) {
    const std::uint64_t left = packet.reth.length - before;
    start.bytes = std::min<std::uint64_t>(left, std::uint64_t{start.packets} << start.packet_shift);
    const auto fault = env.memory.resolve(identity.accessor(), packet.reth.rkey, start.address, start.bytes,
                                          kAccessRemoteWrite, &start.memory);
    if (fault != memory::Fault::kNone) start.memory = nullptr;
  }
  operations.made().begin(start);
  env.count(Counter::kOperationsRegistered);
  env.trace(now, identity.qpn, trace::OperationRegistered{start.number, start.packets});
  if (start.packets == 1) note_operation(packet, registry::Match::kComplete, now);
  if (!escape->empty()) release_escaped(start.number, now);
}

void Responder::Impl::note_operation(const wire::Packet& packet, registry::Match match, Instant now) {
  if (match != registry::Match::kComplete) return;
  env.count(Counter::kOperationsComplete);
  env.trace(now, identity.qpn, trace::OperationCompleted{packet.bxth.operation, !packet.bxth.operation_more});
}

void Responder::Impl::enter_operation(const wire::Packet& packet, Instant now) {
  note_operation(
      packet, operations.made().receive(packet.bxth.operation, target_of(packet), packet.bxth.operation_packets), now);
}

// Executed in order. The last packet of an operation ends it.
void Responder::Impl::operation_executed(const wire::Packet& packet, Instant now) {
  if (is_start(packet)) register_operation(packet, now);  // its bit is set already
  const auto [match, ended] =
      operations.made().execute(packet.bxth.operation, target_of(packet), packet.bxth.operation_packets);
  note_operation(packet, match, now);
  if (ended && !packet.bxth.operation_more) env.count(Counter::kTransfersComplete);
}

// An early packet of an operation, found well-formed by keep_early().
std::optional<DropReason> Responder::Impl::keep_operation(const wire::Packet& packet, Instant now) {
  const registry::Match match = look(packet);
  if (match == registry::Match::kOutside) return DropReason::kEarlyInvalid;
  if (match == registry::Match::kNone && !is_start(packet)) return keep_in_escape(packet, now);
  if (const auto reason = place_or_hold(packet)) return reason;
  if (is_start(packet)) {
    register_operation(packet, now);
  } else {
    enter_operation(packet, now);
  }
  return std::nullopt;
}

std::optional<DropReason> Responder::Impl::keep_in_escape(const wire::Packet& packet, Instant now) {
  if (const auto reason = early_checks().held(packet)) return reason;
  const auto bytes = static_cast<std::uint32_t>(packet.payload.size());
  registry::EscapeChannel& channel = escape.made(env.config.transfer.escape_bytes_max);
  if (!channel.has_room(bytes)) return DropReason::kEscapeFull;
  if (!out_of_order->early.hold(base(), packet)) return DropReason::kHoldFull;
  channel.admit({packet.bth.psn, packet.bxth.operation, bytes, now});
  env.count(Counter::kEscapedPackets);
  return std::nullopt;
}

// A faulty packet stays where it is: it is judged in order.
void Responder::Impl::release_escaped(std::uint8_t number, Instant now) {
  bool any = false;
  escape.made().take(number, [&](const registry::EscapedPacket& escaped) {
    const EarlyPackets::Record* const record = find_early(out_of_order, escaped.psn);
    if (record == nullptr) return;
    any = true;
    env.count(Counter::kEscapeReleased);
    if (look(record->packet) != registry::Match::kNew) return;
    const wire::Packet packet = record->packet;
    if (!wire::is_last_or_only(packet.op)) settle(packet);
    enter_operation(packet, now);
  });
  if (any) ack.force(now);  // until now they were not acknowledged
}

// From the escape channel to its place. Packets without a valid place stay held.
void Responder::Impl::settle(const wire::Packet& packet) {
  const Psn psn = packet.bth.psn;
  if (wire::is_write(packet.op)) {
    std::byte* const to = registered_place(packet);
    const std::uint64_t end = std::uint64_t{packet.bxth.packet_index} * mtu + packet.payload.size();
    if (to == nullptr || end >= packet.reth.length) return;
    if (!copy_uncovered(out_of_order, psn, to, packet.payload)) return;
    out_of_order->early.settle(psn, to);
    return;
  }
  const auto index = early_checks().receive_index(packet);
  if (!index) return;
  if (receives.scatter(env.memory, identity.pd, *index, target_of(packet), packet.payload) == memory::Fault::kNone) {
    out_of_order->early.settle(psn, nullptr);
  }
}

Duration Responder::Impl::escape_time() const {
  return std::max(env.config.transfer.escape_time, feedback_rtt.smoothed() * kEscapeRtts);
}

// The start did not come in time: the packet and its data are dropped. It was not acknowledged, so it is missing again,
// and requested like any other. The newest of all stays until a packet beyond it arrives: before that, no gap could be
// seen in its place.
void Responder::Impl::expire_escaped(Instant now) {
  if (escape->empty()) return;
  std::vector<registry::EscapedPacket> kept;
  bool dropped = false;
  registry::EscapeChannel& channel = *escape.if_made();
  channel.expire(now, escape_time(), [&](registry::EscapedPacket packet) {
    if (find_early(out_of_order, packet.psn) == nullptr) return;
    if (packet.psn == window.highest() || !out_of_order->gaps.reopen(packet.psn, now)) {
      packet.since = now;
      kept.push_back(packet);
      return;
    }
    out_of_order->early.release(packet.psn);
    window.forget(packet.psn);
    env.count(Counter::kEscapeExpired);
    dropped = true;
  });
  for (const registry::EscapedPacket& packet : kept) channel.admit(packet);
  if (dropped) scan_gaps(now, now);
}

// Acknowledgements leave out packets in the escape channel: they may be dropped yet. They do not count as lost either.
void Responder::Impl::hide_escaped(std::uint32_t bit_count, std::byte* bits) const {
  for (std::size_t i = 0; i < escape->size(); ++i) {
    const std::int32_t bit = distance((*escape)[i].psn, base());
    if (bit < 0 || static_cast<std::uint32_t>(bit) >= bit_count) continue;
    bits[bit / 8] &= static_cast<std::byte>(~(0x80u >> (bit % 8)));
  }
}

Psn Responder::Impl::before_escaped(Psn end) const {
  for (std::size_t i = 0; i < escape->size(); ++i) {
    if (distance((*escape)[i].psn, end) < 0) end = (*escape)[i].psn;
  }
  return end;
}

}  // namespace brdma::qp
