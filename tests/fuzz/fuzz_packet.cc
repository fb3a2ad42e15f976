// Input: a UDP payload. parse_packet() must refuse it, or give a packet that lies within it, whose headers encode to
// the same bytes (reserved bits aside), and whose control body goes through its parser. The ICRC and the solver run on
// any input.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "wire/control.h"
#include "wire/crc/icrc.h"
#include "wire/edn.h"
#include "wire/link_state.h"
#include "wire/packet.h"
#include "wire/stopped_peer.h"

namespace {

using namespace brdma;  // a test's entry point, no header

// The header bytes with the bits that a receiver ignores cleared, which is how we send them.
void clear_reserved(std::byte* headers, const wire::Packet& packet) {
  headers[4] &= std::byte{0xC0};
  headers[8] &= std::byte{0x80};
  if (wire::opcode_shape(packet.bth.opcode).has(wire::OpcodeShape::kDeth)) headers[wire::kBthSize + 4] = std::byte{0};
  if (wire::opcode_shape(packet.bth.opcode).has(wire::OpcodeShape::kXrceth)) headers[wire::kBthSize] = std::byte{0};
  if (wire::opcode_shape(packet.bth.opcode).has(wire::OpcodeShape::kCnp))
    std::fill_n(headers + wire::kBthSize, wire::kCnpReservedSize, std::byte{0});
  if (wire::opcode_shape(packet.bth.opcode).has(wire::OpcodeShape::kFeth)) {
    const std::size_t bxth = packet.bitmap ? wire::kBxthSize + (packet.bxth.piggyback ? wire::kPiggybackSize : 0) : 0;
    const bool xrc = wire::opcode_shape(packet.bth.opcode).has(wire::OpcodeShape::kXrceth);
    std::byte* const feth = headers + wire::kBthSize + bxth + (xrc ? wire::kXrcethSize : 0);
    feth[0] = feth[1] = feth[2] = std::byte{0};
    feth[3] &= std::byte{0x3F};
  }
  if (!packet.bitmap) return;
  std::byte* bxth = headers + wire::kBthSize;
  if (packet.bxth.before.distance == 0) bxth[16] = bxth[17] = std::byte{0};  // then its run means nothing
  if (!packet.bxth.piggyback) return;
  bxth[wire::kBxthSize + 16] = bxth[wire::kBxthSize + 17] = std::byte{0};
  std::byte* flags = bxth + wire::kBxthSize + wire::kPiggybackSize - 4;
  flags[3] &= std::byte{1};
}

void check_packet(ConstBytes input, const wire::Packet& packet) {
  const std::size_t headers_size = wire::headers_size(packet);
  BRDMA_CHECK(headers_size <= wire::kPacketHeadersMax);
  BRDMA_CHECK(packet.payload.data() == input.data() + headers_size);
  BRDMA_CHECK(headers_size + packet.payload.size() + packet.bth.pad + wire::kIcrcSize == input.size());
  BRDMA_CHECK(!(packet.bitmap && packet.control));

  std::array<std::byte, wire::kPacketHeadersMax> sent{}, received{};
  BRDMA_CHECK(wire::emit_headers(packet, sent.data()) == headers_size);
  std::copy_n(input.data(), headers_size, received.data());
  clear_reserved(received.data(), packet);
  BRDMA_CHECK(std::memcmp(sent.data(), received.data(), headers_size) == 0);
}

void check_control(const wire::Packet& packet) {
  switch (static_cast<wire::Control>(packet.bth.opcode)) {
    case wire::Control::kCaps:
      (void)wire::parse_caps(packet.payload);
      return;
    case wire::Control::kBitmapAck:
      (void)wire::parse_bitmap_ack(packet.payload, packet.bth.psn);
      return;
    case wire::Control::kFfm:
      (void)wire::parse_ffm(packet.payload, packet.bth.psn);
      return;
    case wire::Control::kEdn:
      (void)wire::parse_edn(packet.payload, packet.bth.psn);
      return;
    case wire::Control::kLinkStateInquiry:
      (void)wire::parse_link_state_inquiry(packet.payload);
      return;
    case wire::Control::kLinkStateFeedback:
      (void)wire::parse_link_state_feedback(packet.payload);
      return;
    case wire::Control::kStoppedQuery:
      (void)wire::parse_stopped_query(packet.payload);
      return;
    case wire::Control::kStoppedReply:
      (void)wire::parse_stopped_reply(packet.payload);
      return;
  }
  BRDMA_CHECK(false);  // a control opcode in the table without a parser
}

void check_icrc(ConstBytes input) {
  static wire::IdentificationSolver solver;
  wire::IcrcPath path{.source = IpAddress::v4(10, 0, 0, 1),
                      .destination = IpAddress::v4(10, 0, 0, 2),
                      .source_port = load_be16(input.data() + 6),
                      .destination_port = 4791,
                      .ip_id = 0};
  const std::uint32_t without = wire::packet_icrc(path, input);
  path.ip_id = load_be16(input.data() + 10);
  const std::uint32_t difference = wire::packet_icrc(path, input) ^ without;
  std::uint16_t found = 0;
  BRDMA_CHECK(solver.solve(difference, input.size(), found) && found == path.ip_id);
  (void)solver.solve(wire::stored_icrc(input) ^ without, input.size(), found);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConstBytes input{reinterpret_cast<const std::byte*>(data), size};
  (void)wire::parse_icmp_edn(input);
  const auto parsed = wire::parse_packet(input);
  if (parsed.ok()) {
    check_packet(input, parsed.value());
    if (parsed.value().control) check_control(parsed.value());
  }
  if (size >= wire::kBthSize + wire::kIcrcSize && size < 0x10000 - wire::kIpv4Size - wire::kUdpSize) check_icrc(input);
  return 0;
}
