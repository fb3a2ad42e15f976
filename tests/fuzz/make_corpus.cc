// make_corpus PCAP_DIR CORPUS_DIR: the fuzzers' initial seeds. Of the captures the first packet of each opcode
// (shortest first, at most kSeedMax bytes), and one packet of each of the library's own opcodes. Findings are added by
// hand beside them, as finding-*, and stay.
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "support/bytes.h"
#include "support/pcap_file.h"
#include "wire/control.h"
#include "wire/crc/icrc.h"
#include "wire/edn.h"
#include "wire/link_state.h"
#include "wire/packet.h"
#include "wire/stopped_peer.h"

namespace {

using namespace brdma;  // a program, no header
using test::Bytes;

constexpr std::size_t kSeedMax = 320;
constexpr std::uint64_t kToken = 0xA1B2'C3D4'E5F6'0718;

void write(const std::filesystem::path& file, const Bytes& bytes) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream{file, std::ios::binary}.write(reinterpret_cast<const char*>(bytes.data()),
                                              static_cast<std::streamsize>(bytes.size()));
}

std::string hex_byte(std::uint8_t value) { return test::to_hex(Bytes{std::byte{value}}); }

Bytes bytes_of(const wire::Packet& packet, const Bytes& payload) {
  Bytes out(wire::headers_size(packet) + payload.size() + wire::kIcrcSize);
  const std::size_t headers = wire::emit_headers(packet, out.data());
  std::copy(payload.begin(), payload.end(), out.begin() + static_cast<std::ptrdiff_t>(headers));
  const wire::IcrcPath path{.source = IpAddress::v4(10, 0, 0, 1),
                            .destination = IpAddress::v4(10, 0, 0, 2),
                            .source_port = 0xC000,
                            .destination_port = 4791,
                            .ip_id = 0};
  store_le32(out.data() + out.size() - wire::kIcrcSize, wire::packet_icrc(path, out));
  return out;
}

wire::Packet sample(std::uint8_t opcode) {
  wire::Packet packet;
  packet.bth = {.opcode = opcode, .dest_qpn = 0x2203, .ack_request = true, .psn = Psn{0xFFFFFE}};
  packet.bxth = {.source_qpn = 0x1102, .msn = 7, .rsn = 3, .packet_index = 2, .timestamp = 1'000'000, .token = kToken};
  packet.reth = {.address = 0x7F00'0000'1000, .rkey = 0x55AA, .length = 64};
  packet.aeth = {.syndrome = wire::kSyndromeAck, .msn = 8};
  packet.atomic = {.address = 0x7F00'0000'1000, .rkey = 0x55AA, .swap_or_add = 1, .compare = 2};
  return packet;
}

// From a peer without tokens.
Bytes first_caps_body() {
  wire::Caps caps;
  caps.source_qpn = 0x1102;
  caps.capabilities = wire::kCapabilityBitmap;
  caps.version_min = caps.version_max = 1;
  caps.window_packets = 4096;
  Bytes body(wire::kCapsFirstSize);
  wire::emit_caps(caps, body.data());
  return body;
}

Bytes caps_body(bool reply) {
  wire::Caps caps;
  caps.reply = reply;
  caps.source_qpn = 0x1102;
  caps.capabilities = wire::kCapabilityBitmap;
  caps.window_packets = 4096;
  caps.credit_packets = 64;
  caps.credit_bytes = 65536;
  caps.token = kToken;
  caps.echo = reply ? ~kToken : 0;
  Bytes body(wire::kCapsSize);
  wire::emit_caps(caps, body.data());
  return body;
}

// Every second packet behind the base has arrived.
Bytes ack_body(std::uint16_t bit_count, std::uint8_t syndrome) {
  wire::BitmapAck ack;
  ack.source_qpn = 0x1102;
  ack.token = kToken;
  ack.syndrome = syndrome;
  ack.base = Psn{0xFFFFFE};
  ack.highest = ack.base + bit_count - 1;
  ack.bit_count = bit_count;
  const Bytes bits = test::filled(wire::bitmap_bytes(bit_count), 0x55);
  ack.bits = bits;
  Bytes body(wire::kBitmapAckSize + bits.size());
  wire::emit_bitmap_ack(ack, body.data());
  return body;
}

