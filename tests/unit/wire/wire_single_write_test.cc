// The fast path reads a WRITE of the common form as parse_packet() does.
#include <gtest/gtest.h>

#include "support/bytes.h"
#include "wire/packet.h"
#include "wire/single_write.h"

namespace brdma::wire {
namespace {

using test::Bytes;
using test::hex;
using test::operator+;

Bytes packet_with(std::uint32_t length, bool piggyback) {
  Packet p;
  p.op = RcOp::kWriteOnly;
  p.bth.opcode = opcode_of(p.op, /*bitmap=*/true);
  p.bth.pad = static_cast<std::uint8_t>((0 - length) & 3);
  p.bth.dest_qpn = 0x1234;
  p.bth.ack_request = true;
  p.bth.psn = Psn{0x654321};
  p.bxth.source_qpn = 0xABCD;
  p.bxth.path = 3;
  p.bxth.msn = 7;
  p.bxth.rsn = 8;
  p.bxth.timestamp = 0x030405060708;
  p.bxth.piggyback = piggyback;
  p.piggyback.base = Psn{99};
  p.reth = {0x1112131415161718, 0x91929394, length};
  Bytes bytes(headers_size(p) + length + p.bth.pad + kIcrcSize, std::byte{0x77});
  emit_headers(p, bytes.data());
  return bytes;
}

void expect_alike(ConstBytes bytes, std::size_t what) {
  const auto packet = parse_packet(bytes);
  ASSERT_TRUE(packet.ok()) << what;
  const Packet& wanted = packet.value();
  const SingleWrite write = parse_single_write(bytes);
  EXPECT_EQ(wanted.bth.opcode, SingleWrite::kOpcode) << what;
  EXPECT_EQ(write.psn, wanted.bth.psn) << what;
  EXPECT_EQ(write.ack_request, wanted.bth.ack_request) << what;
  EXPECT_EQ(write.has_piggyback, wanted.bxth.piggyback) << what;
  EXPECT_EQ(write.path, wanted.bxth.path) << what;
  EXPECT_EQ(write.timestamp, wanted.bxth.timestamp) << what;
  EXPECT_EQ(write.reth.address, wanted.reth.address) << what;
  EXPECT_EQ(write.reth.rkey, wanted.reth.rkey) << what;
  EXPECT_EQ(write.reth.length, wanted.reth.length) << what;
  EXPECT_EQ(write.payload.data(), wanted.payload.data()) << what;
  EXPECT_EQ(write.payload.size(), wanted.payload.size()) << what;
  EXPECT_EQ(wanted.payload.size(), wanted.reth.length) << what;
  EXPECT_FALSE(wanted.bxth.by_reference() || wanted.bxth.operation_packets != 0 || wanted.bxth.retransmitted) << what;
}

TEST(SingleWrite, FastPathReadsAsTheGeneralParser) {
  for (const bool piggyback : {false, true}) {
    for (const std::uint32_t length : {0u, 1u, 2u, 3u, 4u, 61u, 64u, 4096u}) {
      const Bytes bytes = packet_with(length, piggyback);
      ASSERT_TRUE(is_single_write(bytes)) << length;
      expect_alike(bytes, length);
      for (std::size_t shorter = 0; shorter < bytes.size(); ++shorter)
        EXPECT_FALSE(is_single_write(ConstBytes{bytes}.first(shorter))) << length << " " << shorter;
      EXPECT_FALSE(is_single_write(bytes + hex("00000000"))) << length;
    }
  }
}

// With any bit flipped, either the fast path refuses the packet, or both read the same.
TEST(SingleWrite, WithAnyBitFlipped) {
  for (const bool piggyback : {false, true}) {
    const Bytes bytes = packet_with(61, piggyback);
    std::size_t whole = 0;
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      Bytes other = bytes;
      other[bit / 8] ^= std::byte(1 << (bit % 8));
      if (!is_single_write(other)) continue;
      ++whole;
      expect_alike(other, bit);
    }
    EXPECT_GT(whole, bytes.size() * 6) << "most of it is numbers and payload";
  }
}

}  // namespace
}  // namespace brdma::wire
