// qp/receive/acknowledge.cc - ACK (standard) and BitmapAck: when one is due, and its construction. Packets only request
// an acknowledgement; one leaves after a burst of them, piggybacked on the data of the same batch or behind it.
#include <algorithm>
#include <array>

#include "qp/state/pending.h"

namespace brdma::qp {

void Responder::Impl::send_final_acks() {
  constexpr std::uint8_t kLeaveCopies = 3;  // with 5 % loss, one in 160,000 closings loses all final ACKs
  if (!established || halted) return;
  ack.force_last(kLeaveCopies);
}

bool Responder::Impl::poll_acknowledgement(TransmitBatch& batch, Instant now) {
  if (!acknowledgement_due(now)) return false;
  const bool bitmap = speaks_bitmap();
  // An ACK implies that the responses to earlier READs and atomics have been sent (IBTA 9.7.5.1.2): it must not
  // overtake them. A BitmapAck covers requests only.
  if (!bitmap && !resources.empty()) return false;
  if (!send_acknowledgement(batch, {wire::kSyndromeAck, msn}, base() - 1, bitmap, now)) return false;
  ack.continue_copies();
  return true;
}

// Piggybacks the acknowledgement on the batch's last data packet, where that has room: one datagram instead of two.
// Only the most common acknowledgement fits: all before the base has arrived, nothing beyond it.
bool Responder::Impl::piggyback_acknowledgement(TransmitBatch& batch, Instant now) {
  if (!may_piggyback() || (!acknowledgement_due(now) && !ack.repeats())) return false;
  if (!batch.piggyback(piggyback_now(now), wire::packet_bytes_max(mtu))) return false;
  note_acknowledged(now);
  return true;
}

// Offset from the base up to which every gap has been promoted.
std::uint16_t Responder::Impl::judged() const {
  if (out_of_order == nullptr) return 0;
  const bitmap::GapTable& gaps = out_of_order->gaps;
  const std::size_t waiting = gaps.first_waiting();
  if (waiting == 0) return 0;
  const bitmap::GapRecord& last = gaps[waiting - 1];
  const Psn end = operations.before_escaped(last.start + last.length);
  return static_cast<std::uint16_t>(std::clamp(distance(end, base()), 0, 0xFFFF));
}

// `psn`: of the standard form. A BitmapAck starts at the base, which is a NAK's PSN too.
bool Responder::Impl::send_acknowledgement(TransmitBatch& batch, const wire::Aeth& aeth, Psn psn, bool bitmap,
                                           Instant now) {
  if (bitmap ? !send_bitmap_ack(batch, aeth, now) : !send_standard_ack(batch, aeth, psn)) return false;
  acknowledged(aeth.syndrome, now);
  return true;
}

bool Responder::Impl::send_standard_ack(TransmitBatch& batch, const wire::Aeth& aeth, Psn psn) {
  wire::Packet packet;
  packet.op = wire::RcOp::kAcknowledge;
  packet.bth.opcode = wire::opcode_of(packet.op, false);
  packet.bth.dest_qpn = identity.attributes.destination_qpn;
  packet.bth.psn = psn;
  packet.aeth = aeth;
  if (!batch.fits(TransmitBatch::packet_bytes(packet, 0), 0, false)) return false;
  batch.add(packet, {}, 0);
  return true;
}

// The common part of all BitmapAcks; nothing beyond the base. Built where it is used: most are encoded at once and
// never lie in memory.
[[gnu::always_inline]] inline wire::BitmapAck Responder::Impl::bitmap_ack(const wire::Aeth& aeth, Instant now) const {
  const PeerCredit credit = env.credit_share();
  wire::BitmapAck body;
  body.source_qpn = identity.qpn;
  body.token = identity.peer_token;
  body.path = echo.path();
  body.msn = aeth.msn;
  body.syndrome = aeth.syndrome;
  body.base = base();
  body.highest = base() - 1;
  body.credit_packets = credit.packets;
  body.credit_bytes = credit.bytes;
  body.echo_valid = echo.valid();
  body.ts_echo = echo.timestamp();
  body.tr = echo.received();
  body.made = echo.made(now);
  if (identity.peer_reads_waited && echo.valid()) body.waited = echo.waited();
  if (operations.registered().used()) [[unlikely]] {
    const auto completed = operations.registered().completed();
    body.operations_valid = true;
    body.operations_next = completed.next;
    body.operations_beyond = completed.beyond;
  }
  return body;
}

inline wire::Bth Responder::Impl::ack_header() const {
  wire::Bth bth;
  bth.opcode = static_cast<std::uint8_t>(wire::Control::kBitmapAck);
  bth.dest_qpn = identity.attributes.destination_qpn;
  bth.psn = base();
  return bth;
}

bool Responder::Impl::send_bitmap_ack(TransmitBatch& batch, const wire::Aeth& aeth, Instant now) {
  if (window.empty()) [[likely]] {
    const wire::BitmapAck body = bitmap_ack(aeth, now);
    if (!batch.fits(wire::kBthSize + wire::bitmap_ack_start_size(body) + wire::kIcrcSize, 0, true)) return false;
    if (out_of_order != nullptr) [[unlikely]]
      out_of_order->ranges_reported.begun = false;
    batch.end_control(wire::emit_bitmap_ack_start(body, batch.begin_control(ack_header())));
  } else if (!send_with_bits(batch, aeth, now)) {
    return false;
  }
  ack.on_sent_alone();
  echo.on_sent();
  return true;
}

// Packets have arrived beyond the base.
bool Responder::Impl::send_with_bits(TransmitBatch& batch, const wire::Aeth& aeth, Instant now) {
  wire::BitmapAck body = bitmap_ack(aeth, now);
  std::array<std::byte, wire::kAckBitsMax / 8> bits;
  std::array<std::byte, wire::kAckRangesMax * wire::kAckRangeSize> ranges;
  // The base itself may be held here, refused and unexecuted: by definition it has not arrived.
  const bool only_base = window.highest() == base();
  const auto known = only_base ? 0 : static_cast<std::uint32_t>(distance(window.highest(), base()) + 1);
  // Ranges cover packets beyond the bits: half of the room for each. None in a NAK that ends the queue pair: its
  // out-of-order state has been freed.
  const bool more = out_of_order != nullptr && known > std::min(std::uint32_t{wire::kAckBitsMax}, mtu * 8) &&
                    identity.peer_reads_ranges;
  const std::uint32_t bit_count = std::min({known, std::uint32_t{wire::kAckBitsMax}, more ? mtu * 4 : mtu * 8});
  const std::uint32_t range_count = more ? list_ranges(base() + bit_count, ranges.data()) : 0;
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
    note_ranges_reported(range_count);
  } else if (out_of_order != nullptr) {
    out_of_order->ranges_reported.begun = false;
  }
  batch.end_control(wire::emit_bitmap_ack(body, batch.begin_control(ack_header())));
  return true;
}

}  // namespace brdma::qp
