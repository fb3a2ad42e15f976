// Explicit drop notification on the wire: as a control packet and as ICMP, to the byte, and refusals.
#include <gtest/gtest.h>

#include "support/bytes.h"
#include "wire/edn.h"
#include "wire/packet.h"

namespace brdma::wire {
namespace {

using test::Bytes;
using test::hex;
using test::to_hex;
using test::operator+;

TEST(WireEdn, ControlPacketToTheByte) {
  const Bytes body = hex("22 002203 02 0003ed 0000c350 00000000") + hex("00000000000f4240 8899aabbccddeeff");
  const auto edn = parse_edn(body, Psn{1003});
  ASSERT_TRUE(edn);
  EXPECT_EQ(edn->first, Psn{1003});
  EXPECT_EQ(edn->last, Psn{1005});
  EXPECT_EQ(edn->destination_qpn, 0x2203u);
  EXPECT_EQ(edn->path, 2);
  EXPECT_EQ(edn->drain, 50_us);
  EXPECT_EQ(edn->timestamp, 1'000'000u);
  EXPECT_EQ(edn->token, 0x8899'AABB'CCDD'EEFFu);
  EXPECT_FALSE(edn->responses);
  Bytes out(kEdnSize);
  EXPECT_EQ(emit_edn(*edn, out.data()), kEdnSize);
  EXPECT_EQ(to_hex(out), to_hex(body));
}

TEST(WireEdn, FlagsAndSaturation) {
  Edn edn{.first = Psn{1}, .last = Psn{1}, .responses = true, .drain = 10_s};
  Bytes out(kEdnSize);
  emit_edn(edn, out.data());
  const auto read = parse_edn(out, Psn{1});
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->responses);
  EXPECT_FALSE(read->timestamp);
  EXPECT_EQ(read->drain, Duration::from_ns(0xFFFF'FFFF));
}

// A receiver without this flag takes it for one about READ responses, and ignores it.
TEST(WireEdn, AboutAnAcknowledgement) {
  const Bytes body = hex("25 002203 00 0003eb 00000000 00000000 0000000000000000 8899aabbccddeeff");
  const auto edn = parse_edn(body, Psn{1003});
  ASSERT_TRUE(edn);
  EXPECT_TRUE(edn->acknowledgement);
  EXPECT_FALSE(edn->responses);
  Bytes out(kEdnSize);
  emit_edn(*edn, out.data());
  EXPECT_EQ(to_hex(out), to_hex(body));
}

// A bitmap acknowledgement names its sender in its first word.
TEST(WireEdn, IcmpAboutAnAcknowledgement) {
  const Bytes quote = hex("4500 0060 0000 4000 40 11 0000 0a4d0001 0a4d0002") + hex("c001 12b7 004c 0000") +
                      hex("e1 00 ffff 00 002203 00 0003eb") + hex("21 001102 00 000001") + Bytes(16) +
                      hex("8899aabbccddeeff");
  Bytes out(kIcmpHeaderSize + kQuoteMax);
  out.resize(emit_icmp_edn(quote, 1, Duration{}, out.data()));
  const auto said = parse_icmp_edn(out);
  ASSERT_TRUE(said);
  EXPECT_TRUE(said->edn.acknowledgement);
  EXPECT_FALSE(said->edn.responses);
  EXPECT_EQ(said->source_qpn, 0x1102u);
  EXPECT_EQ(said->edn.token, 0x8899'AABB'CCDD'EEFFu);
  EXPECT_EQ(said->edn.first, Psn{1003});
  EXPECT_FALSE(said->edn.timestamp);
}

TEST(WireEdn, ImpossibleBodies) {
  const Bytes body = hex("22002203 020003ed 0000c350 00000000 00000000000f4240 8899aabbccddeeff");
  EXPECT_FALSE(parse_edn(ConstBytes{body}.first(kEdnSize - 1), Psn{1003}));
  EXPECT_FALSE(parse_edn(body, Psn{1006}));  // ends before it begins
  EXPECT_TRUE(parse_edn(body, Psn{1005}));
}

// A WRITE First of bitmap mode from 10.77.0.1 port 0xc001 to 10.77.0.2.
Bytes quoted() {
  return hex("4502 0460 0000 4000 40 11 0000 0a4d0001 0a4d0002") + hex("c001 12b7 044c 0000") +
         hex("c6 00 ffff 00 002203 00 0003eb") + hex("20 001102 02 000001 00 000001 00 000000") +
         hex("00000000000f4240 8899aabbccddeeff") + hex("00007f0000001000 000055aa 000009c4");
}

TEST(WireEdn, IcmpQuotesTheFirstPacket) {
  Bytes out(kIcmpHeaderSize + kQuoteMax);
  const std::size_t size = emit_icmp_edn(quoted(), 3, Duration::from_ns(49'001), out.data());
  EXPECT_EQ(size, kIcmpHeaderSize + 88);  // IPv4, UDP, BTH, BXTH, RETH: everything given
  out.resize(size);
  EXPECT_EQ(to_hex(ConstBytes{out}.first(2)), "0400");
  EXPECT_EQ(to_hex(ConstBytes{out}.subspan(4, 4)), "00020032");  // 2 more, 50 us: rounded up
  const auto said = parse_icmp_edn(out);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->source, IpAddress::v4(10, 77, 0, 1));
  EXPECT_EQ(said->destination, IpAddress::v4(10, 77, 0, 2));
  EXPECT_EQ(said->source_port, 0xC001);
  EXPECT_EQ(said->source_qpn, 0x1102u);
  EXPECT_EQ(said->edn.destination_qpn, 0x2203u);
  EXPECT_EQ(said->edn.first, Psn{1003});
  EXPECT_EQ(said->edn.last, Psn{1005});
  EXPECT_EQ(said->edn.drain, 50_us);
  EXPECT_EQ(said->edn.path, 2);
  EXPECT_EQ(said->edn.token, 0x8899'AABB'CCDD'EEFFu);
  EXPECT_EQ(said->edn.timestamp, 1'000'000u);
  EXPECT_FALSE(said->edn.responses);
}

// A router of RFC 1812 sends this about a standard packet: no count, no time.
TEST(WireEdn, PlainSourceQuenchAboutAStandardPacket) {
  const Bytes quote = hex("4500 0460 1234 4000 40 11 0000 0a4d0001 0a4d0002") + hex("c001 12b7 044c 0000") +
                      hex("0d 00 ffff 00 002203 00 0003eb");
  Bytes out(kIcmpHeaderSize + kQuoteMax);
  out.resize(emit_icmp_edn(quote, 1, Duration{}, out.data()));
  EXPECT_EQ(to_hex(ConstBytes{out}.subspan(4, 4)), "00000000");
  const auto said = parse_icmp_edn(out);
  ASSERT_TRUE(said);
  EXPECT_FALSE(said->source_qpn);
  EXPECT_FALSE(said->edn.timestamp);
  EXPECT_EQ(said->edn.last, said->edn.first);
  EXPECT_EQ(said->edn.drain, Duration{});
  EXPECT_TRUE(said->edn.responses);  // READ response First
}

TEST(WireEdn, IcmpThatIsNotOne) {
  Bytes good(kIcmpHeaderSize + kQuoteMax);
  good.resize(emit_icmp_edn(quoted(), 1, 1_us, good.data()));
  ASSERT_TRUE(parse_icmp_edn(good));
  for (std::size_t size = 0; size < kIcmpHeaderSize + kIpv4Size + kUdpSize + kBthSize; ++size) {
    EXPECT_FALSE(parse_icmp_edn(ConstBytes{good}.first(size))) << size;
  }
  for (std::size_t i = 0; i < good.size(); ++i) {  // the checksum finds each damaged byte
    Bytes damaged = good;
    damaged[i] ^= std::byte{0x10};
    EXPECT_FALSE(parse_icmp_edn(damaged)) << i;
  }
  const auto with = [](std::size_t offset, std::uint8_t value) {  // changed before the checksum is made
    Bytes quote = quoted();
    quote[offset] = std::byte{value};
    Bytes out(kIcmpHeaderSize + kQuoteMax);
    out.resize(emit_icmp_edn(quote, 1, 1_us, out.data()));
    return parse_icmp_edn(out).has_value();
  };
  EXPECT_TRUE(with(1, 0));
  EXPECT_FALSE(with(0, 0x46));   // IP options
  EXPECT_FALSE(with(9, 6));      // TCP
  EXPECT_FALSE(with(7, 1));      // not the first fragment
  EXPECT_FALSE(with(22, 0));     // another port
  EXPECT_FALSE(with(28, 0x5F));  // not an opcode
  EXPECT_FALSE(with(28, 0xE0));  // CAPS: repeated by themselves
}

TEST(WireEdn, IsAControlPacket) {
  Packet packet;
  packet.bth.opcode = static_cast<std::uint8_t>(Control::kEdn);
  packet.bth.psn = Psn{1003};
  Bytes bytes(kPacketHeadersMax + kEdnSize + kIcrcSize);
  const std::size_t headers = emit_headers(packet, bytes.data());
  ASSERT_EQ(headers, kBthSize);
  emit_edn({.first = Psn{1003}, .last = Psn{1003}}, bytes.data() + headers);
  bytes.resize(headers + kEdnSize + kIcrcSize);
  const auto parsed = parse_packet(bytes);
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(parsed.value().control);
  EXPECT_TRUE(parse_edn(parsed.value().payload, parsed.value().bth.psn));
}

}  // namespace
}  // namespace brdma::wire
