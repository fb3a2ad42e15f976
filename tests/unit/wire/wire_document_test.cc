// The examples of docs/reference/wire.md, byte by byte: the code reads and writes the document's bytes.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "support/bytes.h"
#include "wire/control.h"
#include "wire/crc/icrc.h"
#include "wire/edn.h"
#include "wire/link_state.h"
#include "wire/local_reference.h"
#include "wire/packet.h"
#include "wire/read_copy.h"
#include "wire/stopped_peer.h"

namespace brdma::wire {
namespace {

using test::Bytes;
using test::filled;
using test::hex;
using test::operator+;  // vectors of bytes have no namespace of ours: argument lookup does not find it

void expect_documented(const std::string& text) {
  static const std::string document = [] {
    std::ifstream in{BRDMA_DOCS_DIR "/reference/wire.md"};
    return std::string{std::istreambuf_iterator<char>{in}, {}};
  }();
  EXPECT_NE(document.find(text), std::string::npos) << "docs/reference/wire.md does not show " << text;
}

Bytes documented(const std::string& text) {
  expect_documented(text);
  return hex(text);
}

// The path of the packets worked out in the document.
constexpr IcrcPath kDocumentPath{.source = IpAddress::v4(10, 77, 0, 1),
                                 .destination = IpAddress::v4(10, 77, 0, 2),
                                 .source_port = 0xC000,
                                 .destination_port = 4791,
                                 .ip_id = 0};

TEST(WireDocument, WriteMiddle) {
  const Bytes headers = documented("c7 00 ffff 00 002203 00 000000") +
                        documented("20 001102 00 000001 00 000001 00 000001") + documented("00000000000f4240") +
                        documented("a1b2c3d4e5f60718") + documented("00007f0000001400 000055aa 000009c4");
  const Bytes bytes = headers + filled(1024, 0x5A) + documented("79c2b0a7");
  const auto parsed = parse_packet(bytes);
  ASSERT_TRUE(parsed.ok());
  const Packet& packet = parsed.value();
  EXPECT_EQ(packet.op, RcOp::kWriteMiddle);
  EXPECT_EQ(packet.bxth.source_qpn, 0x1102u);
  EXPECT_EQ(packet.bxth.msn, 1u);
  EXPECT_EQ(packet.bxth.rsn, 1u);
  EXPECT_EQ(packet.bxth.packet_index, 1u);
  EXPECT_EQ(packet.bxth.timestamp, 1'000'000u);
  EXPECT_EQ(packet.bxth.token, 0xA1B2'C3D4'E5F6'0718u);
  EXPECT_EQ(packet.reth.length, 2500u);
  EXPECT_EQ(packet.payload.size(), 1024u);
  EXPECT_EQ(packet_icrc(kDocumentPath, bytes), stored_icrc(bytes));
}

TEST(WireDocument, DescribedWrite) {
  const Bytes bxth = documented("20 001102 00 000000 01 000000 00 000000") + hex("00000000000f4240a1b2c3d4e5f60718");
  const Bytes reth = documented("00007f0000011000 000055aa 00020000");
  const Bytes payload = documented("0102030405060708") + documented("00007f1234570000 00010000");
  const Bytes bytes = hex("c8 00 ffff 00 002203 00 000001") + bxth + reth + payload + hex("00000000");
  const auto parsed = parse_packet(bytes);
  ASSERT_TRUE(parsed.ok());
  const Packet& packet = parsed.value();
  EXPECT_EQ(packet.op, RcOp::kWriteLast);
  EXPECT_TRUE(packet.bxth.by_reference());
  EXPECT_EQ(packet.reth.length, 0x20000u);
  const auto description = parse_reference(packet.payload);
  ASSERT_TRUE(description);
  EXPECT_EQ(description->key, 0x0102'0304'0506'0708u);
  EXPECT_EQ(description->bytes, 65'536u);
  EXPECT_EQ(description->pieces()[0].address, 0x7f12'3457'0000u);
  std::byte again[kPacketHeadersMax];
  ASSERT_EQ(emit_headers(packet, again), bytes.size() - payload.size() - 4);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end() - static_cast<std::ptrdiff_t>(payload.size()) - 4, again));
}

TEST(WireDocument, WriteWithAPiggybackedAcknowledgement) {
  const Bytes headers = documented("ca 00 ffff 00 002203 80 fffffe") +
                        documented("22 001102 00 000000 00 000000 00 000000") +
                        hex("00000000000f4240a1b2c3d4e5f60718") + documented("00 000005 1f 0003f0 00000100 00100000") +
                        documented("00000000001e8480 00000000000f404c 000f4240 00000001") +
                        documented("00007f0000001000 000055aa 00000008");
  const Bytes bytes = headers + documented("5a5a5a5a5a5a5a5a") + documented("8dbc34eb");
  const auto parsed = parse_packet(bytes);
  ASSERT_TRUE(parsed.ok());
  const Packet& packet = parsed.value();
  EXPECT_EQ(packet.op, RcOp::kWriteOnly);
  EXPECT_EQ(packet.reth.length, 8u);
  EXPECT_EQ(packet.payload.size(), 8u);
  ASSERT_TRUE(packet.bxth.piggyback);
  const BitmapAck ack = bitmap_ack_of(packet.bxth, packet.piggyback);
  EXPECT_EQ(ack.source_qpn, 0x1102u);
  EXPECT_EQ(ack.base, Psn{1008});
  EXPECT_EQ(ack.highest, Psn{1007});
  EXPECT_EQ(ack.msn, 5u);
  EXPECT_EQ(ack.credit_packets, 256u);
  EXPECT_EQ(ack.credit_bytes, 1u << 20);
  EXPECT_TRUE(ack.echo_valid);
  EXPECT_EQ(ack.ts_echo, 2'000'000u);
  EXPECT_EQ(ack.tr, 999'500u);
  EXPECT_EQ(ack.made, 1'000'000u);
  EXPECT_EQ(ack.held(), 500_ns);
  EXPECT_EQ(ack.bit_count, 0u);
  EXPECT_EQ(packet_icrc(kDocumentPath, bytes), stored_icrc(bytes));
}

TEST(WireDocument, SendWithInvalidate) {
  const Bytes headers = documented("d7 00 ffff 00 002203 80 000005") +
                        documented("20 001102 00 000004 00 000003 00 000000") +
                        hex("00000000000f4240a1b2c3d4e5f60718") + documented("0008b2c5");
  const Bytes bytes = headers + hex("5a5a5a5a5a5a5a5a") + documented("a1adaeae");
  const auto parsed = parse_packet(bytes);
  ASSERT_TRUE(parsed.ok());
  const Packet& packet = parsed.value();
  EXPECT_EQ(packet.op, RcOp::kSendOnlyInvalidate);
  EXPECT_EQ(packet.invalidate_rkey, 0x8B2C5u);
  EXPECT_EQ(packet.payload.size(), 8u);
  EXPECT_EQ(packet_icrc(kDocumentPath, bytes), stored_icrc(bytes));
}

TEST(WireDocument, AtomicWriteAndFlush) {
  const Bytes write = documented("1d 00 ffff 00 002203 80 000006") + documented("00007f0000001000 000055aa 00000008") +
                      hex("5a5a5a5a5a5a5a5a") + documented("907f4330");
  const auto first = parse_packet(write);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first.value().op, RcOp::kAtomicWrite);
  EXPECT_EQ(first.value().reth.address, 0x7F0000001000u);
  EXPECT_EQ(first.value().payload.size(), 8u);
  EXPECT_EQ(packet_icrc(kDocumentPath, write), stored_icrc(write));

  const Bytes flush = documented("dc 00 ffff 00 002203 80 000007") +
                      documented("20 001102 00 000006 00 000003 00 000000") + hex("00000000000f4240a1b2c3d4e5f60718") +
                      documented("00000001") + documented("00007f0000001000 000055aa 000009c4") +
                      documented("9064c941");
  const auto second = parse_packet(flush);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second.value().op, RcOp::kFlush);
  EXPECT_EQ(second.value().feth.placement, kFlushGlobal);
  EXPECT_EQ(second.value().feth.selectivity, kFlushRange);
  EXPECT_EQ(second.value().reth.length, 2500u);
  EXPECT_EQ(packet_icrc(kDocumentPath, flush), stored_icrc(flush));
}

TEST(WireDocument, CopyOfAReadRequest) {
  const Bytes headers = documented("cc 00 ffff 00 002203 80 000006") +
                        documented("25 001102 00 000005 00 000003 00 000000") +
                        hex("00000000000f4240a1b2c3d4e5f60718") + documented("00007f0000001000 000055aa 00001000");
  const Bytes bytes = headers + documented("7c04b665");
  const auto parsed = parse_packet(bytes);
  ASSERT_TRUE(parsed.ok());
  const Packet& packet = parsed.value();
  EXPECT_EQ(packet.op, RcOp::kReadRequest);
  EXPECT_TRUE(is_copy(packet));
  EXPECT_TRUE(packet.bxth.retransmitted);
  EXPECT_EQ(packet.reth.length, 4096u);
  EXPECT_EQ(packet_icrc(kDocumentPath, bytes), stored_icrc(bytes)) << std::hex << packet_icrc(kDocumentPath, bytes);
}

TEST(WireDocument, UdSendWithImmediate) {
  const Bytes bytes = documented("65 90 ffff 00 002203 00 000007") + documented("11111111 00 001102") +
                      documented("cafe0001") + documented("5a5a5a 00") + documented("eb49f386");
  const auto parsed = parse_packet(bytes);
  ASSERT_TRUE(parsed.ok());
  const Packet& packet = parsed.value();
  EXPECT_EQ(packet.op, RcOp::kSendOnlyImm);
  EXPECT_TRUE(packet.bth.solicited);
  EXPECT_EQ(packet.deth.qkey, 0x1111'1111u);
  EXPECT_EQ(packet.deth.source_qpn, 0x1102u);
  EXPECT_EQ(packet.payload.size(), 3u);
  EXPECT_EQ(packet_icrc(kDocumentPath, bytes), stored_icrc(bytes));
}

TEST(WireDocument, UcWriteWithImmediate) {
  const Bytes bytes = documented("2b 00 ffff 00 002203 00 000009") + documented("00007f0000001000 000055aa 00000008") +
                      documented("cafe0001") + documented("5a5a5a5a5a5a5a5a") + documented("93303f13");
  const auto parsed = parse_packet(bytes);
  ASSERT_TRUE(parsed.ok());
  const Packet& packet = parsed.value();
  EXPECT_EQ(packet.op, RcOp::kWriteOnlyImm);
  EXPECT_EQ(packet.reth.length, 8u);
  EXPECT_EQ(packet.payload.size(), 8u);
  EXPECT_EQ(packet_icrc(kDocumentPath, bytes), stored_icrc(bytes));
}

TEST(WireDocument, LabelsOfOperations) {
  const Bytes start = documented("2c 001102 00 000000 01 000000 40 000040") + hex("00000000000000000000000000000000");
  const Bxth first = parse_bxth(Field<kBxthSize>{start});
  EXPECT_EQ(first.operation, 1);
  EXPECT_EQ(first.operation_packets, 64);
  EXPECT_TRUE(first.operation_start);
  EXPECT_TRUE(first.operation_more);
  EXPECT_EQ(first.packet_index, 64u);
  const Bytes end = documented("20 001102 00 000000 02 000000 13 000092") + hex("00000000000000000000000000000000");
  const Bxth last = parse_bxth(Field<kBxthSize>{end});
  EXPECT_EQ(last.operation, 2);
  EXPECT_EQ(last.operation_packets, 19);
  EXPECT_FALSE(last.operation_start);
  EXPECT_FALSE(last.operation_more);
  EXPECT_EQ(last.packet_index, 146u);
  Bytes again(kBxthSize);
  emit_bxth(first, again.data());
  EXPECT_EQ(again, start);
  emit_bxth(last, again.data());
  EXPECT_EQ(again, end);
}

TEST(WireDocument, AcknowledgedOperations) {
  expect_documented("byte 50 is `05`, byte 51 `40`");
  BitmapAck ack;
  ack.base = Psn{1003};
  ack.highest = Psn{1002};
  ack.operations_valid = true;
  ack.operations_next = 5;
  ack.operations_beyond = 0x40;
  Bytes body(kBitmapAckSize);
  ASSERT_EQ(emit_bitmap_ack(ack, body.data()), body.size());
  EXPECT_EQ(body[0], std::byte{0x24});
  EXPECT_EQ(body[50], std::byte{0x05});
  EXPECT_EQ(body[51], std::byte{0x40});
  const auto parsed = parse_bitmap_ack(body, Psn{1003});
  ASSERT_TRUE(parsed);
  EXPECT_TRUE(parsed->operations_valid);
  EXPECT_EQ(parsed->operations_next, 5);
  EXPECT_EQ(parsed->operations_beyond, 0x40);
}

TEST(WireDocument, BitmapAcknowledgement) {
  Bytes bits = documented("7fc00000");
  for (std::uint32_t i = 0; i < 32; ++i) {
    const bool arrived = i >= 1 && i <= 9;
    EXPECT_EQ(((load_be32(bits.data()) >> (31 - i)) & 1) != 0, arrived) << i;
  }
  BitmapAck ack;
  ack.base = Psn{1003};
  ack.highest = Psn{1012};
  ack.bit_count = 10;
  ack.bits = bits;
  Bytes body(kBitmapAckSize + bits.size());
  ASSERT_EQ(emit_bitmap_ack(ack, body.data()), body.size());
  EXPECT_TRUE(parse_bitmap_ack(body, Psn{1003}));
  EXPECT_FALSE(parse_bitmap_ack(body, Psn{1004}));  // bit 9 would be 1013, behind the highest
}

// Four paths in turn, batches of 3: 1015 is the first of its batch on its path, where 1003 to 1005 went before.
TEST(WireDocument, BeforeOnThisPath) {
  expect_documented("| 1015 | 10 | 3 | `0000001010 000010` | 0282 |");
  expect_documented("| 1016 | 1 | 1 | `0000000001 000000` | 0040 |");
  expect_documented("| 1017 | 1 | 2 | `0000000001 000001` | 0041 |");
  const struct {
    BeforeOnPath before;
    std::uint16_t bits;
  } rows[] = {{{10, 3}, 0x0282}, {{1, 1}, 0x0040}, {{1, 2}, 0x0041}, {{1023, 64}, 0xFFFF}, {{0, 1}, 0}};
  for (const auto& row : rows) {
    Bxth bxth;
    bxth.before = row.before;
    bxth.timestamp = 1'000'000;
    Bytes bytes(kBxthSize);
    emit_bxth(bxth, bytes.data());
    EXPECT_EQ(load_be16(bytes.data() + 16), row.bits);
    const Bxth back = parse_bxth(Field<kBxthSize>{bytes.data(), kBxthSize});
    EXPECT_EQ(back.before.distance, row.before.distance);
    EXPECT_EQ(back.before.run, row.before.run);
    EXPECT_EQ(back.timestamp, 1'000'000u);
  }
}

TEST(WireDocument, RangeOfAnAcknowledgement) {
  Bytes range(kAckRangeSize);
  emit_ack_range({Psn{0x12345}, 70'000}, range.data());
  EXPECT_EQ(range, documented("00 012345 00011170"));
}

TEST(WireDocument, Cnp) {
  const Bytes bytes =
      documented("81 00 ffff 40 002203 00 000000") + documented("00000000000000000000000000000000") + hex("11223344");
  const auto parsed = parse_packet(bytes);
  ASSERT_TRUE(parsed.ok());
  Packet packet;
  packet.bth.opcode = kCnpOpcode;
  packet.bth.becn = true;
  packet.bth.dest_qpn = 0x2203;
  Bytes out(kPacketHeadersMax);
  out.resize(emit_headers(packet, out.data()));
  EXPECT_EQ(test::to_hex(out), test::to_hex(ConstBytes{bytes}.first(out.size())));
  EXPECT_EQ(out.size() + kIcrcSize, bytes.size());
}

TEST(WireDocument, FfmOfTheWorkedExample) {
  Bytes gap = documented("01 0003eb 00000001");
  Ffm ffm;
  ffm.highest = Psn{1012};
  ffm.cause = 1;
  ffm.base = Psn{1003};
  ffm.depth = 9;
  ffm.gap_count = 1;
  ffm.gaps = gap;
  Bytes body(kFfmSize + gap.size());
  ASSERT_EQ(emit_ffm(ffm, body.data()), body.size());
  const auto parsed = parse_ffm(body, Psn{1003});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->gap(0), (FfmGap{Psn{1003}, 1, /*cause=*/1, /*repeat=*/0}));
  Bytes second = documented("32 0003ef 00000002");
  Bytes emitted(kFfmGapSize);
  emit_ffm_gap({Psn{1007}, 2, /*cause=*/2, /*repeat=*/3}, emitted.data());
  EXPECT_EQ(emitted, second);
}

TEST(WireDocument, EdnOfThreePackets) {
  expect_documented("`e3 00 ffff 00 001102 00 0003eb`");
  const Bytes body = documented("22 002203 02 0003ed 0000c350 00000000") + documented("00000000000f4240") +
                     documented("8899aabbccddeeff");
  const auto edn = parse_edn(body, Psn{1003});
  ASSERT_TRUE(edn);
  EXPECT_EQ(edn->last, Psn{1005});
  EXPECT_EQ(edn->destination_qpn, 0x2203u);
  EXPECT_EQ(edn->path, 2);
  EXPECT_EQ(edn->drain, 50_us);
  EXPECT_EQ(edn->timestamp, 1'000'000u);
  EXPECT_EQ(edn->token, 0x8899'AABB'CCDD'EEFFu);
}

TEST(WireDocument, LinkStateInquiryAndFeedback) {
  expect_documented("`e4 00 ffff 00 002203 00 000000`");
  expect_documented("`e5 00 ffff 00 001102 00 000000`");
  const Bytes asked = documented("10 001102 01 10 0000 0123456789abcdef") + filled(48, 0);
  const auto inquiry = parse_link_state_inquiry(asked);
  ASSERT_TRUE(inquiry);
  EXPECT_EQ(inquiry->source_qpn, 0x1102u);
  EXPECT_EQ(inquiry->hop, 1);
  EXPECT_EQ(inquiry->hop_limit, 16);
  EXPECT_EQ(inquiry->nonce, 0x0123456789ABCDEFu);
  Bytes out(kLinkStateInquirySize);
  EXPECT_EQ(emit_link_state_inquiry(*inquiry, out.data()), asked.size());
  EXPECT_EQ(out, asked);

  const Bytes answer = documented("11 002203 01 0007d0 0123456789abcdef") + documented("00000007 00000002") +
                       documented("0000000023c34600 000000004a817c80") +
                       documented("00030000 00040000 000000000000000c") + documented("00000000000f4240");
  const auto feedback = parse_link_state_feedback(answer);
  ASSERT_TRUE(feedback);
  const LinkStateFeedback expected{.over_limits = true,
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
                                   .switch_speed = 2'000'000,
                                   .timestamp = 1'000'000};
  EXPECT_EQ(*feedback, expected);
  EXPECT_EQ(emit_link_state_feedback(expected, out.data()), answer.size());
  EXPECT_EQ(out, answer);
}

TEST(WireDocument, StoppedQueryAndReply) {
  expect_documented("`e6 00 ffff 00 000001 00 000000`");
  expect_documented("`e7 00 ffff 00 001102 00 000000`");
  const Bytes asked = documented("10 001102 00 002203 0123456789abcdef") + documented("00000218 00000000");
  const StoppedQuery expected{.source_qpn = 0x1102, .peer_qpn = 0x2203, .nonce = 0x0123456789ABCDEF, .silent_ms = 536};
  EXPECT_EQ(parse_stopped_query(asked), expected);
  Bytes out(kStoppedQuerySize);
  EXPECT_EQ(emit_stopped_query(expected, out.data()), asked.size());
  EXPECT_EQ(out, asked);
  const Bytes answer = documented("10 002203 00000000 0123456789abcdef") + documented("0000000000000000");
  const StoppedReply reply{.peer_qpn = 0x2203, .nonce = 0x0123456789ABCDEF};
  EXPECT_EQ(parse_stopped_reply(answer), reply);
  EXPECT_EQ(emit_stopped_reply(reply, out.data()), answer.size());
  EXPECT_EQ(out, answer);
}

TEST(WireDocument, EdnOfAnAcknowledgement) {
  const Bytes body = documented("25 002203 00 0003eb") + Bytes(24);
  const auto edn = parse_edn(body, Psn{1003});
  ASSERT_TRUE(edn);
  EXPECT_TRUE(edn->acknowledgement);
  EXPECT_EQ(edn->last, Psn{1003});
}

TEST(WireDocument, PathMtuTable) {
  const std::pair<std::size_t, std::size_t> rows[] = {{372, 256}, {628, 512}, {1140, 1024}, {2164, 2048}, {4212, 4096}};
  for (const auto& [netdev, path_mtu] : rows) {
    EXPECT_EQ(netdev, path_mtu + kOverheadMax);
    expect_documented("| " + std::to_string(netdev) + " | " + std::to_string(path_mtu) + " |");
  }
}

}  // namespace
}  // namespace brdma::wire
