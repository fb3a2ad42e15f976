// Builds a packet's headers from a message and a sequence number. Nothing else enters, so a retransmission is built the
// same way (and in bitmap mode, once that is agreed, whatever the first copy was).
#include "qp/send/requester_impl.h"

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

void put_common(wire::Packet& packet, RcOp op, const Identity& id, const Message& message, std::uint32_t index,
                bool again, Instant now) {
  packet.op = op;
  packet.bitmap = id.bitmap_agreed;
  packet.bth.opcode = wire::opcode_of(op, packet.bitmap);
  packet.bth.dest_qpn = id.attributes.destination_qpn;
  if (!packet.bitmap) return;
  packet.bxth.retransmitted = again;
  packet.bxth.source_qpn = id.qpn;
  packet.bxth.token = id.peer_token;
  packet.bxth.msn = message.msn;
  packet.bxth.rsn = message.rsn;
  packet.bxth.packet_index = index;
  if (message.by_reference != 0) packet.bxth.operation = wire::Bxth::kByReference;
  packet.bxth.timestamp = wire::timestamp_of(now);
}

}  // namespace

void Requester::Impl::build_data(wire::Packet& packet, const Message& message, Sequence sequence, bool again,
                                 Instant now) const {
  const SendWqe& wqe = queue[message.wqe];
  const auto index = static_cast<std::uint32_t>(sequence - message.first);
  const Place place{index == 0 && message.offset == 0, sequence + 1 == message.end() && message.last_of_wqe};
  put_common(packet, op_of(wqe.opcode, place), id, message, index, again, now);
  packet.bth.psn = scoreboard.psn_of(sequence);
  if (message.segment_packets != 0) fill_operation_fields(packet.bxth, message, index);
  if (message.kind == MessageKind::kWrite) {
    packet.reth =
        wire::Reth{wqe.remote_address + message.offset + std::uint64_t{index} * id.mtu(), wqe.rkey, wqe.length};
  }
  if (!place.last) return;
  packet.immediate_be = wqe.immediate_be;
  packet.invalidate_rkey = wqe.immediate_be;
  packet.bth.solicited = (wqe.flags & kSendSolicited) != 0 &&
                         (message.kind == MessageKind::kSend || wqe.opcode == WorkOpcode::kRdmaWriteWithImm);
}

void Requester::Impl::build_request(wire::Packet& packet, const Message& message, Sequence sequence,
                                    std::uint32_t count, bool again, Instant now) const {
  const SendWqe& wqe = queue[message.wqe];
  const auto index = static_cast<std::uint32_t>(sequence - message.first);
  put_common(packet, op_of(wqe.opcode, Place{true, true}), id, message, index, again, now);
  packet.bth.psn = scoreboard.psn_of(sequence);
  packet.bth.ack_request = true;
  if (message.kind == MessageKind::kRead) {
    const std::uint32_t skipped = index * id.mtu();
    const bool to_end = sequence + count == message.end();
    const std::uint32_t length = message.by_reference != 0 ? message.by_reference : message.length;
    packet.reth = wire::Reth{wqe.remote_address + message.offset + skipped, wqe.rkey,
                             to_end ? length - skipped : count * id.mtu()};
    return;
  }
  if (message.kind == MessageKind::kConfirmed) {
    const bool flush = wqe.opcode == WorkOpcode::kFlush;
    packet.reth =
        wire::Reth{wqe.remote_address, wqe.rkey, flush ? static_cast<std::uint32_t>(wqe.compare_or_add) : wqe.length};
    if (flush) packet.feth = {static_cast<std::uint8_t>(wqe.swap), static_cast<std::uint8_t>(wqe.swap >> 8)};
    return;
  }
  packet.atomic.address = wqe.remote_address;
  packet.atomic.rkey = wqe.rkey;
  const bool swap = wqe.opcode == WorkOpcode::kAtomicCmpSwap;
  packet.atomic.swap_or_add = swap ? wqe.swap : wqe.compare_or_add;
  packet.atomic.compare = swap ? wqe.compare_or_add : 0;
}

void Requester::Impl::trace_sent(const wire::Packet& packet, std::size_t bytes, bool again, Instant now) const {
  if (env.sink == nullptr) [[likely]]
    return;
  env.trace(now, id.qpn,
            trace::PacketSent{packet.bth.opcode, packet.bth.psn, static_cast<std::uint32_t>(bytes), again});
}

}  // namespace brdma::qp
