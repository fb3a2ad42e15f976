// support/translated_flow.h - one RDMA flow in the view of a switch that translates marks: its data packets, the
// acknowledgements that return, and what their sender measures. Payloads of UDP: BTH to ICRC.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "base/units.h"
#include "wire/control.h"
#include "wire/crc/icrc.h"
#include "wire/packet.h"

namespace brdma::test {

struct TranslatedFlow {
  IpAddress sender = IpAddress::v4(10, 0, 0, 1), receiver = IpAddress::v4(10, 0, 0, 2);
  std::uint32_t sender_qp = 0x1102, receiver_qp = 0x2203;
  std::uint16_t source_port = 0xC000;
  using Bytes = std::vector<std::byte>;

  [[nodiscard]] Bytes data(std::uint8_t path = 0, bool bitmap = true) const {
    wire::Packet packet;
    packet.bth.opcode = wire::opcode_of(wire::RcOp::kWriteOnly, bitmap);
    packet.bth.dest_qpn = receiver_qp;
    packet.bxth.source_qpn = sender_qp;
    packet.bxth.path = path;
    return finish(packet, Bytes(64, std::byte{0x5A}), sender, receiver);
  }
  // Echoes 1 ms; Tr is 500 us, and it leaves the receiver 100 ns later.
  [[nodiscard]] Bytes acknowledgement(std::uint8_t path = 0, std::uint16_t bits = 0) const {
    const Bytes words(wire::bitmap_bytes(bits));
    wire::BitmapAck ack;
    ack.source_qpn = receiver_qp;
    ack.path = path;
    ack.base = Psn{5};
    ack.highest = Psn{4};
    ack.echo_valid = true;
    ack.ts_echo = 1'000'000;
    ack.tr = 500'000;
    ack.made = 500'100;
    ack.bit_count = bits;
    ack.bits = words;
    Bytes body(wire::kBitmapAckSize + words.size());
    wire::emit_bitmap_ack(ack, body.data());
    wire::Packet packet;
    packet.bth.opcode = static_cast<std::uint8_t>(wire::Control::kBitmapAck);
    packet.bth.dest_qpn = sender_qp;
    packet.bth.psn = ack.base;
    return finish(packet, body, receiver, sender);
  }
  [[nodiscard]] Bytes finish(const wire::Packet& packet, ConstBytes body, const IpAddress& from,
                             const IpAddress& to) const {
    Bytes bytes(wire::kPacketHeadersMax);
    bytes.resize(wire::emit_headers(packet, bytes.data()));
    bytes.insert(bytes.end(), body.begin(), body.end());
    bytes.resize(bytes.size() + wire::kIcrcSize);
    store_le32(&bytes[bytes.size() - wire::kIcrcSize], icrc(bytes, from, to));
    return bytes;
  }
  [[nodiscard]] bool icrc_holds(ConstBytes payload, const IpAddress& from, const IpAddress& to) const {
    return icrc(payload, from, to) == wire::stored_icrc(payload);
  }
  [[nodiscard]] std::uint32_t icrc(ConstBytes payload, const IpAddress& from, const IpAddress& to) const {
    return wire::packet_icrc({from, to, source_port, 4791, 0}, payload);
  }

  static wire::BitmapAck read(ConstBytes payload) {
    const auto packet = wire::parse_packet(payload);
    EXPECT_TRUE(packet.ok());
    return *wire::parse_bitmap_ack(packet.value().payload, packet.value().bth.psn);
  }
  // The sender's RTT sample when the acknowledgement comes 60 us after the packet left.
  static Duration measured(const wire::BitmapAck& ack) {
    const Instant now = Instant::from_ns(1'060'000);
    return now - wire::instant_of(ack.ts_echo, now) - ack.held();
  }
};

}  // namespace brdma::test
