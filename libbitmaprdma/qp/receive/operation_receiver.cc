#include "qp/receive/operation_receiver.h"

#include <bit>
#include <vector>

namespace brdma::qp {
namespace {

bool is_start(const wire::Packet& packet) { return packet.bxth.operation_start; }

void note_match(const wire::Packet& packet, registry::Match match, Environment& env, const Identity& identity,
                Instant now) {
  if (match != registry::Match::kComplete) return;
  env.count(Counter::kOperationsComplete);
  env.trace(now, identity.qpn, trace::OperationCompleted{packet.bxth.operation, !packet.bxth.operation_more});
}

}  // namespace

std::byte* ReceivedOperations::place_of(const wire::Packet& packet, const memory::MemoryTable& memory) const {
  const registry::Operation* const operation = registered_->find(packet.bxth.operation);
  if (operation == nullptr || operation->start.memory == nullptr) return nullptr;
  const registry::OperationStart& start = operation->start;
  if (start.memory_version != memory.version() || start.rkey != packet.reth.rkey) return nullptr;
  const std::uint64_t offset = packet.reth.address - start.address;
  if (offset > start.bytes || packet.payload.size() > start.bytes - offset) return nullptr;
  return start.memory + offset;
}

void ReceivedOperations::executed(const wire::Packet& packet, std::uint32_t mtu, Environment& env,
                                  const Identity& identity, Instant now) {
  const auto [match, ended] =
      registered_.made().execute(packet.bxth.operation, target_of(packet, mtu), packet.bxth.operation_packets);
  note_match(packet, match, env, identity, now);
  if (ended && !packet.bxth.operation_more) env.count(Counter::kTransfersComplete);
}

void ReceivedOperations::hide_escaped(Psn base, std::uint32_t bit_count, std::byte* bits) const {
  for (std::size_t i = 0; i < escape_->size(); ++i) {
    const std::int32_t bit = distance((*escape_)[i].psn, base);
    if (bit < 0 || static_cast<std::uint32_t>(bit) >= bit_count) continue;
    bits[bit / 8] &= static_cast<std::byte>(~(0x80u >> (bit % 8)));
  }
}

Psn ReceivedOperations::before_escaped(Psn end) const {
  for (std::size_t i = 0; i < escape_->size(); ++i) {
    if (distance((*escape_)[i].psn, end) < 0) end = (*escape_)[i].psn;
  }
  return end;
}

void ReceivedOperations::clear() {
  if (auto* const known = registered_.if_made()) known->clear();
  if (auto* const channel = escape_.if_made()) channel->clear();
}

registry::OperationStart OperationReceiver::start_of(const wire::Packet& packet) const {
  const memory::MemoryTable& memory = parts_.env.memory;
  registry::OperationStart start{.address = target_of(packet),
                                 .rkey = packet.reth.rkey,
                                 .packets = packet.bxth.operation_packets,
                                 .packet_shift = static_cast<std::uint8_t>(std::countr_zero(parts_.mtu)),
                                 .number = packet.bxth.operation,
                                 .last = !packet.bxth.operation_more,
                                 .memory_version = memory.version()};
  const std::uint64_t before = bytes_before(packet);
  if (!wire::is_write(packet.op) || before >= packet.reth.length) return start;
  const std::uint64_t left = packet.reth.length - before;
  start.bytes = std::min<std::uint64_t>(left, std::uint64_t{start.packets} << start.packet_shift);
  const auto fault = memory.resolve(parts_.identity.accessor(), packet.reth.rkey, start.address, start.bytes,
                                    kAccessRemoteWrite, &start.memory);
  if (fault != memory::Fault::kNone) start.memory = nullptr;
  return start;
}

void OperationReceiver::begin(const wire::Packet& packet, Instant now) const {
  Environment& env = parts_.env;
  if (parts_.operations.registered_->find(packet.bxth.operation) != nullptr) return;
  const registry::OperationStart start = start_of(packet);
  parts_.operations.registered_.made().begin(start);
  env.count(Counter::kOperationsRegistered);
  env.trace(now, parts_.identity.qpn, trace::OperationRegistered{start.number, start.packets});
  if (start.packets == 1) note_match(packet, registry::Match::kComplete, env, parts_.identity, now);
  if (!parts_.operations.escape_->empty()) release(start.number, now);
}

void OperationReceiver::enter(const wire::Packet& packet, Instant now) const {
  const registry::Match match = parts_.operations.registered_.made().receive(packet.bxth.operation, target_of(packet),
                                                                             packet.bxth.operation_packets);
  note_match(packet, match, parts_.env, parts_.identity, now);
}

std::optional<DropReason> OperationReceiver::keep(const wire::Packet& packet, Place place, Instant now) const {
  const registry::Match match = parts_.operations.look(packet, parts_.mtu);
  if (match == registry::Match::kOutside) return DropReason::kEarlyInvalid;
  if (match == registry::Match::kNone && !is_start(packet)) return keep_in_escape(packet, now);
  if (const auto reason = place(packet)) return reason;
  if (is_start(packet)) {
    begin(packet, now);
  } else {
    enter(packet, now);
  }
  return std::nullopt;
}

std::optional<DropReason> OperationReceiver::keep_in_escape(const wire::Packet& packet, Instant now) const {
  Environment& env = parts_.env;
  if (const auto reason = checks().held(packet)) return reason;
  const auto bytes = static_cast<std::uint32_t>(packet.payload.size());
  registry::EscapeChannel& channel = parts_.operations.escape_.made(env.config.transfer.escape_bytes_max);
  if (!channel.has_room(bytes)) return DropReason::kEscapeFull;
  if (!parts_.out_of_order->early.hold(parts_.window.base(), packet)) return DropReason::kHoldFull;
  channel.admit({packet.bth.psn, packet.bxth.operation, bytes, now});
  env.count(Counter::kEscapedPackets);
  return std::nullopt;
}

// A faulty packet stays where it is: it is judged in order.
void OperationReceiver::release(std::uint8_t number, Instant now) const {
  bool any = false;
  parts_.operations.escape_.made().take(number, [&](const registry::EscapedPacket& escaped) {
    const EarlyPackets::Record* const record = find_early(parts_.out_of_order, escaped.psn);
    if (record == nullptr) return;
    any = true;
    parts_.env.count(Counter::kEscapeReleased);
    if (parts_.operations.look(record->packet, parts_.mtu) != registry::Match::kNew) return;
    const wire::Packet packet = record->packet;
    if (!wire::is_last_or_only(packet.op)) settle(packet);
    enter(packet, now);
  });
  if (any) parts_.ack.force(now);  // until now they were not acknowledged
}

// From the escape channel to its place. Packets without a valid place stay held.
void OperationReceiver::settle(const wire::Packet& packet) const {
  const Psn psn = packet.bth.psn;
  EarlyPackets& early = parts_.out_of_order->early;
  if (wire::is_write(packet.op)) {
    std::byte* const to = parts_.operations.place_of(packet, parts_.env.memory);
    if (to == nullptr || bytes_before(packet) + packet.payload.size() >= packet.reth.length) return;
    if (early.copy_uncovered(psn, to, packet.payload)) early.settle(psn, to);
    return;
  }
  const auto index = checks().receive_index(packet);
  if (!index) return;
  const auto fault =
      parts_.receives.scatter(parts_.env.memory, parts_.identity.pd, *index, target_of(packet), packet.payload);
  if (fault == memory::Fault::kNone) early.settle(psn, nullptr);
}

bool OperationReceiver::expire(Duration round_trip, Instant now) const {
  if (parts_.operations.escape_->empty()) return false;
  std::vector<registry::EscapedPacket> kept;
  bool dropped = false;
  registry::EscapeChannel& channel = *parts_.operations.escape_.if_made();
  const Duration time = ReceivedOperations::escape_time(parts_.env.config.transfer, round_trip);
  channel.expire(now, time, [&](registry::EscapedPacket packet) {
    if (find_early(parts_.out_of_order, packet.psn) == nullptr) return;
    if (packet.psn == parts_.window.highest() || !parts_.out_of_order->gaps.reopen(packet.psn, now)) {
      packet.since = now;
      kept.push_back(packet);
      return;
    }
    parts_.out_of_order->early.release(packet.psn);
    parts_.window.forget(packet.psn);
    parts_.env.count(Counter::kEscapeExpired);
    dropped = true;
  });
  for (const registry::EscapedPacket& packet : kept) channel.admit(packet);
  return dropped;
}

}  // namespace brdma::qp
