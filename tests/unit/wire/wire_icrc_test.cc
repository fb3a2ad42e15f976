// The ICRC against a bit-by-bit CRC over bytes written by hand, and against packets of other machines.
#include <gtest/gtest.h>

#include <optional>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/random.h"
#include "support/bytes.h"
#include "wire/crc/icrc.h"
#include "wire/crc/small_crc.h"
#include "wire/crc/wide_crc.h"
#include "wire/headers.h"

namespace brdma::wire {
namespace {

using test::Bytes;
using test::hex;
using test::operator+;  // vectors of bytes have no namespace of ours: argument lookup does not find it

// CRC-32, one bit at a time: the definition, for use as the oracle.
std::uint32_t crc32_bitwise(const Bytes& bytes) {
  std::uint32_t crc = 0xFFFF'FFFF;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<std::uint32_t>(byte);
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB8'8320 : 0);
  }
  return ~crc;
}

TEST(IcrcOracle, IsCrc32) {
  Bytes check;
  for (const char c : std::string_view{"123456789"}) check.push_back(static_cast<std::byte>(c));
  EXPECT_EQ(crc32_bitwise(check), 0xCBF43926u);  // the catalogued check value of CRC-32
}

const IcrcPath kPathV4{.source = IpAddress::v4(10, 77, 0, 1),
                       .destination = IpAddress::v4(10, 77, 0, 2),
                       .source_port = 0xC123,
                       .destination_port = 4791,
                       .ip_id = 0x1234};
const Bytes kPacket =
    hex("04 00 ffff 00 001102 80 abcdef"  // BTH, SEND Only
        "11121314 15161718"               // payload
        "00000000");                      // ICRC

TEST(Icrc, Ipv4CoversWhatTheNetworkSeesWithMutableFieldsMasked) {
  const Bytes input =
      hex("ffffffffffffffff"
          "45 ff 0034 1234 4000 ff 11 ffff 0a4d0001 0a4d0002"  // total length 20 + 8 + 24
          "c123 12b7 0020 ffff"                                // UDP length 8 + 24
          "04 00 ffff ff 001102 80 abcdef"
          "11121314 15161718");
  EXPECT_EQ(packet_icrc(kPathV4, kPacket), crc32_bitwise(input));
}

TEST(Icrc, Ipv6CoversWhatTheNetworkSeesWithMutableFieldsMasked) {
  IcrcPath path = kPathV4;
  const Bytes source = hex("fd77 0000 0000 0000 0000 0000 0000 0001");
  const Bytes destination = hex("fd77 0000 0000 0000 0000 0000 0000 0002");
  for (std::size_t i = 0; i < 16; ++i) {
    path.source.bytes[i] = std::to_integer<std::uint8_t>(source[i]);
    path.destination.bytes[i] = std::to_integer<std::uint8_t>(destination[i]);
  }
  const Bytes input =
      hex("ffffffffffffffff"
          "6fffffff 0020 11 ff"
          "fd77 0000 0000 0000 0000 0000 0000 0001"
          "fd77 0000 0000 0000 0000 0000 0000 0002"
          "c123 12b7 0020 ffff"
          "04 00 ffff ff 001102 80 abcdef"
          "11121314 15161718");
  EXPECT_EQ(packet_icrc(path, kPacket), crc32_bitwise(input));
  const auto before = packet_icrc(path, kPacket);
  path.ip_id = 7;
  EXPECT_EQ(packet_icrc(path, kPacket), before) << "IPv6 has no identification";
}

TEST(Icrc, CongestionBitsMayChangeInFlight) {
  Bytes marked = kPacket;
  marked[4] = std::byte{0xC0};
  EXPECT_EQ(packet_icrc(kPathV4, marked), packet_icrc(kPathV4, kPacket));
}

TEST(Icrc, EveryOtherBitOfThePacketCounts) {
  const std::uint32_t good = packet_icrc(kPathV4, kPacket);
  for (std::size_t bit = 0; bit < (kPacket.size() - kIcrcSize) * 8; ++bit) {
    if (bit / 8 == 4) continue;
    Bytes bent = kPacket;
    bent[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_NE(packet_icrc(kPathV4, bent), good) << "bit " << bit;
  }
}

TEST(Icrc, EveryPartOfThePathCounts) {
  const std::uint32_t good = packet_icrc(kPathV4, kPacket);
  IcrcPath path = kPathV4;
  path.source.bytes[15] ^= 1;
  EXPECT_NE(packet_icrc(path, kPacket), good);
  path = kPathV4;
  path.destination.bytes[12] ^= 1;
  EXPECT_NE(packet_icrc(path, kPacket), good);
  path = kPathV4;
  ++path.source_port;
  EXPECT_NE(packet_icrc(path, kPacket), good);
  path = kPathV4;
  ++path.destination_port;
  EXPECT_NE(packet_icrc(path, kPacket), good);
  path = kPathV4;
  path.ip_id = 0;
  EXPECT_NE(packet_icrc(path, kPacket), good);
}

// Sizes around each change of method, payload in pieces as in a scatter list.
TEST(Icrc, PiecesAndMethodsDoNotMatter) {
  Random random{1, "icrc"};
  for (const std::size_t size : {0u, 4u, 8u, 12u, 16u, 60u, 252u, 256u, 260u, 1024u, 4096u}) {
    Bytes packet(kBthSize + size + kIcrcSize);
    for (auto& byte : packet) byte = static_cast<std::byte>(random.below(256));
    const Bytes headers(packet.begin(), packet.begin() + kBthSize);
    const std::uint32_t whole = packet_icrc(kPathV4, packet);

    Bytes input = hex("ffffffffffffffff 45 ff 0000 1234 4000 ff 11 ffff 0a4d0001 0a4d0002 c123 12b7 0000 ffff");
    store_be16(input.data() + 10, static_cast<std::uint16_t>(28 + packet.size()));
    store_be16(input.data() + 32, static_cast<std::uint16_t>(8 + packet.size()));
    const std::size_t pseudo = input.size();
    input = input + Bytes(packet.begin(), packet.end() - kIcrcSize);
    input[pseudo + 4] = std::byte{0xFF};
    EXPECT_EQ(whole, crc32_bitwise(input)) << size;

    for (int round = 0; round < 20; ++round) {
      Icrc icrc{kPathV4, packet.size(), headers};
      ConstBytes rest = ConstBytes{packet}.subspan(kBthSize, size);
      while (!rest.empty()) {
        const std::size_t piece = 1 + random.below(rest.size());
        icrc.update(rest.first(piece));
        rest = rest.subspan(piece);
      }
      EXPECT_EQ(icrc.finish(), whole) << size;
    }
  }
}

// Each supported size, after any running CRC; BTH's masked byte does not matter.
TEST(SmallCrc, IsCrc32WithTheCongestionByteMasked) {
  if (!small_crc_takes(kSmallCrcMin)) GTEST_SKIP() << "this processor does not multiply without carries";
  Random random{3, "small crc"};
  for (std::size_t size = kSmallCrcMin; size <= kSmallCrcMax; size += 4) {
    ASSERT_TRUE(small_crc_takes(size));
    Bytes before(random.below(40)), packet(size);
    for (Bytes* bytes : {&before, &packet})
      for (std::byte& byte : *bytes) byte = static_cast<std::byte>(random.next());
    Bytes masked = packet;
    masked[4] = std::byte{0xFF};
    ASSERT_EQ(small_crc(crc32_bitwise(before), packet), crc32_bitwise(before + masked)) << size;
  }
  for (const std::size_t size : {std::size_t{0}, kSmallCrcMin - 4, kSmallCrcMin + 2, kSmallCrcMax + 4})
    EXPECT_FALSE(small_crc_takes(size)) << size;
}

TEST(WideCrc, IsCrc32) {
  if (!internal::wide_crc_able) GTEST_SKIP() << "this processor does not multiply 32 bytes without carries";
  Random random{3, "wide crc"};
  for (std::size_t size = kWideCrcMin; size <= 8192; size += size < 1280 ? 16 : 528) {
    ASSERT_TRUE(wide_crc_takes(size));
    Bytes before(random.below(40)), bytes(size + 1);
    for (Bytes* each : {&before, &bytes})
      for (std::byte& byte : *each) byte = static_cast<std::byte>(random.next());
    const ConstBytes odd_address = ConstBytes{bytes}.subspan(1);
    const Bytes copy(odd_address.begin(), odd_address.end());
    ASSERT_EQ(wide_crc(crc32_bitwise(before), odd_address), crc32_bitwise(before + copy)) << size;
  }
  for (const std::size_t size : {std::size_t{0}, kWideCrcMin - 16, kWideCrcMin + 8, std::size_t{4100}})
    EXPECT_FALSE(wide_crc_takes(size)) << size;
}

#if defined(__x86_64__)
// The processor's own record of the register parts in use (XGETBV with ECX = 1); nullopt if it keeps none.
std::optional<std::uint32_t> register_parts_in_use() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kXgetbvOfOne = 1u << 2, kOsxsave = 1u << 27;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kOsxsave) == 0) return std::nullopt;
  if (__get_cpuid_count(0xD, 1, &a, &b, &c, &d) == 0 || (a & kXgetbvOfOne) == 0) return std::nullopt;
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
  return low;
}

