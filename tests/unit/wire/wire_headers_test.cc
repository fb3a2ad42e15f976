// Each header against bytes written by hand: every field has a value that reveals a wrong offset, and each flag is
// tested alone.
#include <gtest/gtest.h>

#include "support/bytes.h"
#include "wire/headers.h"

namespace brdma::wire {
namespace {

using test::Bytes;
using test::hex;
using test::to_hex;

template <std::size_t kSize>
Field<kSize> field(const Bytes& bytes) {
  EXPECT_EQ(bytes.size(), kSize);
  return Field<kSize>{bytes.data(), kSize};
}

template <std::size_t kSize, class Header>
std::string emitted(void (*emit)(const Header&, std::byte*), const Header& header) {
  Bytes out = test::filled(kSize + 1, 0xEE);  // each byte must be written, and none behind
  emit(header, out.data());
  EXPECT_EQ(out.back(), std::byte{0xEE});
  out.pop_back();
  return to_hex(out);
}

TEST(Bth, FieldsStandWhereIbtaPutsThem) {
  const Bytes bytes = hex("0a f0 8765 c0 123456 80 abcdef");
  const Bth bth = parse_bth(field<kBthSize>(bytes));
  EXPECT_EQ(bth.opcode, 0x0A);
  EXPECT_TRUE(bth.solicited);
  EXPECT_TRUE(bth.migrated);
  EXPECT_EQ(bth.pad, 3);
  EXPECT_EQ(bth.pkey, 0x8765);
  EXPECT_TRUE(bth.fecn);
  EXPECT_TRUE(bth.becn);
  EXPECT_EQ(bth.dest_qpn, 0x123456u);
  EXPECT_TRUE(bth.ack_request);
  EXPECT_EQ(bth.psn, Psn{0xABCDEF});
  EXPECT_EQ((emitted<kBthSize>(&emit_bth, bth)), to_hex(bytes));
}

TEST(Bth, FlagsAreIndependent) {
  struct Case {
    const char* bytes;
    bool solicited, migrated;
    std::uint8_t pad;
    bool fecn, becn, ack_request;
  };
  const Case cases[] = {
      {"04 80 ffff 00 000000 00 000000", true, false, 0, false, false, false},
      {"04 40 ffff 00 000000 00 000000", false, true, 0, false, false, false},
      {"04 20 ffff 00 000000 00 000000", false, false, 2, false, false, false},
      {"04 10 ffff 00 000000 00 000000", false, false, 1, false, false, false},
      {"04 00 ffff 80 000000 00 000000", false, false, 0, true, false, false},
      {"04 00 ffff 40 000000 00 000000", false, false, 0, false, true, false},
      {"04 00 ffff 00 000000 80 000000", false, false, 0, false, false, true},
  };
  for (const auto& c : cases) {
    const Bytes bytes = hex(c.bytes);
    const Bth bth = parse_bth(field<kBthSize>(bytes));
    EXPECT_EQ(bth.solicited, c.solicited) << c.bytes;
    EXPECT_EQ(bth.migrated, c.migrated) << c.bytes;
    EXPECT_EQ(bth.pad, c.pad) << c.bytes;
    EXPECT_EQ(bth.fecn, c.fecn) << c.bytes;
    EXPECT_EQ(bth.becn, c.becn) << c.bytes;
    EXPECT_EQ(bth.ack_request, c.ack_request) << c.bytes;
    EXPECT_EQ((emitted<kBthSize>(&emit_bth, bth)), to_hex(bytes));
  }
}

TEST(Bth, ReservedBitsAreIgnoredAndSentAsZero) {
  const Bytes bytes = hex("04 00 ffff 3f 000011 7f 000001");
  const Bth bth = parse_bth(field<kBthSize>(bytes));
  EXPECT_EQ(bth.dest_qpn, 0x11u);
  EXPECT_EQ(bth.psn, Psn{1});
  EXPECT_FALSE(bth.fecn || bth.becn || bth.ack_request);
  EXPECT_EQ((emitted<kBthSize>(&emit_bth, bth)), to_hex(hex("04 00 ffff 00 000011 00 000001")));
}

TEST(Bth, VersionIsTheLowHalfOfTheSecondByte) {
  const Bytes bytes = hex("04 f7 ffff 00 000000 00 000000");
  EXPECT_EQ(bth_version(field<kBthSize>(bytes)), 7);
}

TEST(Bxth, FieldsStandWhereTheWireDocumentPutsThem) {
  const Bytes bytes = hex("21 a1a2a3  04 b1b2b3  00 c1c2c3  00 d1d2d3  0000030405060708 e1e2e3e4e5e6e7e8");
  const Bxth bxth = parse_bxth(field<kBxthSize>(bytes));
  EXPECT_EQ(bitmap_version(bytes.data()), 2);
  EXPECT_TRUE(bxth.retransmitted);
  EXPECT_EQ(bxth.source_qpn, 0xA1A2A3u);
  EXPECT_EQ(bxth.path, 4);
  EXPECT_EQ(bxth.msn, 0xB1B2B3u);
  EXPECT_EQ(bxth.rsn, 0xC1C2C3u);
  EXPECT_EQ(bxth.packet_index, 0xD1D2D3u);
  EXPECT_EQ(bxth.timestamp, 0x030405060708u);
  EXPECT_EQ(bxth.token, 0xE1E2'E3E4'E5E6'E7E8u);
  EXPECT_EQ((emitted<kBxthSize>(&emit_bxth, bxth)), to_hex(bytes));
}

TEST(Timestamp, ComesBackAsTheLatestInstantThatHasIt) {
  for (const std::int64_t ns : {std::int64_t{1'000'000}, (std::int64_t{1} << 48) + 5, std::int64_t{7} << 50}) {
    const Instant sent = Instant::from_ns(ns);
    EXPECT_EQ(instant_of(timestamp_of(sent), sent), sent);
    EXPECT_EQ(instant_of(timestamp_of(sent), sent + 3_s), sent);
  }
}

TEST(Bxth, LabelOfAnOperation) {
  const Bytes bytes = hex("2c 000001  00 000002  ab 000003  40 000004  0000000000000005 0000000000000006");
  const Bxth bxth = parse_bxth(field<kBxthSize>(bytes));
  EXPECT_FALSE(bxth.retransmitted || bxth.piggyback);
  EXPECT_TRUE(bxth.operation_start && bxth.operation_more);
  EXPECT_EQ(bxth.operation, 0xAB);
  EXPECT_EQ(bxth.operation_packets, 64);
  EXPECT_EQ(bxth.rsn, 3u);
  EXPECT_EQ(bxth.packet_index, 4u);
  EXPECT_EQ((emitted<kBxthSize>(&emit_bxth, bxth)), to_hex(bytes));
}

TEST(Bxth, NumbersOf24BitsWrapInTheEncoder) {
  const Bxth bxth{.source_qpn = 0xFF000001, .msn = 0x1000002, .rsn = 0x1000003, .packet_index = 0x1000004};
  EXPECT_EQ((emitted<kBxthSize>(&emit_bxth, bxth)),
            to_hex(hex("20 000001  00 000002  00 000003  00 000004  0000000000000000 0000000000000000")));
}

TEST(Reth, RoundTrip) {
  const Bytes bytes = hex("0102030405060708 a1a2a3a4 b1b2b3b4");
  const Reth reth = parse_reth(field<kRethSize>(bytes));
  EXPECT_EQ(reth.address, 0x0102030405060708u);
  EXPECT_EQ(reth.rkey, 0xA1A2A3A4u);
  EXPECT_EQ(reth.length, 0xB1B2B3B4u);
  EXPECT_EQ((emitted<kRethSize>(&emit_reth, reth)), to_hex(bytes));
}

TEST(Aeth, RoundTrip) {
  const Bytes bytes = hex("2c a1a2a3");  // RNR NAK, timer code 12
  const Aeth aeth = parse_aeth(field<kAethSize>(bytes));
  EXPECT_EQ(aeth.syndrome, 0x2C);
  EXPECT_EQ(aeth.msn, 0xA1A2A3u);
  EXPECT_EQ((emitted<kAethSize>(&emit_aeth, aeth)), to_hex(bytes));
}

TEST(AtomicEth, RoundTrip) {
  const Bytes bytes = hex("0102030405060708 a1a2a3a4 1112131415161718 2122232425262728");
  const AtomicEth atomic = parse_atomic_eth(field<kAtomicEthSize>(bytes));
  EXPECT_EQ(atomic.address, 0x0102030405060708u);
  EXPECT_EQ(atomic.rkey, 0xA1A2A3A4u);
  EXPECT_EQ(atomic.swap_or_add, 0x1112131415161718u);
  EXPECT_EQ(atomic.compare, 0x2122232425262728u);
  EXPECT_EQ((emitted<kAtomicEthSize>(&emit_atomic_eth, atomic)), to_hex(bytes));
}

}  // namespace
}  // namespace brdma::wire
