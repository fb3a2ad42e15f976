// Invented control packets of the hostile peer: with the right tokens, near to valid ones, and then changed.
#include <algorithm>
#include <array>

#include "hostile_peer.h"
#include "qp/state/queue_pair.h"
#include "wire/edn.h"
#include "wire/link_state.h"
#include "wire/stopped_peer.h"

namespace brdma::attacks {

using wire::Control;

void HostilePeer::send_control(const Link& link, Control which, Psn psn, ConstBytes body) {
  PacketBytes packet(wire::kBthSize + body.size() + wire::kIcrcSize);
  wire::Bth bth;
  bth.opcode = static_cast<std::uint8_t>(which);
  bth.dest_qpn = which == Control::kStoppedQuery ? wire::kGsiQpn : link.victim_qpn;
  bth.psn = psn;
  wire::emit_bth(bth, packet.data());
  std::copy(body.begin(), body.end(), packet.begin() + wire::kBthSize);
  if (random_.below(2) == 0) mutate(packet, random_);
  send(packet, random_.below(64) != 0);
}

void HostilePeer::invent(Link& link, Instant now) {
  ++figures_.invented;
  const std::uint64_t which = random_.below(16);
  if (which < 5) return invent_acknowledgement(link, now);
  if (which < 8) return invent_feedback(link, now);
  if (which < 10) return invent_drop(link, now);
  if (which < 12) return invent_caps(link);
  return invent_other(link, which - 12);
}

void HostilePeer::invent_acknowledgement(const Link& link, Instant now) {
  wire::BitmapAck ack;
  ack.source_qpn = link.own_qpn;
  ack.token = link.qp->identity().peer_token;
  ack.responses = random_.below(8) == 0;
  ack.base = near(link.seen);
  ack.bit_count = static_cast<std::uint16_t>(random_.below(random_.below(8) == 0 ? 4096 : 64));
  ack.highest = ack.base + static_cast<std::uint32_t>(random_.below(ack.bit_count + 2u)) - 1;
  ack.syndrome = random_.below(4) == 0 ? static_cast<std::uint8_t>(random_.next()) : wire::kSyndromeAck;
  ack.msn = static_cast<std::uint32_t>(random_.below(64));
  ack.credit_packets = static_cast<std::uint32_t>(random_.next());
  ack.credit_bytes = static_cast<std::uint32_t>(random_.next());
  ack.judged = static_cast<std::uint16_t>(random_.below(64));
  ack.echo_valid = random_.below(2) == 0;
  ack.ts_echo = wire::timestamp_of(now) - random_.below(1 << 20);
  ack.tr = random_.next();
  ack.made = static_cast<std::uint32_t>(ack.tr + random_.below(1 << 20));
  ack.operations_valid = random_.below(4) == 0;
  ack.operations_next = static_cast<std::uint8_t>(random_.next());
  std::vector<std::byte> bits(wire::bitmap_bytes(ack.bit_count));
  for (std::byte& byte : bits) byte = static_cast<std::byte>(random_.next());
  if (!bits.empty()) bits[0] &= std::byte{0x7F};
  ack.bits = bits;
  std::array<std::byte, 8 * wire::kAckRangeSize> ranges{};
  ack.range_count = static_cast<std::uint16_t>(random_.below(9));
  Psn start = ack.highest;
  for (std::size_t i = 0; i < ack.range_count; ++i) {
    const auto length = static_cast<std::uint32_t>(1 + random_.below(16));
    wire::emit_ack_range({start, length}, &ranges[i * wire::kAckRangeSize]);
    start = start + length + 1;
  }
  ack.ranges = ConstBytes{ranges}.first(ack.range_count * wire::kAckRangeSize);
  std::vector<std::byte> body(wire::kBitmapAckSize + wire::kAckWaitedSize + bits.size() + ranges.size());
  send_control(link, Control::kBitmapAck, ack.base, {body.data(), wire::emit_bitmap_ack(ack, body.data())});
}

void HostilePeer::invent_feedback(const Link& link, Instant now) {
  constexpr std::size_t kGaps = 8;
  std::array<std::byte, kGaps * wire::kFfmGapSize> gaps{};
  wire::Ffm ffm;
  ffm.source_qpn = link.own_qpn;
  ffm.token = link.qp->identity().peer_token;
  ffm.responses = random_.below(8) == 0;
  ffm.base = near(link.seen);
  ffm.serial = static_cast<std::uint32_t>(random_.below(64));
  ffm.cause = static_cast<std::uint8_t>(random_.below(16));
  ffm.timestamp = wire::timestamp_of(now);
  ffm.gap_count = static_cast<std::uint16_t>(1 + random_.below(kGaps));
  ffm.promoted = static_cast<std::uint16_t>(random_.next());
  Psn start = ffm.base;
  for (std::size_t i = 0; i < ffm.gap_count; ++i) {
    const auto length = static_cast<std::uint32_t>(1 + random_.below(4));
    wire::emit_ffm_gap({start, length}, &gaps[i * wire::kFfmGapSize]);
    start = start + length + static_cast<std::uint32_t>(random_.below(3));
  }
  ffm.highest = start;
  ffm.gaps = ConstBytes{gaps}.first(ffm.gap_count * wire::kFfmGapSize);
  std::array<std::byte, wire::kFfmSize + sizeof gaps> body;
  send_control(link, Control::kFfm, ffm.base, {body.data(), wire::emit_ffm(ffm, body.data())});
}

void HostilePeer::invent_drop(const Link& link, Instant now) {
  wire::Edn edn;
  edn.first = near(link.seen);
  edn.last = edn.first + static_cast<std::uint32_t>(random_.below(8) == 0 ? random_.below(1 << 23) : random_.below(8));
  edn.responses = random_.below(4) == 0;
  edn.acknowledgement = !edn.responses && random_.below(4) == 0;
  edn.destination_qpn = link.own_qpn;
  edn.path = static_cast<std::uint8_t>(random_.below(32));
  edn.drain = 1_us * static_cast<std::int64_t>(random_.below(4'000'000));
  if (random_.below(2) == 0) edn.timestamp = wire::timestamp_of(now) - random_.below(1 << 24);
  edn.token = link.qp->identity().own_token;
  std::array<std::byte, wire::kEdnSize> body;
  send_control(link, Control::kEdn, edn.first, {body.data(), wire::emit_edn(edn, body.data())});
}

void HostilePeer::invent_caps(const Link& link) {
  const auto& identity = link.qp->identity();
  wire::Caps caps;
  caps.reply = random_.below(2) == 0;
  caps.source_qpn = link.own_qpn;
  caps.capabilities = static_cast<std::uint32_t>(random_.below(256)) | wire::kCapabilityBitmap;
  caps.path_mtu_code =
      static_cast<std::uint8_t>(random_.below(4) == 0 ? random_.below(8) : static_cast<std::uint64_t>(link.mtu));
  caps.paths = static_cast<std::uint8_t>(random_.next());
  caps.sending_paths = static_cast<std::uint8_t>(random_.below(32));
  caps.window_packets = random_.below(2) == 0 ? 1u << random_.below(32) : static_cast<std::uint32_t>(random_.next());
  caps.credit_packets = static_cast<std::uint32_t>(random_.next());
  caps.credit_bytes = static_cast<std::uint32_t>(random_.next());
  caps.token = random_.below(4) == 0 ? random_.next() : identity.own_token;
  caps.echo = random_.below(4) == 0 ? random_.next() : identity.peer_token;
  std::array<std::byte, wire::kCapsSize + wire::kCapsLocalSize> body{};
  send_control(link, Control::kCaps, Psn{0}, {body.data(), wire::emit_caps(caps, body.data())});
}

// Links, stopped processes, congestion.
void HostilePeer::invent_other(const Link& link, std::uint64_t which) {
  std::array<std::byte, 64> body{};
  if (which == 0) {
    const wire::LinkStateFeedback feedback{.destination_qpn = link.own_qpn,
                                           .hop = static_cast<std::uint8_t>(random_.below(20)),
                                           .nonce = random_.next(),
                                           .speed = random_.below(1 << 30),
                                           .link_rate = random_.below(1 << 30)};
    const std::size_t size = wire::emit_link_state_feedback(feedback, body.data());
    return send_control(link, Control::kLinkStateFeedback, Psn{0}, {body.data(), size});
  }
  if (which == 1) {
    const wire::LinkStateInquiry inquiry{.source_qpn = link.own_qpn, .hop_limit = 16, .nonce = random_.next()};
    const std::size_t size = wire::emit_link_state_inquiry(inquiry, body.data());
    return send_control(link, Control::kLinkStateInquiry, Psn{0}, {body.data(), size});
  }
  if (which == 2) {
    for (std::byte& byte : body) byte = static_cast<std::byte>(random_.next());
    store_be32(body.data(), 0x1000'0000 | link.own_qpn);
    store_be32(body.data() + 4, link.victim_qpn);
    const bool query = random_.below(2) == 0;
    return send_control(link, query ? Control::kStoppedQuery : Control::kStoppedReply, Psn{0},
                        {body.data(), wire::kStoppedQuerySize});
  }
  PacketBytes packet(wire::kBthSize + wire::kCnpReservedSize + wire::kIcrcSize);
  wire::Bth bth;
  bth.opcode = wire::kCnpOpcode;
  bth.dest_qpn = link.victim_qpn;
  bth.becn = true;
  wire::emit_bth(bth, packet.data());
  store_be64(&packet[wire::kBthSize], link.qp->identity().peer_token);
  if (random_.below(2) == 0) mutate(packet, random_);
  send(packet, true);
}

}  // namespace brdma::attacks