// Gaps of one packet, each followed by one that came.
Bytes ffm_body(std::uint16_t gap_count) {
  wire::Ffm ffm;
  ffm.source_qpn = 0x1102;
  ffm.token = kToken;
  ffm.base = Psn{0xFFFFFE};
  ffm.highest = ffm.base + 2u * gap_count;
  ffm.cause = 1;
  ffm.gap_count = gap_count;
  Bytes gaps(gap_count * wire::kFfmGapSize);
  for (std::uint32_t i = 0; i < gap_count; ++i) {
    wire::emit_ffm_gap({ffm.base + 2 * i, 1}, gaps.data() + i * wire::kFfmGapSize);
  }
  ffm.gaps = gaps;
  Bytes body(wire::kFfmSize + gaps.size());
  wire::emit_ffm(ffm, body.data());
  return body;
}

Bytes inquiry_body() {
  Bytes body(wire::kLinkStateInquirySize);
  wire::emit_link_state_inquiry({.source_qpn = 0x1102, .hop = 1, .hop_limit = 16, .nonce = 0x0123456789ABCDEF},
                                body.data());
  return body;
}

Bytes feedback_body() {
  Bytes body(wire::kLinkStateFeedbackSize);
  wire::emit_link_state_feedback({.over_limits = true,
                                  .destination_qpn = 0x2203,
                                  .hop = 1,
                                  .nonce = 0x0123456789ABCDEF,
                                  .switch_id = 7,
                                  .port = 2,
                                  .speed = 600'000'000,
                                  .link_rate = 1'250'000'000,
                                  .queue = 196'608,
                                  .queue_limit = 262'144,
                                  .drops = 12,
                                  .timestamp = 1'000'000},
                                 body.data());
  return body;
}

Bytes stopped_query_body() {
  Bytes body(wire::kStoppedQuerySize);
  wire::emit_stopped_query({.source_qpn = 0x1102, .peer_qpn = 0x2203, .nonce = 0x0123456789ABCDEF, .silent_ms = 536},
                           body.data());
  return body;
}

Bytes stopped_reply_body() {
  Bytes body(wire::kStoppedReplySize);
  wire::emit_stopped_reply({.peer_qpn = 0x2203, .nonce = 0x0123456789ABCDEF}, body.data());
  return body;
}

Bytes edn_body(bool acknowledgement) {
  Bytes body(wire::kEdnSize);
  wire::emit_edn({.first = Psn{0},
                  .last = Psn{1},
                  .acknowledgement = acknowledgement,
                  .destination_qpn = 0x2203,
                  .path = 1,
                  .drain = 21_us,
                  .timestamp = 1'000'000,
                  .token = kToken},
                 body.data());
  return body;
}

