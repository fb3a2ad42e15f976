// The peer's packets: whole messages in some order, single packets, responses to requests, control packets, noise.
#include <algorithm>
#include <array>
#include <cstring>

#include "fuzz/engine_world.h"
#include "qp/state/queue_pair.h"
#include "support/tokens.h"
#include "wire/control.h"
#include "wire/crc/icrc.h"
#include "wire/edn.h"

namespace brdma::fuzz {
namespace {

using wire::RcOp;

constexpr RcOp kRequests[] = {
    RcOp::kSendFirst,   RcOp::kSendMiddle,   RcOp::kSendLast,    RcOp::kSendLastImm,        RcOp::kSendOnly,
    RcOp::kSendOnlyImm, RcOp::kWriteFirst,   RcOp::kWriteMiddle, RcOp::kWriteLast,          RcOp::kWriteLastImm,
    RcOp::kWriteOnly,   RcOp::kWriteOnlyImm, RcOp::kReadRequest, RcOp::kCompareSwap,        RcOp::kFetchAdd,
    RcOp::kFlush,       RcOp::kAtomicWrite,  RcOp::kWriteOnly,   RcOp::kSendLastInvalidate, RcOp::kSendOnlyInvalidate};
constexpr RcOp kResponses[] = {RcOp::kReadResponseFirst, RcOp::kReadResponseMiddle, RcOp::kReadResponseLast,
                               RcOp::kReadResponseOnly, RcOp::kAtomicAcknowledge};

struct MessageKind {
  RcOp first, middle, last, only;
  bool receives;
};
constexpr MessageKind kMessages[] = {
    {RcOp::kSendFirst, RcOp::kSendMiddle, RcOp::kSendLast, RcOp::kSendOnly, true},
    {RcOp::kSendFirst, RcOp::kSendMiddle, RcOp::kSendLastImm, RcOp::kSendOnlyImm, true},
    {RcOp::kWriteFirst, RcOp::kWriteMiddle, RcOp::kWriteLast, RcOp::kWriteOnly, false},
    {RcOp::kWriteFirst, RcOp::kWriteMiddle, RcOp::kWriteLastImm, RcOp::kWriteOnlyImm, true}};

}  // namespace

// Small steps either way, sometimes far.
Psn EngineWorld::around(Psn psn) {
  const std::uint8_t how = input_.u8();
  if (how < 0x80) return psn;
  if (how < 0xF0) return psn + (how & 0x0F) - 8;
  return psn + input_.u32();
}

std::size_t EngineWorld::some_payload() {
  const std::size_t mtu = mtu_bytes(mtu_);
  const std::size_t sizes[] = {mtu, mtu, 0, 1, 8, mtu - 1, mtu + 1, std::size_t{input_.u8()}};
  return sizes[input_.u8() % std::size(sizes)];
}

void EngineWorld::address_to(const Connection& connection, wire::Packet& packet) {
  packet.bth.dest_qpn = connection.qpn;
  packet.bth.psn = connection.next_request;
  packet.bxth.source_qpn = connection.peer_qpn;
  packet.bxth.msn = connection.msn;
  packet.bxth.rsn = connection.rsn;
  packet.bxth.timestamp = static_cast<std::uint64_t>(now_.ns());
}

void EngineWorld::fill_target(wire::Packet& packet, std::uint32_t length) {
  const std::uint8_t how = input_.u8();
  const auto& region = regions_[how % 8 == 7 ? 1 : how % 16 == 5 ? 2 : 0];
  const std::uint64_t offset = input_.u16() % (kRegionBytes + 64);
  packet.reth = {.address = kIova + offset, .rkey = region.key ^ (how >= 0xF8 ? 1u : 0u), .length = length};
  packet.atomic = {.address = (kIova + offset) & ~std::uint64_t{how % 16 == 3 ? 0u : 7u},
                   .rkey = packet.reth.rkey,
                   .swap_or_add = input_.u8(),
                   .compare = input_.u8()};
}

void EngineWorld::send_packet(wire::Packet packet, std::size_t payload_bytes) {
  const auto& shape = wire::opcode_shape(packet.bth.opcode);
  if (!shape.has(wire::OpcodeShape::kPayload)) payload_bytes = 0;
  packet.bth.pad = static_cast<std::uint8_t>((0 - payload_bytes) & 3);
  std::vector<std::byte> bytes(wire::headers_size(packet) + payload_bytes + packet.bth.pad + wire::kIcrcSize,
                               std::byte{0xA5});
  wire::emit_headers(packet, bytes.data());
  seal_and_deliver(bytes);
}

void EngineWorld::seal_and_deliver(std::vector<std::byte>& packet) {
  // Bitmap mode's ICRC has no identification: most of its packets must not be spoilt by one.
  const bool standard = (load_u8(packet.data()) & 0x80) == 0;
  const std::uint8_t how = input_.u8();
  const std::uint16_t ip_id = how < (standard ? 0x80 : 0xF8) ? std::uint16_t{0} : input_.u16();
  const wire::IcrcPath path{.source = there_,
                            .destination = here_,
                            .source_port = config_.source_ports[0],
                            .destination_port = kRoceUdpPort,
                            .ip_id = ip_id};
  constexpr std::uint64_t kPeerToken = 0x7065'6572;  // else nothing would get beyond the first check
  for (const Connection& connection : connections_) {
    if (connection.qp != nullptr && packet.size() >= wire::kBthSize && load_be24(packet.data() + 5) == connection.qpn) {
      test::put_tokens(connection.qp->identity(), kPeerToken, packet);
    }
  }
  store_le32(packet.data() + packet.size() - wire::kIcrcSize, wire::packet_icrc(path, packet));
  deliver(packet, ip_id);
}

// Any bytes; their QPN and ICRC put right, or not.
void EngineWorld::send_raw() {
  const auto noise = std::as_bytes(input_.bytes(input_.u8()));
  std::vector<std::byte> packet(noise.begin(), noise.end());
  if (packet.size() < wire::kBthSize + wire::kIcrcSize || input_.coin()) return deliver(packet, 0);
  store_be24(packet.data() + 5, pick().qpn);
  seal_and_deliver(packet);
}

// A message of a few packets with everything right, of which some are lost, repeated or exchanged.
void EngineWorld::send_message() {
  Connection& connection = pick();
  const MessageKind& kind = kMessages[input_.below(std::size(kMessages))];
  const std::uint32_t mtu = mtu_bytes(mtu_);
  const std::uint32_t count = 1 + input_.below(5);
  const std::uint32_t tail = input_.below(mtu + 1);
  const bool bitmap = input_.coin();
  wire::Packet model;
  address_to(connection, model);
  fill_target(model, (count - 1) * mtu + tail);
  std::vector<std::pair<wire::Packet, std::uint32_t>> packets;
  for (std::uint32_t i = 0; i < count; ++i) {
    const bool first = i == 0, last = i + 1 == count;
    wire::Packet packet = model;
    packet.bth.opcode =
        wire::opcode_of(first ? (last ? kind.only : kind.first) : (last ? kind.last : kind.middle), bitmap);
    packet.bth.psn = model.bth.psn + i;
    packet.bth.ack_request = last;
    packet.bxth.packet_index = i;
    if (bitmap) packet.reth.address += std::uint64_t{i} * mtu;
    packets.emplace_back(packet, last ? tail : mtu);
  }
  const std::uint8_t faults = input_.u8();
  if ((faults & 1) != 0) std::swap(packets.front(), packets.back());
  if ((faults & 2) != 0) packets.push_back(packets[input_.below(count)]);
  if ((faults & 4) != 0) packets.erase(packets.begin() + input_.below(count));
  if ((faults & 8) != 0) std::reverse(packets.begin(), packets.end());
  connection.next_request = connection.next_request + count;
  ++connection.msn;
  if (kind.receives) ++connection.rsn;
  for (const auto& [packet, payload] : packets) send_packet(packet, payload);
}

// Every second packet of a long WRITE: more gaps than most tables hold.
void EngineWorld::send_scattered() {
  const Connection& connection = pick();
  const std::uint32_t mtu = mtu_bytes(mtu_);
  wire::Packet packet;
  packet.bth.opcode = wire::opcode_of(RcOp::kWriteMiddle, true);
  address_to(connection, packet);
  packet.reth = {.address = kIova, .rkey = regions_[0].key, .length = kRegionBytes};
  const std::uint32_t places = kRegionBytes / mtu - 2;
  for (std::uint32_t i = 0, count = input_.u8() * 2u; i < count; ++i) {
    packet.bth.psn = connection.next_request + 2 * i + 1;
    packet.bxth.packet_index = 1 + i % places;
    packet.reth.address = kIova + std::uint64_t{packet.bxth.packet_index} * mtu;
    send_packet(packet, mtu);
  }
}

void EngineWorld::send_request() {
  Connection& connection = pick();
  wire::Packet packet;
  const RcOp op = kRequests[input_.below(std::size(kRequests))];
  packet.bth.opcode = wire::opcode_of(op, input_.coin());
  address_to(connection, packet);
  const std::size_t payload = some_payload();
  fill_target(packet, input_.coin() ? static_cast<std::uint32_t>(payload) : input_.u16());
  packet.bth.psn = around(packet.bth.psn);
  packet.bth.ack_request = input_.coin();
  packet.bxth.packet_index = input_.coin() ? 0 : input_.u8();
  packet.bxth.rsn += input_.coin() ? 0 : input_.u8();
  packet.invalidate_rkey = regions_[0].key;
  if (packet.bth.psn == connection.next_request) {
    const std::uint32_t mtu = mtu_bytes(mtu_);
    const bool read = op == RcOp::kReadRequest;
    connection.next_request = connection.next_request + (read ? std::max(1u, (packet.reth.length + mtu - 1) / mtu) : 1);
    if (wire::is_last_or_only(op)) {
      ++connection.msn;
      if (wire::is_send(op) || wire::has_immediate(op)) ++connection.rsn;
    }
  }
  send_packet(packet, payload);
}

// A small WRITE, in order or not, that carries an acknowledgement of the engine's packets: plausible or not.
void EngineWorld::send_piggyback() {
  Connection& connection = pick();
  wire::Packet packet;
  packet.bth.opcode = wire::opcode_of(RcOp::kWriteOnly, true);
  address_to(connection, packet);
  const std::uint32_t payload = 1 + input_.below(64);
  fill_target(packet, payload);
  packet.bth.psn = around(packet.bth.psn);
  packet.bth.ack_request = input_.coin();
  packet.bxth.piggyback = true;
  if (input_.u8() >= 0xF8) packet.bxth.source_qpn ^= 1;
  const std::uint8_t syndrome = input_.u8();
  packet.piggyback = {.msn = input_.u8(),
                      .syndrome = syndrome < 0xF0 ? wire::kSyndromeAck : syndrome,
                      .base = around(connection.own_next - input_.below(8)),
                      .credit_packets = input_.u8(),
                      .credit_bytes = input_.u16(),
                      .echo_valid = input_.coin(),
                      .ts_echo = static_cast<std::uint64_t>(now_.ns()) - input_.u16(),
                      .tr = 1,
                      .made = 1u + input_.u16()};
  if (packet.bth.psn == connection.next_request && packet.bxth.source_qpn == connection.peer_qpn) {
    connection.next_request = connection.next_request + 1;
    ++connection.msn;
  }
  send_packet(packet, payload);
}

void EngineWorld::send_response() {
  const Connection& connection = pick();
  wire::Packet packet;
  packet.bth.opcode = wire::opcode_of(kResponses[input_.below(std::size(kResponses))], input_.coin());
  address_to(connection, packet);
  packet.bth.psn = around(connection.own_next - 1 - input_.below(8));
  packet.aeth = {.syndrome = wire::kSyndromeAck, .msn = input_.u8()};
  packet.atomic_original = 0x1122'3344'5566'7788;
  send_packet(packet, some_payload());
}

void EngineWorld::send_acknowledgement() {
  constexpr std::uint8_t kSyndromes[] = {wire::kSyndromeAck,
                                         wire::kSyndromeAck,
                                         wire::kSyndromeAck,
                                         wire::kSyndromeNakSequence,
                                         wire::kSyndromeNakInvalidRequest,
                                         wire::kSyndromeNakRemoteAccess,
                                         wire::kSyndromeNakRemoteOperation,
                                         wire::kSyndromeRnr | 1};
  const Connection& connection = pick();
  wire::Packet packet;
  packet.bth.opcode = wire::opcode_of(RcOp::kAcknowledge, input_.u8() >= 0xC0);
  address_to(connection, packet);
  packet.bth.psn = around(connection.own_next - 1);
  const std::uint8_t which = input_.u8();
  packet.aeth = {.syndrome = which < 0xE0 ? kSyndromes[which % std::size(kSyndromes)] : input_.u8(),
                 .msn = input_.u8()};
  send_packet(packet, 0);
}

void EngineWorld::send_control() {
  const Connection& connection = pick();
  const std::uint8_t which = input_.u8();
  if (which >= 0xE0) return send_drop_notification(connection);
  switch (which % 4) {
    case 0:
      return send_caps(connection);
    case 1:
      return send_ffm(connection);
    default:
      return send_bitmap_ack(connection);
  }
}

void EngineWorld::send_control_body(const Connection& connection, std::uint8_t opcode, Psn psn, ConstBytes body) {
  std::vector<std::byte> packet(wire::kBthSize + body.size() + wire::kIcrcSize);
  wire::Bth bth;
  bth.opcode = opcode;
  bth.dest_qpn = connection.qpn;
  bth.psn = psn;
  wire::emit_bth(bth, packet.data());
  std::copy(body.begin(), body.end(), packet.begin() + wire::kBthSize);
  seal_and_deliver(packet);
}

void EngineWorld::send_caps(const Connection& connection) {
  wire::Caps caps;
  caps.reply = input_.coin();
  caps.source_qpn = connection.peer_qpn;
  const std::uint8_t capabilities = input_.u8();
  caps.capabilities = capabilities < 0xF0 ? wire::kCapabilityBitmap : 0;
  if ((capabilities & 1) != 0) caps.capabilities |= wire::kCapabilityPiggyback;
  caps.path_mtu_code = static_cast<std::uint8_t>(mtu_);
  if (input_.u8() >= 0xF0) caps.path_mtu_code = input_.u8();
  caps.window_packets = 1u << (input_.u8() % 24);
  caps.credit_packets = input_.u8();
  caps.credit_bytes = input_.u16() * 16u;
  std::array<std::byte, wire::kCapsSize> body;
  wire::emit_caps(caps, body.data());
  send_control_body(connection, static_cast<std::uint8_t>(wire::Control::kCaps), Psn{0}, body);
}

void EngineWorld::send_bitmap_ack(const Connection& connection) {
  wire::BitmapAck ack;
  ack.source_qpn = connection.peer_qpn;
  ack.responses = input_.u8() >= 0xF8;
  const std::uint32_t back = input_.below(40);
  ack.base = around(connection.own_next - back);
  ack.bit_count = static_cast<std::uint16_t>(input_.coin() ? back : input_.below(64));
  ack.highest = around(connection.own_next - 1);
  const std::uint8_t syndrome = input_.u8();
  ack.syndrome = syndrome < 0xC0 ? wire::kSyndromeAck : syndrome & 0x7F;
  ack.msn = input_.u8();
  ack.credit_packets = input_.u8();
  ack.credit_bytes = input_.u16();
  ack.echo_valid = input_.coin();
  ack.ts_echo = static_cast<std::uint64_t>(now_.ns()) - input_.u16();
  if (input_.u8() >= 0xF0) ack.ts_echo = input_.u32() * 0x1'0000'0001u;
  ack.tr = ack.ts_echo;
  ack.made = static_cast<std::uint32_t>(ack.tr) + input_.u16();
  std::array<std::byte, 8> bits{};
  const auto chosen = std::as_bytes(input_.bytes(wire::bitmap_bytes(ack.bit_count)));
  std::copy(chosen.begin(), chosen.end(), bits.begin());
  for (std::uint32_t i = 0; i < bits.size() * 8; ++i) {  // most inputs would be refused for the bits' sake alone
    const bool possible = i > 0 && i < ack.bit_count && distance(ack.base + i, ack.highest) <= 0;
    if (!possible) bits[i / 8] &= static_cast<std::byte>(~(0x80u >> (i % 8)));
  }
  ack.bits = bits;
  std::array<std::byte, wire::kBitmapAckSize + sizeof bits> body;
  const std::size_t size = wire::emit_bitmap_ack(ack, body.data());
  send_control_body(connection, static_cast<std::uint8_t>(wire::Control::kBitmapAck), ack.base,
                    ConstBytes{body}.first(size));
}

// All sent packets are acknowledged after the same time, again and again: round-trip times, windows that grow.
void EngineWorld::acknowledge_in_turn() {
  Connection& connection = pick();
  const Duration round_trip = Duration::from_ns(1000 * (1 + input_.u8()));
  for (std::uint32_t i = 0, count = input_.below(32); i < count; ++i) {
    SendRequest request;
    const Sge sge{.address = kIova, .length = 1 + (i * 509) % kRegionBytes, .lkey = regions_[0].key};
    request.wr_id = next_wr_id_++;
    request.sges = std::span{&sge, 1};
    request.opcode = WorkOpcode::kRdmaWrite;
    if (!engine_->post_send(connection.qp, request, now_).ok()) return;
    connection.sends.push_back({request.wr_id, false});
    drain();
    wire::BitmapAck ack;
    ack.source_qpn = connection.peer_qpn;
    ack.base = connection.own_next;
    ack.highest = ack.base - 1;
    ack.credit_packets = 1024;
    ack.credit_bytes = 1u << 20;
    ack.echo_valid = true;
    ack.ts_echo = static_cast<std::uint64_t>(now_.ns());
    now_ = now_ + round_trip;
    std::array<std::byte, wire::kBitmapAckSize> body;
    wire::emit_bitmap_ack(ack, body.data());
    send_control_body(connection, static_cast<std::uint8_t>(wire::Control::kBitmapAck), ack.base, body);
  }
}

void EngineWorld::send_ffm(const Connection& connection) {
  constexpr std::size_t kGapsMax = 4;
  wire::Ffm ffm;
  ffm.source_qpn = connection.peer_qpn;
  ffm.base = around(connection.own_next - input_.below(32));
  ffm.highest = around(connection.own_next - 1);
  ffm.cause = input_.u8();
  ffm.serial = input_.u8();
  ffm.timestamp = static_cast<std::uint64_t>(now_.ns());
  ffm.gap_count = static_cast<std::uint16_t>(1 + input_.below(kGapsMax));
  std::array<std::byte, kGapsMax * wire::kFfmGapSize> gaps;
  Psn start = ffm.base;
  for (std::size_t i = 0; i < ffm.gap_count; ++i) {
    const std::uint32_t length = 1 + input_.below(4);
    wire::emit_ffm_gap({start, length}, gaps.data() + i * wire::kFfmGapSize);
    start = around(start + length + 1);
  }
  ffm.gaps = ConstBytes{gaps}.first(ffm.gap_count * wire::kFfmGapSize);
  std::array<std::byte, wire::kFfmSize + sizeof gaps> body;
  const std::size_t size = wire::emit_ffm(ffm, body.data());
  send_control_body(connection, static_cast<std::uint8_t>(wire::Control::kFfm), ffm.base, ConstBytes{body}.first(size));
}

// A switch's notification, or a forged one: about the engine's packets or its responses, true or not.
void EngineWorld::send_drop_notification(const Connection& connection) {
  wire::Edn edn;
  const std::uint8_t about = input_.u8();
  const Psn next = (about & 3) == 0 ? connection.own_next : connection.next_request;
  edn.responses = (about & 3) == 1;
  edn.acknowledgement = (about & 3) == 2;
  edn.first = around(next - input_.below(32));
  edn.last = edn.first + (about >= 0xF0 ? input_.u16() * 128u : input_.below(8));
  edn.destination_qpn = connection.peer_qpn ^ (about >= 0xF8 ? 1u : 0u);
  edn.path = input_.u8();
  edn.drain = 1_us * std::int64_t{input_.u16()};
  if (input_.coin()) edn.timestamp = static_cast<std::uint64_t>(now_.ns()) - input_.u16();
  if (!here_.is_v4() || input_.coin()) {
    std::array<std::byte, wire::kEdnSize> body;
    wire::emit_edn(edn, body.data());
    return send_control_body(connection, static_cast<std::uint8_t>(wire::Control::kEdn), edn.first, body);
  }
  send_source_quench(connection, edn);
}

// A quote of a packet that the engine may have sent.
void EngineWorld::send_source_quench(const Connection& connection, const wire::Edn& edn) {
  wire::Packet packet;
  const RcOp op = edn.acknowledgement ? RcOp::kAcknowledge
                  : edn.responses     ? RcOp::kReadResponseMiddle
                                      : RcOp::kWriteMiddle;
  packet.bth.opcode = wire::opcode_of(op, !edn.acknowledgement && input_.coin());
  packet.bth.dest_qpn = edn.destination_qpn;
  packet.bth.psn = edn.first;
  packet.bxth.source_qpn = connection.qpn;
  packet.bxth.timestamp = edn.timestamp.value_or(0);
  std::vector<std::byte> quote(wire::kIpv4Size + wire::kUdpSize + wire::kPacketHeadersMax);
  quote[0] = std::byte{0x45};
  quote[9] = std::byte{17};
  std::memcpy(&quote[12], &here_.bytes[12], 4);
  std::memcpy(&quote[16], &there_.bytes[12], 4);
  store_be16(&quote[wire::kIpv4Size], config_.source_ports[0]);
  store_be16(&quote[wire::kIpv4Size + 2], kRoceUdpPort);
  wire::emit_headers(packet, &quote[wire::kIpv4Size + wire::kUdpSize]);
  std::array<std::byte, wire::kIcmpHeaderSize + wire::kQuoteMax> message;
  const auto count = static_cast<std::uint32_t>(distance(edn.last, edn.first)) + 1;
  const std::size_t size = wire::emit_icmp_edn(quote, count, edn.drain, message.data());
  engine_->handle_icmp(ConstBytes{message}.first(size), now_);
  drain();
}

}  // namespace brdma::fuzz
