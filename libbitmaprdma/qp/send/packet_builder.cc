#include "qp/send/packet_builder.h"

#include "registry/segmenter.h"

namespace brdma::qp {
namespace {

using wire::RcOp;

struct Place {
  bool first, last;
};

RcOp pick(Place place, RcOp first, RcOp middle, RcOp last, RcOp only) {
  if (place.first) return place.last ? only : first;
  return place.last ? last : middle;
}

RcOp op_of(WorkOpcode opcode, Place place) {
  switch (opcode) {
    case WorkOpcode::kRdmaWrite:
      return pick(place, RcOp::kWriteFirst, RcOp::kWriteMiddle, RcOp::kWriteLast, RcOp::kWriteOnly);
    case WorkOpcode::kRdmaWriteWithImm:
      return pick(place, RcOp::kWriteFirst, RcOp::kWriteMiddle, RcOp::kWriteLastImm, RcOp::kWriteOnlyImm);
    case WorkOpcode::kSendWithImm:
      return pick(place, RcOp::kSendFirst, RcOp::kSendMiddle, RcOp::kSendLastImm, RcOp::kSendOnlyImm);
    case WorkOpcode::kSendWithInvalidate:
      return pick(place, RcOp::kSendFirst, RcOp::kSendMiddle, RcOp::kSendLastInvalidate, RcOp::kSendOnlyInvalidate);
    case WorkOpcode::kRdmaRead:
      return RcOp::kReadRequest;
    case WorkOpcode::kAtomicCmpSwap:
      return RcOp::kCompareSwap;
    case WorkOpcode::kAtomicFetchAdd:
      return RcOp::kFetchAdd;
    case WorkOpcode::kAtomicWrite:
      return RcOp::kAtomicWrite;
    case WorkOpcode::kFlush:
      return RcOp::kFlush;
    default:
      return pick(place, RcOp::kSendFirst, RcOp::kSendMiddle, RcOp::kSendLast, RcOp::kSendOnly);
  }
}

void put_common(wire::Packet& packet, RcOp op, const Identity& id, const SendWqe& wqe, const Message& message,
                std::uint32_t index, bool again, Instant now) {
  packet.op = op;
  packet.bitmap = id.bitmap_agreed;
  packet.bth.opcode = opcode_of(id, op, packet.bitmap);
  packet.bth.dest_qpn = id.attributes.destination_qpn;
  if (!packet.bitmap) {
    packet.srq = wqe.srq;
    return;
  }
  packet.bxth.retransmitted = again;
  packet.bxth.source_qpn = id.qpn;
  packet.bxth.token = id.peer_token;
  packet.bxth.msn = message.msn;
  packet.bxth.rsn = message.rsn;
  packet.bxth.packet_index = index;
  if (message.by_reference != 0) packet.bxth.operation = wire::Bxth::kByReference;
  packet.bxth.timestamp = wire::timestamp_of(now);
}

// Of the responses from `index` on, `count` of them.
wire::Reth read_of(const SendWqe& wqe, const Message& message, std::uint32_t mtu, std::uint32_t index,
                   std::uint32_t count) {
  const std::uint32_t skipped = index * mtu;
  const bool to_end = index + count == message.packets;
  const std::uint32_t length = message.by_reference != 0 ? message.by_reference : message.length;
  return {wqe.remote_address + message.offset + skipped, wqe.rkey, to_end ? length - skipped : count * mtu};
}

void put_atomic(wire::Packet& packet, const SendWqe& wqe) {
  packet.atomic.address = wqe.remote_address;
  packet.atomic.rkey = wqe.rkey;
  const bool swap = wqe.opcode == WorkOpcode::kAtomicCmpSwap;
  packet.atomic.swap_or_add = swap ? wqe.swap : wqe.compare_or_add;
  packet.atomic.compare = swap ? wqe.compare_or_add : 0;
}

void put_operation(wire::Bxth& bxth, const Message& message, std::uint32_t index) {
  const registry::Segment segment = registry::Segmenter(message.packets, message.segment_packets).at(index);
  bxth.operation = static_cast<std::uint8_t>(message.first_operation + segment.number);
  bxth.operation_packets = static_cast<std::uint8_t>(segment.packets);
  bxth.operation_start = segment.place == 0;
  bxth.operation_more = !segment.last;
}

}  // namespace

std::uint8_t PacketBuilder::operation_of(const Message& message, Sequence sequence) {
  const registry::Segmenter segmenter(message.packets, message.segment_packets);
  return static_cast<std::uint8_t>(message.first_operation +
                                   segmenter.at(static_cast<std::uint32_t>(sequence - message.first)).number);
}

void PacketBuilder::data(wire::Packet& packet, const Message& message, Sequence sequence, bool again,
                         Instant now) const {
  const SendWqe& wqe = queue_[message.wqe];
  const auto index = static_cast<std::uint32_t>(sequence - message.first);
  const Place place{index == 0 && message.offset == 0, sequence + 1 == message.end() && message.last_of_wqe};
  put_common(packet, op_of(wqe.opcode, place), id_, wqe, message, index, again, now);
  packet.bth.psn = scoreboard_.psn_of(sequence);
  if (message.segment_packets != 0) put_operation(packet.bxth, message, index);
  if (message.kind == MessageKind::kWrite) {
    packet.reth =
        wire::Reth{wqe.remote_address + message.offset + std::uint64_t{index} * id_.mtu(), wqe.rkey, wqe.length};
  }
  if (!place.last) return;
  packet.immediate_be = wqe.immediate_be;
  packet.invalidate_rkey = wqe.immediate_be;
  packet.bth.solicited = (wqe.flags & kSendSolicited) != 0 &&
                         (message.kind == MessageKind::kSend || wqe.opcode == WorkOpcode::kRdmaWriteWithImm);
}

void PacketBuilder::request(wire::Packet& packet, const Message& message, Sequence sequence, std::uint32_t count,
                            bool again, Instant now) const {
  const SendWqe& wqe = queue_[message.wqe];
  const auto index = static_cast<std::uint32_t>(sequence - message.first);
  put_common(packet, op_of(wqe.opcode, Place{true, true}), id_, wqe, message, index, again, now);
  packet.bth.psn = scoreboard_.psn_of(sequence);
  packet.bth.ack_request = true;
  switch (message.kind) {
    case MessageKind::kRead:
      packet.reth = read_of(wqe, message, id_.mtu(), index, count);
      return;
    case MessageKind::kConfirmed: {
      const bool flush = wqe.opcode == WorkOpcode::kFlush;
      packet.reth = {wqe.remote_address, wqe.rkey, flush ? static_cast<std::uint32_t>(wqe.compare_or_add) : wqe.length};
      if (flush) packet.feth = {static_cast<std::uint8_t>(wqe.swap), static_cast<std::uint8_t>(wqe.swap >> 8)};
      return;
    }
    default:
      put_atomic(packet, wqe);
  }
}

void PacketBuilder::trace_data(Environment& env, const Message& message, Sequence first, std::uint64_t packets,
                               std::size_t bytes, Instant now) const {
  for (std::uint64_t i = 0; i < packets; ++i) {
    wire::Packet packet;
    data(packet, message, first + i, false, now);
    trace_sent(env, id_, packet, bytes, false, now);
  }
}

}  // namespace brdma::qp