// Source quench, about a packet in bitmap mode and about a standard one.
Bytes quench_body(std::uint8_t opcode) {
  Bytes packet = bytes_of(sample(opcode), test::filled(16, 0x5A));
  Bytes quote(wire::kIpv4Size + wire::kUdpSize);
  quote[0] = std::byte{0x45};
  quote[9] = std::byte{17};
  store_be32(&quote[12], 0x0A4D'0001);
  store_be32(&quote[16], 0x0A4D'0002);
  store_be16(&quote[wire::kIpv4Size], 0xC000);
  store_be16(&quote[wire::kIpv4Size + 2], 4791);
  quote = test::operator+(quote, packet);
  Bytes message(wire::kIcmpHeaderSize + wire::kQuoteMax);
  message.resize(wire::emit_icmp_edn(quote, 3, 21_us, message.data()));
  return message;
}

// The first letter of the name selects the kind.
constexpr std::string_view kKinds = "cafileqsr";
constexpr std::uint8_t kOpcodes[] = {0xE0, 0xE1, 0xE2, 0xE4, 0xE5,
                                     0xE3, 0,    0xE6, 0xE7};  // 0: ICMP is no packet of RoCE
std::map<std::string, Bytes> control_bodies() {
  return {{"caps", caps_body(false)},
          {"caps-first", first_caps_body()},
          {"caps-reply", caps_body(true)},
          {"ack", ack_body(0, wire::kSyndromeAck)},
          {"ack-bits", ack_body(64, wire::kSyndromeAck)},
          {"ack-full", ack_body(wire::kAckBitsMax, wire::kSyndromeAck)},
          {"ack-rnr", ack_body(32, wire::kSyndromeRnr | 12)},
          {"ffm", ffm_body(1)},
          {"ffm-full", ffm_body(wire::kFfmGapsMax)},
          {"inquiry", inquiry_body()},
          {"link-state", feedback_body()},
          {"stopped-query", stopped_query_body()},
          {"reply-stopped", stopped_reply_body()},
          {"edn", edn_body(false)},
          {"edn-ack", edn_body(true)},
          {"quench", quench_body(0xC7)},
          {"quench-standard", quench_body(0x07)}};
}

void write_captured(const std::filesystem::path& captures, const std::filesystem::path& out) {
  std::map<std::uint8_t, Bytes> first;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator{captures}) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    if (file.extension() != ".pcap") continue;
    for (const auto& packet : test::read_roce_packets(file)) {
      Bytes& kept = first[load_u8(packet.udp_payload.data())];
      if (kept.empty() || packet.udp_payload.size() < kept.size()) kept = packet.udp_payload;
    }
  }
  for (const auto& [opcode, bytes] : first) {
    if (bytes.size() <= kSeedMax) write(out / ("captured-" + hex_byte(opcode)), bytes);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "make_corpus PCAP_DIR CORPUS_DIR\n");
    return 2;
  }
  const std::filesystem::path packets = std::filesystem::path{argv[2]} / "fuzz_packet";
  const std::filesystem::path control = std::filesystem::path{argv[2]} / "fuzz_control";
  write_captured(argv[1], packets);
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    const auto op = static_cast<std::uint8_t>(opcode);
    const auto& shape = wire::opcode_shape(op);
    if (!shape.has(wire::OpcodeShape::kKnown) || shape.has(wire::OpcodeShape::kControl)) continue;
    const Bytes payload = shape.has(wire::OpcodeShape::kPayload) ? test::filled(16, 0x5A) : Bytes{};
    write(packets / ("made-" + hex_byte(op)), bytes_of(sample(op), payload));
  }
  // With a piggybacked ACK: WRITE, SEND with immediate, READ response, atomic.
  constexpr std::uint8_t kCarriers[] = {0xCA, 0xC5, 0xD0, 0xD3};
  for (const std::uint8_t op : kCarriers) {
    wire::Packet packet = sample(op);
    packet.bxth.piggyback = true;
    packet.piggyback = {.msn = 5, .base = Psn{0x3F0}, .credit_packets = 256, .credit_bytes = 1u << 20, .tr = 1};
    const bool data = wire::opcode_shape(op).has(wire::OpcodeShape::kPayload);
    write(packets / ("made-" + hex_byte(op) + "-piggyback"), bytes_of(packet, data ? test::filled(16, 0x5A) : Bytes{}));
  }
  for (const auto& [name, body] : control_bodies()) {
    const auto kind = static_cast<std::uint8_t>(kKinds.find(name[0]));
    const auto opcode = kOpcodes[kind];
    if (opcode != 0) write(packets / ("made-" + name), bytes_of(sample(opcode), body));
    write(control / ("made-" + name),
          test::operator+(Bytes{std::byte{kind}}, test::operator+(test::hex("fffffe"), body)));
  }
  return 0;
}
