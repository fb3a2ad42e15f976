// Whole packets: the headers behind BTH for each opcode, both sides of each size limit, each reason to drop.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "support/bytes.h"
#include "wire/packet.h"

namespace brdma::wire {
namespace {

using test::Bytes;
using test::filled;
using test::hex;
using test::operator+;  // vectors of bytes have no namespace of ours: argument lookup does not find it
using test::to_hex;

const char* const kBxthText = "21 00abcd 02 000007 00 000003 00 000009 00000000deadbeef a1b2c3d4e5f60718";
const char* const kRethText = "1000000000000008 000055aa 00003000";
const char* const kAtomicText = "1000000000000008 000055aa 0000000000000022 0000000000000011";
const char* const kAethText = "1f 000004";
const char* const kOriginalText = "8877665544332211";
const char* const kImmediateText = "cafe0001";
const char* const kRkeyText = "00aa00bb";
const char* const kFethText = "00000012";
const char* const kCnpText = "00000000 00000000 00000000 00000000";
const char* const kDethText = "11223344 00 00abcd";
const char* const kXrcethText = "00 00abcd";

// IBTA table 38 and docs/reference/wire.md, written a second time: opcode -> texts behind BTH, and whether data
// follows.
struct Layout {
  std::vector<const char*> parts;
  bool data = true;
};
using L = Layout;

const std::map<std::uint8_t, Layout>& layouts() {
  static const std::map<std::uint8_t, Layout> all = [] {
    std::map<std::uint8_t, Layout> map{
        {0x00, L{{}}},
        {0x01, L{{}}},
        {0x02, L{{}}},
        {0x03, L{{kImmediateText}}},
        {0x04, L{{}}},
        {0x05, L{{kImmediateText}}},
        {0x06, L{{kRethText}}},
        {0x07, L{{}}},
        {0x08, L{{}}},
        {0x09, L{{kImmediateText}}},
        {0x0A, L{{kRethText}}},
        {0x0B, L{{kRethText, kImmediateText}}},
        {0x0C, L{{kRethText}, false}},
        {0x0D, L{{kAethText}}},
        {0x0E, L{{}}},
        {0x0F, L{{kAethText}}},
        {0x10, L{{kAethText}}},
        {0x11, L{{kAethText}, false}},
        {0x12, L{{kAethText, kOriginalText}, false}},
        {0x13, L{{kAtomicText}, false}},
        {0x14, L{{kAtomicText}, false}},
        {0x16, L{{kRkeyText}}},
        {0x17, L{{kRkeyText}}},
        {0x1C, L{{kFethText, kRethText}, false}},
        {0x1D, L{{kRethText}}},
    };
    for (std::uint8_t op = 0; op < 0x20; ++op) {
      if (!map.contains(op)) continue;
      Layout layout = map[op];
      const bool write_without_reth = op == 0x07 || op == 0x08 || op == 0x09;
      if (write_without_reth) layout.parts.insert(layout.parts.begin(), kRethText);
      if (op == 0x0E) layout.parts.push_back(kAethText);
      layout.parts.insert(layout.parts.begin(), kBxthText);
      map[static_cast<std::uint8_t>(0xC0 | op)] = layout;
    }
    for (std::uint8_t op = 0; op <= 0x0B; ++op) map[static_cast<std::uint8_t>(0x20 | op)] = map[op];  // UC
    for (std::uint8_t op = 0; op < 0x20; ++op) {  // XRC: XRCETH directly behind BTH, in requests
      if (!map.contains(op)) continue;
      Layout layout = map[op];
      const bool answer = op >= 0x0D && op <= 0x12;
      if (!answer) layout.parts.insert(layout.parts.begin(), kXrcethText);
      map[static_cast<std::uint8_t>(0xA0 | op)] = layout;
    }
    map[0x64] = L{{kDethText}};  // UD
    map[0x65] = L{{kDethText, kImmediateText}};
    map[0x81] = L{{kCnpText}, false};
    return map;
  }();
  return all;
}

Bytes bth_of(std::uint8_t opcode, unsigned pad = 0) {
  Bytes bytes = hex("00 00 ffff 00 001102 80 fffffe");
  bytes[0] = std::byte{opcode};
  bytes[1] = static_cast<std::byte>(0x80 | (pad << 4));
  return bytes;
}

Bytes headers_of(std::uint8_t opcode, unsigned pad = 0) {
  Bytes bytes = bth_of(opcode, pad);
  for (const char* part : layouts().at(opcode).parts) bytes = bytes + hex(part);
  return bytes;
}

const Bytes kIcrc = hex("11223344");

std::optional<DropReason> verdict(const Bytes& packet) {
  const auto parsed = parse_packet(packet);
  if (parsed.ok()) return std::nullopt;
  return parsed.reason();
}

TEST(Packet, EveryOpcodeOfTheTableComesBackAsItsBytes) {
  ASSERT_EQ(layouts().size(), 90u);
  for (const auto& [opcode, layout] : layouts()) {
    SCOPED_TRACE(testing::Message() << "opcode " << std::hex << unsigned{opcode});
    const Bytes headers = headers_of(opcode);
    const Bytes data = layout.data ? filled(64, 0x5A) : Bytes{};
    const Bytes bytes = headers + data + kIcrc;
    const auto parsed = parse_packet(bytes);
    ASSERT_TRUE(parsed.ok()) << kDropReasonNames[static_cast<std::size_t>(parsed.reason())];
    const Packet& packet = parsed.value();
    EXPECT_EQ(to_hex(packet.payload), to_hex(data));
    EXPECT_EQ(packet.bitmap, opcode >= 0xC0);
    EXPECT_FALSE(packet.control);
    EXPECT_EQ(static_cast<unsigned>(packet.op), opcode & 0x1Fu);
    EXPECT_EQ(packet.bth.opcode, opcode);
    EXPECT_EQ(packet.bth.dest_qpn, 0x1102u);
    EXPECT_EQ(headers_size(packet), headers.size());
    Bytes out = filled(kPacketHeadersMax, 0xEE);
    ASSERT_EQ(emit_headers(packet, out.data()), headers.size());
    out.resize(headers.size());
    EXPECT_EQ(to_hex(out), to_hex(headers));
  }
}

// path, MSN; syndrome, base; credit; echo; Tr; delay; waited, flags
const char* const kPiggybackText =
    "03 000005 1f 0003f0 00000100 00100000 00000000001e8480 00000000000f404c 000001f4 00000401";

// A bitmap-mode packet with an acknowledgement between BXTH and the rest.
Bytes with_piggyback(std::uint8_t opcode) {
  Bytes headers = headers_of(opcode);
  headers[kBthSize] |= std::byte{2};
  const Bytes text = hex(kPiggybackText);
  headers.insert(headers.begin() + kBthSize + kBxthSize, text.begin(), text.end());
  return headers;
}

TEST(Packet, EveryBitmapPacketMayCarryAnAcknowledgement) {
  for (const auto& [opcode, layout] : layouts()) {
    if (opcode < kTransportBitmap) continue;
    SCOPED_TRACE(testing::Message() << "opcode " << std::hex << unsigned{opcode});
    const Bytes headers = with_piggyback(opcode);
    const Bytes data = layout.data ? filled(64, 0x5A) : Bytes{};
    const Bytes bytes = headers + data + kIcrc;
    const auto parsed = parse_packet(bytes);
    ASSERT_TRUE(parsed.ok()) << kDropReasonNames[static_cast<std::size_t>(parsed.reason())];
    const Packet& packet = parsed.value();
    EXPECT_TRUE(packet.bxth.piggyback);
    EXPECT_TRUE(packet.bxth.retransmitted);
    EXPECT_EQ(packet.piggyback.path, 3);
    EXPECT_EQ(packet.piggyback.msn, 5u);
    EXPECT_EQ(packet.piggyback.syndrome, kSyndromeAck);
    EXPECT_EQ(packet.piggyback.base, Psn{0x3F0});
    EXPECT_EQ(packet.piggyback.credit_packets, 256u);
    EXPECT_EQ(packet.piggyback.credit_bytes, 1u << 20);
    EXPECT_EQ(packet.piggyback.ts_echo, 2'000'000u);
    EXPECT_EQ(packet.piggyback.tr, 999'500u);
    EXPECT_EQ(packet.piggyback.made, 500u);
    EXPECT_TRUE(packet.piggyback.echo_valid);
    EXPECT_EQ(packet.piggyback.waited, 1024_ns);
    EXPECT_EQ(to_hex(packet.payload), to_hex(data));
    EXPECT_EQ(headers_size(packet), headers.size());
    ASSERT_LE(headers.size(), kPacketHeadersMax);
    Bytes out = filled(kPacketHeadersMax, 0xEE);
    ASSERT_EQ(emit_headers(packet, out.data()), headers.size());
    out.resize(headers.size());
    EXPECT_EQ(to_hex(out), to_hex(headers));
    // One byte less than announced; and the room for it, without the announcement, is no header.
    Bytes cut = headers + kIcrc;
    EXPECT_EQ(verdict(cut), std::nullopt);
    cut.pop_back();
    EXPECT_EQ(verdict(cut), DropReason::kTruncated);
    EXPECT_EQ(verdict(headers_of(opcode) + kIcrc), std::nullopt);
  }
}

TEST(Packet, APiggybackIsAnAcknowledgementAndNothingElse) {
  for (unsigned syndrome = 0; syndrome < 256; ++syndrome) {
    Bytes packet = with_piggyback(0xC4) + kIcrc;
    packet[kBthSize + kBxthSize + 4] = static_cast<std::byte>(syndrome);
    EXPECT_EQ(verdict(packet), syndrome < 0x20 ? std::nullopt : std::optional{DropReason::kBadControl}) << syndrome;
  }
  Bytes packet = with_piggyback(0xC4) + kIcrc;
  for (std::size_t i = 36; i < 40; ++i) packet[kBthSize + kBxthSize + i] = std::byte{0xFE};  // reserved flags: ignored
  const auto parsed = parse_packet(packet);
  ASSERT_TRUE(parsed.ok());
  EXPECT_FALSE(parsed.value().piggyback.echo_valid);
  // Another version's flags have other meanings: the version is checked first.
  packet = headers_of(0xC4) + kIcrc;
  packet[kBthSize] = std::byte{0x12};
  EXPECT_EQ(verdict(packet), DropReason::kBadVersion);
  packet[kBthSize] = std::byte{0x22};
  EXPECT_EQ(verdict(packet), DropReason::kTruncated);
}

TEST(Packet, FieldsReachTheirMembers) {
  const auto write = parse_packet(headers_of(0xCB) + filled(4, 1) + kIcrc);  // bitmap-mode WRITE Only with immediate
  ASSERT_TRUE(write.ok());
  EXPECT_EQ(write.value().bxth.msn, 7u);
  EXPECT_EQ(write.value().bxth.rsn, 3u);
  EXPECT_EQ(write.value().bxth.packet_index, 9u);
  EXPECT_EQ(write.value().reth.address, 0x1000000000000008u);
  EXPECT_EQ(write.value().reth.rkey, 0x55AAu);
  EXPECT_EQ(write.value().reth.length, 0x3000u);
  EXPECT_EQ(write.value().immediate_be, 0x0100FECAu);  // untouched: the bytes ca fe 00 01 on a little-endian machine

  const auto atomic = parse_packet(headers_of(0x12) + kIcrc);
  ASSERT_TRUE(atomic.ok());
  EXPECT_EQ(atomic.value().aeth.syndrome, kSyndromeAck);
  EXPECT_EQ(atomic.value().aeth.msn, 4u);
  EXPECT_EQ(atomic.value().atomic_original, 0x8877665544332211u);

  const auto swap = parse_packet(headers_of(0x13) + kIcrc);
  ASSERT_TRUE(swap.ok());
  EXPECT_EQ(swap.value().atomic.swap_or_add, 0x22u);
  EXPECT_EQ(swap.value().atomic.compare, 0x11u);

  const auto invalidate = parse_packet(headers_of(0x17) + kIcrc);
  ASSERT_TRUE(invalidate.ok());
  EXPECT_EQ(invalidate.value().invalidate_rkey, 0x00AA00BBu);
}

TEST(Packet, NoHeadersAreLongerThanTheStatedMaximum) {
  std::size_t longest = 0;
  for (const auto& [opcode, layout] : layouts()) longest = std::max(longest, headers_of(opcode).size());
  EXPECT_EQ(longest, 72u);  // a bitmap-mode atomic
  EXPECT_EQ(longest + kPiggybackSize, kPacketHeadersMax);
}

TEST(Packet, OneByteLessThanTheHeadersIsTruncated) {
  EXPECT_EQ(verdict({}), DropReason::kTruncated);
  EXPECT_EQ(verdict(bth_of(0x04)), DropReason::kTruncated);  // room for BTH, not for the ICRC
  EXPECT_EQ(verdict(bth_of(0x04) + hex("112233")), DropReason::kTruncated);
  EXPECT_EQ(verdict(bth_of(0x04) + kIcrc), std::nullopt);
  for (const auto& [opcode, layout] : layouts()) {
    Bytes packet = headers_of(opcode) + kIcrc;
    EXPECT_EQ(verdict(packet), std::nullopt) << unsigned{opcode};
    packet.pop_back();
    EXPECT_EQ(verdict(packet), DropReason::kTruncated) << unsigned{opcode};
  }
}

TEST(Packet, OnlyTheOpcodesOfTheTableAreKnown) {
  std::set<unsigned> known;
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    Bytes packet = bth_of(static_cast<std::uint8_t>(opcode)) + filled(100, 0x10);
    const auto reason = verdict(packet);
    if (reason != DropReason::kUnknownOpcode) known.insert(opcode);
    const bool control = opcode >= 0xE0 && opcode <= 0xE7;
    EXPECT_EQ(reason != DropReason::kUnknownOpcode, control || layouts().contains(static_cast<std::uint8_t>(opcode)))
        << opcode;
  }
  EXPECT_EQ(known.size(), 98u);
  EXPECT_FALSE(known.contains(0x80));  // only CNP in its block
  EXPECT_FALSE(known.contains(0x2C));  // READ, not with UC
  EXPECT_FALSE(known.contains(0x60));  // SEND First, not with UD
}

TEST(Packet, OtherVersionsAreDropped) {
  Bytes packet = headers_of(0x04) + kIcrc;
  packet[1] |= std::byte{1};
  EXPECT_EQ(verdict(packet), DropReason::kBadVersion);
  for (unsigned version = 0; version < 16; ++version) {
    Bytes bitmap = headers_of(0xC4) + kIcrc;
    bitmap[kBthSize] = static_cast<std::byte>(version << 4);
    EXPECT_EQ(verdict(bitmap), version == 2 ? std::nullopt : std::optional{DropReason::kBadVersion}) << version;
    Bytes control = bth_of(0xE1) + filled(52, 0) + kIcrc;
    control[kBthSize] = static_cast<std::byte>(version << 4);
    EXPECT_EQ(verdict(control), version == 2 ? std::nullopt : std::optional{DropReason::kBadVersion}) << version;
    Bytes caps = bth_of(0xE0) + filled(48, 0) + kIcrc;
    caps[kBthSize] = static_cast<std::byte>(version << 4);
    EXPECT_EQ(verdict(caps), version == 1 ? std::nullopt : std::optional{DropReason::kBadVersion}) << version;
  }
}

TEST(Packet, PkeyIsTheDefaultPartitionsWithEitherMembership) {
  const std::pair<const char*, bool> cases[] = {{"ffff", true},  {"7fff", true},  {"fffe", false},
                                                {"1234", false}, {"0000", false}, {"8000", false}};
  for (const auto& [pkey, good] : cases) {
    Bytes packet = headers_of(0x04) + kIcrc;
    std::copy_n(hex(pkey).begin(), 2, packet.begin() + 2);
    EXPECT_EQ(verdict(packet), good ? std::nullopt : std::optional{DropReason::kBadPkey}) << pkey;
  }
}

TEST(Packet, PadIsTakenOffThePayload) {
  for (unsigned pad = 0; pad < 4; ++pad) {
    const auto parsed = parse_packet(headers_of(0x04, pad) + filled(8, 0x77) + kIcrc);
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed.value().payload.size(), 8u - pad);
    EXPECT_EQ(parsed.value().bth.pad, pad);
  }
}

TEST(Packet, LengthMustFitPadAndOpcode) {
  EXPECT_EQ(verdict(headers_of(0x04, 0) + kIcrc), std::nullopt);            // an empty SEND
  EXPECT_EQ(verdict(headers_of(0x04, 1) + kIcrc), DropReason::kBadLength);  // pad of a payload that is not there
  EXPECT_EQ(verdict(headers_of(0x04, 3) + filled(4, 0) + kIcrc), std::nullopt);
  for (std::size_t odd = 1; odd < 4; ++odd) {
    EXPECT_EQ(verdict(headers_of(0x04) + filled(4 + odd, 0) + kIcrc), DropReason::kBadLength) << odd;
  }
  for (const auto& [opcode, layout] : layouts()) {
    const auto expected = layout.data ? std::nullopt : std::optional{DropReason::kBadLength};
    EXPECT_EQ(verdict(headers_of(opcode) + filled(4, 0) + kIcrc), expected) << unsigned{opcode};
    EXPECT_EQ(verdict(headers_of(opcode, 2) + filled(4, 0) + kIcrc), expected) << unsigned{opcode};
  }
  EXPECT_EQ(verdict(bth_of(0xE0, 2) + hex("10000000") + kIcrc), DropReason::kBadLength);  // control bodies have no pad
  EXPECT_EQ(verdict(bth_of(0xE0) + hex("1000000000") + kIcrc), DropReason::kBadLength);
}

TEST(Packet, ControlPacketsKeepTheirBodyAsPayload) {
  const Bytes body = hex("11 00abcd 00000001");
  const Bytes bytes = bth_of(0xE0) + body + kIcrc;
  const auto parsed = parse_packet(bytes);
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(parsed.value().control);
  EXPECT_FALSE(parsed.value().bitmap);
  EXPECT_EQ(to_hex(parsed.value().payload), to_hex(body));
  EXPECT_EQ(headers_size(parsed.value()), kBthSize);
  EXPECT_EQ(verdict(bth_of(0xE0) + hex("100000") + kIcrc), DropReason::kTruncated);
  EXPECT_EQ(verdict(bth_of(0xE0) + kIcrc), DropReason::kTruncated);
  EXPECT_EQ(verdict(bth_of(0xE1) + hex("20") + filled(31, 0) + kIcrc), std::nullopt);
  EXPECT_EQ(verdict(bth_of(0xE1) + hex("20") + filled(27, 0) + kIcrc), DropReason::kTruncated) << "no token";
}

TEST(Packet, PredicatesAgreeWithTheirNames) {
  struct Case {
    RcOp op;
    const char* is;  // q request, f first or only, l last or only, s send, w write, r read response, i immediate, a
                     // atomic, c confirmed
  };
  const Case cases[] = {
      {RcOp::kSendFirst, "qfs"},          {RcOp::kSendMiddle, "qs"},           {RcOp::kSendLast, "qls"},
      {RcOp::kSendLastImm, "qlsi"},       {RcOp::kSendOnly, "qfls"},           {RcOp::kSendOnlyImm, "qflsi"},
      {RcOp::kWriteFirst, "qfw"},         {RcOp::kWriteMiddle, "qw"},          {RcOp::kWriteLast, "qlw"},
      {RcOp::kWriteLastImm, "qlwi"},      {RcOp::kWriteOnly, "qflw"},          {RcOp::kWriteOnlyImm, "qflwi"},
      {RcOp::kReadRequest, "qfl"},        {RcOp::kReadResponseFirst, "fr"},    {RcOp::kReadResponseMiddle, "r"},
      {RcOp::kReadResponseLast, "lr"},    {RcOp::kReadResponseOnly, "flr"},    {RcOp::kAcknowledge, "fl"},
      {RcOp::kAtomicAcknowledge, "fl"},   {RcOp::kCompareSwap, "qfla"},        {RcOp::kFetchAdd, "qfla"},
      {RcOp::kSendLastInvalidate, "qls"}, {RcOp::kSendOnlyInvalidate, "qfls"}, {RcOp::kFlush, "qflc"},
      {RcOp::kAtomicWrite, "qflc"}};
  for (const auto& c : cases) {
    const std::string_view is = c.is;
    SCOPED_TRACE(testing::Message() << "op " << static_cast<unsigned>(c.op));
    EXPECT_EQ(is_request(c.op), (is.find('q') != is.npos));
    EXPECT_EQ(is_first_or_only(c.op), (is.find('f') != is.npos));
    EXPECT_EQ(is_last_or_only(c.op), (is.find('l') != is.npos));
    EXPECT_EQ(is_send(c.op), (is.find('s') != is.npos));
    EXPECT_EQ(is_write(c.op), (is.find('w') != is.npos));
    EXPECT_EQ(is_read_response(c.op), (is.find('r') != is.npos));
    EXPECT_EQ(has_immediate(c.op), (is.find('i') != is.npos));
    EXPECT_EQ(is_atomic(c.op), (is.find('a') != is.npos));
    EXPECT_EQ(is_confirmed(c.op), (is.find('c') != is.npos));
  }
}

}  // namespace
}  // namespace brdma::wire