// isa-l leaves them in use, which slows down every later SSE instruction, the application's too.
TEST(Icrc, LeavesNoUpperHalvesOfVectorRegistersInUse) {
  constexpr std::uint32_t kAvxUpper = 1u << 2, kZmmUpper = 1u << 6;
  if (!register_parts_in_use()) GTEST_SKIP() << "this processor does not report it";
  const Bytes packet = test::filled(4168, 0x5A);
  const std::uint32_t icrc = packet_icrc(kPathV4, packet);
  const auto in_use = register_parts_in_use();
  EXPECT_EQ(*in_use & (kAvxUpper | kZmmUpper), 0u) << icrc;
}
#endif

TEST(Icrc, IsStoredLittleEndian) { EXPECT_EQ(stored_icrc(hex("00000000 11223344")), 0x44332211u); }

// One flow, computed by look-ups: the same as from the bytes, for each size and identification.
TEST(IcrcFlow, GivesWhatThePathGives) {
  IcrcPath v6 = kPathV4;
  v6.source.bytes[0] = v6.destination.bytes[0] = 0xFD;
  Random random(7, "icrc flow");
  for (IcrcPath path : {kPathV4, v6}) {
    const AddressedIcrcFlow flow{path};
    EXPECT_TRUE(flow.is(path));
    EXPECT_TRUE(flow.has_ports_of(path));
    for (std::size_t size = kBthSize + kIcrcSize; size <= 9000; size += size < 400 ? 1 : 509) {
      Bytes packet(size);
      for (std::byte& byte : packet) byte = static_cast<std::byte>(random.next());
      path.ip_id = static_cast<std::uint16_t>(random.next());
      const std::uint32_t expected = packet_icrc(path, packet);
      ASSERT_EQ(packet_icrc(flow, path.ip_id, packet), expected) << size;
      // In pieces, headers first; they are left as they were.
      const Bytes before = packet;
      const std::size_t headers = kBthSize + random.below(size - kIcrcSize - kBthSize + 1);
      Icrc icrc{flow, path.ip_id, size, MutableBytes{packet}.first(headers)};
      icrc.update(ConstBytes{packet}.subspan(headers, size - kIcrcSize - headers));
      ASSERT_EQ(icrc.finish(), expected) << size << " " << headers;
      ASSERT_EQ(packet, before);
    }
  }
}

TEST(IcrcFlow, IsOfItsPathAlone) {
  const AddressedIcrcFlow flow{kPathV4};
  IcrcPath path = kPathV4;
  path.ip_id ^= 1;
  EXPECT_TRUE(flow.is(path)) << "not part of the flow";
  for (std::size_t i = 0; i < 16; ++i) {
    path = kPathV4;
    path.source.bytes[i] ^= 1;
    EXPECT_FALSE(flow.is(path)) << i;
    path = kPathV4;
    path.destination.bytes[i] ^= 0x80;
    EXPECT_FALSE(flow.is(path)) << i;
  }
  path = kPathV4;
  ++path.source_port;
  EXPECT_FALSE(flow.is(path));
  EXPECT_FALSE(flow.has_ports_of(path));
  path = kPathV4;
  ++path.destination_port;
  EXPECT_FALSE(flow.is(path));
  EXPECT_FALSE(AddressedIcrcFlow{}.is(kPathV4));
  EXPECT_FALSE(IcrcFlow{}.has_ports_of(kPathV4));
}

}  // namespace
}  // namespace brdma::wire
