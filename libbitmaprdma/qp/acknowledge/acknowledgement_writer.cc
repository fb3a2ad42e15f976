#include "qp/acknowledge/acknowledgement_writer.h"

#include <algorithm>
#include <array>

namespace brdma::qp {

bool AcknowledgementWriter::refuse(TransmitBatch& batch, const wire::Aeth& aeth, Psn psn, bool bitmap,
                                   Instant now) const {
  return write_any(batch, aeth, psn, bitmap, now);
}

// Offset from the base up to which every gap has been promoted. A base that waits for its receive is not reported, and
// not missing either: it must not seem judged lost.
std::uint16_t AcknowledgementWriter::judged() const {
  if (parts_.out_of_order == nullptr || parts_.window.has(base())) return 0;
  const bitmap::GapTable& gaps = parts_.out_of_order->gaps;
  const std::size_t waiting = gaps.first_waiting();
  if (waiting == 0) return 0;
  const bitmap::GapRecord& last = gaps[waiting - 1];
  const Psn end = parts_.operations.before_escaped(last.start + last.length);
  return static_cast<std::uint16_t>(std::clamp(distance(end, base()), 0, 0xFFFF));
}

bool AcknowledgementWriter::write_standard(const Identity& identity, TransmitBatch& batch, const wire::Aeth& aeth,
                                           Psn psn) {
  wire::Packet packet;
  packet.op = wire::RcOp::kAcknowledge;
  packet.bth.opcode = opcode_of(identity, packet.op, false);
  packet.bth.dest_qpn = identity.attributes.destination_qpn;
  packet.bth.psn = psn;
  packet.aeth = aeth;
  if (!batch.fits(TransmitBatch::packet_bytes(packet, 0), 0, false)) return false;
  batch.add(packet, {}, 0);
  return true;
}

// Packets have arrived beyond the base.
bool AcknowledgementWriter::write_with_bits(TransmitBatch& batch, const wire::Aeth& aeth, Instant now) const {
  const bitmap::ReceiveWindow& window = parts_.window;
  const ReceivedOperations& operations = parts_.operations;
  OutOfOrderState* const out_of_order = parts_.out_of_order;
  const std::uint32_t mtu = parts_.mtu;
  wire::BitmapAck body = bitmap_ack(aeth, now);
  std::array<std::byte, wire::kAckBitsMax / 8> bits;
  std::array<std::byte, wire::kAckRangesMax * wire::kAckRangeSize> ranges;
  // The base itself may be held here, refused and unexecuted: by definition it has not arrived.
  const bool only_base = window.highest() == base();
  const auto known = only_base ? 0 : static_cast<std::uint32_t>(distance(window.highest(), base()) + 1);
  // Ranges cover packets beyond the bits: half of the room for each. None in a NAK that ends the queue pair: its
  // out-of-order state has been freed.
  const bool more = out_of_order != nullptr && known > std::min(std::uint32_t{wire::kAckBitsMax}, mtu * 8) &&
                    parts_.identity.peer_reads_ranges;
  const std::uint32_t bit_count = std::min({known, std::uint32_t{wire::kAckBitsMax}, more ? mtu * 4 : mtu * 8});
  const Psn end = operations.before_escaped(window.highest() + 1);
  const std::uint32_t range_count =
      more ? out_of_order->ranges.list(window, base() + bit_count, end, mtu, ranges.data()) : 0;
  window.export_bits(bit_count, bits.data());
  if (bit_count > 0) bits[0] &= std::byte{0x7F};
  if (!operations.escape().empty()) operations.hide_escaped(base(), bit_count, bits.data());
  body.highest = only_base ? base() - 1 : window.highest();
  body.judged = judged();
  body.bit_count = static_cast<std::uint16_t>(bit_count);
  body.bits = ConstBytes{bits.data(), wire::bitmap_bytes(body.bit_count)};
  body.range_count = static_cast<std::uint16_t>(range_count);
  body.ranges = ConstBytes{ranges.data(), range_count * wire::kAckRangeSize};
  const std::size_t size = wire::bitmap_ack_start_size(body) + body.bits.size() + body.ranges.size();
  // At its present size: in a batch of several queue pairs no packet may be longer than the first.
  if (!batch.fits(wire::kBthSize + size + wire::kIcrcSize, 0, true)) return false;
  if (more) {
    out_of_order->ranges.note_sent(end);
    parts_.env.count(Counter::kAckRangesSent, range_count);
  } else if (out_of_order != nullptr) {
    out_of_order->ranges.restart();
  }
  batch.end_control(wire::emit_bitmap_ack(body, batch.begin_control(header())));
  return true;
}

}  // namespace brdma::qp
