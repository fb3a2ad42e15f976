// Control packets' bodies: bytes written by hand from docs/reference/wire.md#control, and each impossible content
// beside its nearest possible neighbour.
#include <gtest/gtest.h>

#include "support/bytes.h"
#include "wire/control.h"
#include "wire/packet.h"

namespace brdma::wire {
namespace {

using test::Bytes;
using test::hex;
using test::operator+;  // vectors of bytes have no namespace of ours: argument lookup does not find it
using test::to_hex;

const Bytes kCapsBytes =
    hex("11 00abcd 00000001"
        "01 02 05 04"
        "00001000 00000100 00032000"
        "0300000000000000"
        "0102030405060708 1112131415161718");  // token, echo

TEST(Caps, RoundTrip) {
  ASSERT_EQ(kCapsBytes.size(), kCapsSize);
  const auto caps = parse_caps(kCapsBytes);
  ASSERT_TRUE(caps);
  EXPECT_TRUE(caps->reply);
  EXPECT_EQ(caps->source_qpn, 0xABCDu);
  EXPECT_EQ(caps->capabilities, kCapabilityBitmap);
  EXPECT_EQ(caps->version_min, 1);
  EXPECT_EQ(caps->version_max, 2);
  EXPECT_EQ(caps->path_mtu_code, 5);
  EXPECT_EQ(caps->paths, 4);
  EXPECT_EQ(caps->sending_paths, 3);
  EXPECT_EQ(caps->window_packets, 4096u);
  EXPECT_EQ(caps->credit_packets, 256u);
  EXPECT_EQ(caps->credit_bytes, 204800u);
  EXPECT_EQ(caps->token, 0x0102'0304'0506'0708u);
  EXPECT_EQ(caps->echo, 0x1112'1314'1516'1718u);
  Bytes out(kCapsSize);
  EXPECT_EQ(emit_caps(*caps, out.data()), kCapsSize);
  EXPECT_EQ(to_hex(out), to_hex(kCapsBytes));
}

TEST(Caps, ReservedBitsAndLaterAdditionsAreIgnored) {
  Bytes bytes = kCapsBytes + hex("01020304");
  bytes[0] = std::byte{0x1E};  // reply off, the reserved flags on
  bytes[4] = std::byte{0x80};
  bytes[31] = std::byte{0xFF};
  const auto caps = parse_caps(bytes);
  ASSERT_TRUE(caps);
  EXPECT_FALSE(caps->reply);
  EXPECT_EQ(caps->capabilities & kCapabilityBitmap, kCapabilityBitmap);
}

TEST(Caps, ImpossibleContents) {
  struct Case {
    const char* what;
    std::size_t at;
    const char* bytes;
    bool good;
  };
  const Case cases[] = {{"no version", 8, "00 02", false},
                        {"one version", 8, "02 02", true},
                        {"empty range", 8, "03 02", false},
                        {"path MTU 0", 10, "00", false},
                        {"path MTU 256", 10, "01", true},
                        {"path MTU code 6", 10, "06", false},
                        {"no path", 11, "00", false},
                        {"one path", 11, "01", true},
                        {"no window", 12, "00000000", false},
                        {"window 1", 12, "00000001", true},
                        {"half circle", 12, "00800000", true},
                        {"more than half", 12, "00800001", false},
                        {"no credit", 16, "0000000000000000", true}};
  for (const auto& c : cases) {
    Bytes bytes = kCapsBytes;
    const Bytes patch = hex(c.bytes);
    std::copy(patch.begin(), patch.end(), bytes.begin() + static_cast<std::ptrdiff_t>(c.at));
    EXPECT_EQ(parse_caps(bytes).has_value(), c.good) << c.what;
  }
  EXPECT_FALSE(parse_caps(ConstBytes{kCapsBytes}.first(kCapsSize - 1)));
  EXPECT_FALSE(parse_caps({}));
}

// A peer of the first version has no tokens, and its packet ends after 32 bytes.
TEST(Caps, OfTheFirstVersion) {
  Bytes bytes = kCapsBytes;
  bytes[9] = std::byte{1};
  bytes.resize(kCapsFirstSize);
  const auto caps = parse_caps(bytes);
  ASSERT_TRUE(caps);
  EXPECT_EQ(caps->version_max, 1);
  EXPECT_EQ(caps->token, 0u);
  Bytes out(kCapsSize);
  EXPECT_EQ(emit_caps(*caps, out.data()), kCapsFirstSize);
  out.resize(kCapsFirstSize);
  EXPECT_EQ(to_hex(out), to_hex(bytes));
  bytes.pop_back();
  EXPECT_FALSE(parse_caps(bytes));
}

const Bytes kAckFixed =
    hex("23 00abcd"            // responses, echo valid
        "02 000007"            // path, MSN
        "1f 000013"            // syndrome, highest
        "00000040 00010000"    // credit
        "000003e8"             // made
        "2122232425262728"     // token
        "0102030405060708"     // judged, timestamp echo
        "1112131415161718"     // Tr
        "0021 0000");          // bits, operations
const Psn kAckBase{0xFFFFF3};  // highest 0x13 is base + 32: the numbers wrap between them
const Bytes kAckBits = hex("5fffffff 80000000");

TEST(BitmapAck, RoundTripAcrossTheWrap) {
  ASSERT_EQ(kAckFixed.size(), kBitmapAckSize);
  const Bytes body = kAckFixed + kAckBits;
  const auto ack = parse_bitmap_ack(body, kAckBase);
  ASSERT_TRUE(ack);
  EXPECT_TRUE(ack->responses);
  EXPECT_TRUE(ack->echo_valid);
  EXPECT_EQ(ack->source_qpn, 0xABCDu);
  EXPECT_EQ(ack->path, 2);
  EXPECT_EQ(ack->msn, 7u);
  EXPECT_EQ(ack->syndrome, kSyndromeAck);
  EXPECT_EQ(ack->base, kAckBase);
  EXPECT_EQ(ack->highest, Psn{0x13});
  EXPECT_EQ(ack->credit_packets, 64u);
  EXPECT_EQ(ack->credit_bytes, 65536u);
  EXPECT_EQ(ack->judged, 0x0102u);
  EXPECT_EQ(ack->ts_echo, 0x030405060708u);
  EXPECT_EQ(ack->tr, 0x1112131415161718u);
  EXPECT_EQ(ack->made, 1000u);
  EXPECT_EQ(ack->token, 0x2122'2324'2526'2728u);
  EXPECT_EQ(ack->bit_count, 33);
  EXPECT_EQ(to_hex(ack->bits), to_hex(kAckBits));
  Bytes out(body.size());
  EXPECT_EQ(emit_bitmap_ack(*ack, out.data()), body.size());
  EXPECT_EQ(to_hex(out), to_hex(body));
}

// 4000 units of 256 ns, between the fixed part and the bits.
TEST(BitmapAck, HowLongThePacketHadWaited) {
  Bytes body = kAckFixed + hex("00000fa0") + kAckBits;
  body[0] |= std::byte{8};
  const auto ack = parse_bitmap_ack(body, kAckBase);
  ASSERT_TRUE(ack);
  EXPECT_EQ(ack->waited, 1024_us);
  EXPECT_EQ(to_hex(ack->bits), to_hex(kAckBits));
  Bytes out(body.size());
  EXPECT_EQ(emit_bitmap_ack(*ack, out.data()), body.size());
  EXPECT_EQ(to_hex(out), to_hex(body));
  EXPECT_FALSE(parse_bitmap_ack(ConstBytes{body}.first(kBitmapAckSize + 3), kAckBase));
  body[kBitmapAckSize + 2] = body[kBitmapAckSize + 3] = std::byte{0};
  EXPECT_FALSE(parse_bitmap_ack(body, kAckBase)) << "who says nothing leaves it out";
}

TEST(BitmapAck, WaitingTimeIsCappedAtItsLargestValue) {
  EXPECT_EQ(waited_units(10_s), 0xFF'FFFFu);
  EXPECT_EQ(waited_units(255_ns), 0u);
  EXPECT_EQ(waited_units(0_ns - 1_us), 0u);
}

// An acknowledgement of `base`..., `bit_count` bits and `bits` behind it.
std::optional<BitmapAck> ack_with(Psn base, Psn highest, std::uint16_t bit_count, const Bytes& bits,
                                  std::uint8_t syndrome = kSyndromeAck) {
  static Bytes body;  // outlives the value, which points into it
  body = kAckFixed + bits;
  store_be32(body.data() + 8, (std::uint32_t{syndrome} << 24) | highest.value());
  store_be16(body.data() + 48, bit_count);
  return parse_bitmap_ack(body, base);
}

TEST(BitmapAck, NothingBeyondTheBase) {
  EXPECT_TRUE(ack_with(Psn{100}, Psn{99}, 0, {}));
  EXPECT_TRUE(ack_with(Psn{0}, Psn{0xFFFFFF}, 0, {}));
  EXPECT_FALSE(ack_with(Psn{100}, Psn{98}, 0, {}));  // the boundary cannot lie behind complete PSNs
  EXPECT_TRUE(ack_with(Psn{100}, Psn{99}, 32, hex("00000000")));
  EXPECT_FALSE(ack_with(Psn{100}, Psn{99}, 32, hex("40000000")));
  EXPECT_FALSE(ack_with(Psn{100}, Psn{99}, 32, hex("80000000")));
}

TEST(BitmapAck, SizeMustBeThatOfTheBits) {
  EXPECT_TRUE(ack_with(Psn{1}, Psn{40}, 32, hex("40000000")));
  EXPECT_FALSE(ack_with(Psn{1}, Psn{40}, 32, hex("4000000000000000")));
  EXPECT_FALSE(ack_with(Psn{1}, Psn{40}, 32, {}));
  EXPECT_TRUE(ack_with(Psn{1}, Psn{40}, 33, hex("4000000000000000")));
  EXPECT_FALSE(ack_with(Psn{1}, Psn{40}, 33, hex("40000000")));
  EXPECT_FALSE(parse_bitmap_ack(ConstBytes{kAckFixed}.first(kBitmapAckSize - 1), kAckBase));
  EXPECT_FALSE(parse_bitmap_ack({}, kAckBase));
}

TEST(BitmapAck, NoMoreBitsThanTheMaximum) {
  EXPECT_TRUE(ack_with(Psn{0}, Psn{0x1000}, kAckBitsMax, test::filled(kAckBitsMax / 8, 0x00)));
  EXPECT_FALSE(ack_with(Psn{0}, Psn{0x1100}, kAckBitsMax + 1, test::filled(kAckBitsMax / 8 + 4, 0x00)));
}

TEST(BitmapAck, NoBitForTheBaseNorBeyondTheHighest) {
  EXPECT_FALSE(ack_with(Psn{100}, Psn{110}, 32, hex("80000000")));  // the base itself
  EXPECT_TRUE(ack_with(Psn{100}, Psn{110}, 32, hex("00200000")));   // bit 10: the highest
  EXPECT_FALSE(ack_with(Psn{100}, Psn{110}, 32, hex("00100000")));  // bit 11
  EXPECT_FALSE(ack_with(Psn{100}, Psn{110}, 64, hex("0020000000000001")));
  EXPECT_TRUE(ack_with(Psn{100}, Psn{131}, 64, hex("0000000100000000")));   // bit 31, last of the first word
  EXPECT_FALSE(ack_with(Psn{100}, Psn{131}, 64, hex("0000000180000000")));  // bit 32
  EXPECT_TRUE(ack_with(Psn{100}, Psn{132}, 64, hex("0000000180000000")));
}

TEST(BitmapAck, BitsThatOnlyRoundUpToWordsAreZero) {
  EXPECT_TRUE(ack_with(Psn{100}, Psn{200}, 31, hex("7ffffffe")));
  EXPECT_FALSE(ack_with(Psn{100}, Psn{200}, 31, hex("7fffffff")));
  EXPECT_TRUE(ack_with(Psn{100}, Psn{200}, 32, hex("7fffffff")));
}

TEST(BitmapAck, SyndromesThatExist) {
  for (unsigned syndrome = 0; syndrome < 256; ++syndrome) {
    const bool exists = syndrome < 0x40 || (syndrome >= 0x60 && syndrome <= 0x63);
    EXPECT_EQ(ack_with(Psn{5}, Psn{4}, 0, {}, static_cast<std::uint8_t>(syndrome)).has_value(), exists) << syndrome;
  }
}

// A packet of the common form with any bit flipped: either the fast path leaves it to the general parser, or both read
// the same.
TEST(BitmapAck, CumulativeAckFastPathReadsAsTheGeneralParser) {
  for (const Duration waited : {0_ns, 1024_us}) {
    BitmapAck plain;
    plain.source_qpn = 0xABCD;
    plain.path = 2;
    plain.msn = 7;
    plain.base = Psn{0};
    plain.highest = Psn{0xFFFFFF};
    plain.credit_packets = 64;
    plain.credit_bytes = 65536;
    plain.judged = 3;
    plain.echo_valid = true;
    plain.ts_echo = 0x030405060708;
    plain.tr = 0x1112131415161718;
    plain.made = 1000;
    plain.token = 0x2122232425262728;
    plain.waited = waited;
    Bytes packet(kBthSize + bitmap_ack_start_size(plain) + kIcrcSize);
    Bth bth;
    bth.opcode = static_cast<std::uint8_t>(Control::kBitmapAck);
    bth.dest_qpn = 0x1234;
    bth.ack_request = true;
    bth.psn = plain.base;
    emit_bth(bth, packet.data());
    EXPECT_EQ(emit_bitmap_ack(plain, packet.data() + kBthSize), packet.size() - kBthSize - kIcrcSize);
    EXPECT_TRUE(is_cumulative_ack(packet));
    EXPECT_FALSE(is_cumulative_ack(ConstBytes{packet}.first(packet.size() - 4)));
    EXPECT_FALSE(is_cumulative_ack(packet + hex("00000000")));
    std::size_t alike = 0;
    for (std::size_t bit = 0; bit < packet.size() * 8; ++bit) {
      Bytes other = packet;
      other[bit / 8] ^= std::byte(1 << (bit % 8));
      if (!is_cumulative_ack(other)) continue;
      ++alike;
      const auto parsed = parse_packet(other);
      ASSERT_TRUE(parsed.ok()) << bit;
      const auto wanted = parse_bitmap_ack(parsed.value().payload, parsed.value().bth.psn);
      ASSERT_TRUE(wanted) << bit;
      const BitmapAck read = parse_cumulative_ack(other);
      EXPECT_EQ(read.responses || wanted->responses || wanted->operations_valid, false) << bit;
      EXPECT_EQ(wanted->bit_count + wanted->range_count, 0) << bit;
      Bytes ours(kBitmapAckSize + kAckWaitedSize), theirs(ours);
      EXPECT_EQ(emit_bitmap_ack(read, ours.data()), emit_bitmap_ack(*wanted, theirs.data())) << bit;
      EXPECT_EQ(to_hex(ours), to_hex(theirs)) << bit;
      EXPECT_EQ(read.base, wanted->base) << bit;
    }
    EXPECT_GT(alike, packet.size() * 4) << "most of it is numbers";
  }
}

// Bits up to base + 31, highest base + 1000: ranges behind the bits.
std::optional<BitmapAck> ack_with_ranges(const Bytes& ranges) {
  static Bytes body;
  body = kAckFixed + hex("40000000") + ranges;
  store_be24(body.data() + 9, 1100);
  store_be16(body.data() + 48, 32);
  return parse_bitmap_ack(body, Psn{100});
}

TEST(BitmapAck, RangesLieBehindTheBits) {
  const auto ack = ack_with_ranges(hex("00000084 00000001  ff00044c 00000001"));
  ASSERT_TRUE(ack);
  EXPECT_EQ(ack->bits.size(), 4u);
  EXPECT_EQ(ack->range(0), (AckRange{Psn{132}, 1}));
  EXPECT_EQ(ack->range(1), (AckRange{Psn{1100}, 1})) << "reserved bits are ignored";
  EXPECT_TRUE(ack_with_ranges(hex("00000084 000003c9")));   // all up to the highest
  EXPECT_FALSE(ack_with_ranges(hex("00000084 000003ca")));  // beyond it
  EXPECT_FALSE(ack_with_ranges(hex("00000083 00000001")));  // a bit reports it
  EXPECT_FALSE(ack_with_ranges(hex("00000084 00000000")));
  EXPECT_FALSE(ack_with_ranges(hex("00000084 ffffffff")));
  EXPECT_TRUE(ack_with_ranges({}));
  EXPECT_FALSE(ack_with_ranges(hex("00000084")));
  Bytes most;
  for (int i = 0; i < kAckRangesMax; ++i) most = most + hex("00000084 00000001");
  EXPECT_TRUE(ack_with_ranges(most));
  EXPECT_FALSE(ack_with_ranges(most + hex("00000084 00000001")));
  Bytes out(kBitmapAckSize + 4 + 16);
  const auto again = ack_with_ranges(hex("00000084 00000001  0000044c 00000001"));
  EXPECT_EQ(emit_bitmap_ack(*again, out.data()), out.size());
  EXPECT_EQ(to_hex(ConstBytes{out}.last(16)), "00000084000000010000044c00000001");
}

const Bytes kFfmFixed =
    hex("21 00abcd"         // responses
        "03 000010"         // path, highest
        "02 fffff8"         // cause: age; base
        "0009 0001"         // depth, repeat
        "0102030405060708"  // timestamp
        "2122232425262728"  // token
        "0000002a"          // serial
        "0002 0107");       // gaps, gaps promoted
const Bytes kFfmGaps =
    hex("12fffff8 00000001"    // reported once before; age
        "f1fffffe 00000012");  // at least 15 times; depth

TEST(Ffm, RoundTripAcrossTheWrap) {
  ASSERT_EQ(kFfmFixed.size(), kFfmSize);
  const Bytes body = kFfmFixed + kFfmGaps;
  const auto ffm = parse_ffm(body, Psn{0xFFFFF8});
  ASSERT_TRUE(ffm);
  EXPECT_TRUE(ffm->responses);
  EXPECT_EQ(ffm->source_qpn, 0xABCDu);
  EXPECT_EQ(ffm->path, 3);
  EXPECT_EQ(ffm->highest, Psn{0x10});
  EXPECT_EQ(ffm->cause, 2);
  EXPECT_EQ(ffm->base, Psn{0xFFFFF8});
  EXPECT_EQ(ffm->depth, 9);
  EXPECT_EQ(ffm->repeat, 1);
  EXPECT_EQ(ffm->timestamp, 0x0102030405060708u);
  EXPECT_EQ(ffm->serial, 42u);
  EXPECT_EQ(ffm->token, 0x2122'2324'2526'2728u);
  EXPECT_EQ(ffm->promoted, 263);
  ASSERT_EQ(ffm->gap_count, 2);
  EXPECT_EQ(ffm->gap(0), (FfmGap{Psn{0xFFFFF8}, 1, /*cause=*/2, /*repeat=*/1}));
  EXPECT_EQ(ffm->gap(1), (FfmGap{Psn{0xFFFFFE}, 18, /*cause=*/1, /*repeat=*/15}));
  Bytes out(body.size());
  EXPECT_EQ(emit_ffm(*ffm, out.data()), body.size());
  EXPECT_EQ(to_hex(out), to_hex(body));
  Bytes gap(kFfmGapSize);
  emit_ffm_gap({Psn{0xFFFFFE}, 18, 1, 200}, gap.data());
  EXPECT_EQ(to_hex(gap), "f1fffffe00000012") << "saturates";
}

bool ffm_accepted(Psn base, Psn highest, FfmGap gap) {
  Bytes body = kFfmFixed + Bytes(kFfmGapSize);
  store_be24(body.data() + 5, highest.value());
  store_be24(body.data() + 9, base.value());
  store_be16(body.data() + 36, 1);
  emit_ffm_gap(gap, body.data() + kFfmSize);
  return parse_ffm(body, gap.start).has_value();
}

TEST(Ffm, GapsLieBetweenBaseAndHighest) {
  EXPECT_TRUE(ffm_accepted(Psn{1003}, Psn{1012}, {Psn{1003}, 1}));
  EXPECT_TRUE(ffm_accepted(Psn{1003}, Psn{1012}, {Psn{1003}, 9}));    // up to just before the highest
  EXPECT_FALSE(ffm_accepted(Psn{1003}, Psn{1012}, {Psn{1003}, 10}));  // the highest itself has been received
  EXPECT_FALSE(ffm_accepted(Psn{1003}, Psn{1012}, {Psn{1002}, 1}));   // before the base: complete
  EXPECT_FALSE(ffm_accepted(Psn{1003}, Psn{1012}, {Psn{1003}, 0}));
  EXPECT_FALSE(ffm_accepted(Psn{1003}, Psn{1012}, {Psn{1012}, 1}));
  EXPECT_FALSE(ffm_accepted(Psn{1003}, Psn{1002}, {Psn{1003}, 1}));  // nothing received behind it
  EXPECT_FALSE(ffm_accepted(Psn{1003}, Psn{1012}, {Psn{1003}, 0xFFFFFFFF}));
  EXPECT_FALSE(ffm_accepted(Psn{1003}, Psn{1012}, {Psn{1003}, 0x1000001}));  // one, when cut to 24 bits
  EXPECT_TRUE(ffm_accepted(Psn{0}, Psn{0x7FFFFF}, {Psn{0}, 0x7FFFFF}));
  EXPECT_FALSE(ffm_accepted(Psn{0}, Psn{0x800000}, {Psn{0}, 0x7FFFFF}));  // half the circle away is behind
}

TEST(Ffm, EveryGapIsChecked) {
  Bytes body = kFfmFixed + kFfmGaps;
  store_be32(body.data() + kFfmSize + kFfmGapSize + 4, 19);  // second gap now ends on the highest
  EXPECT_FALSE(parse_ffm(body, Psn{0xFFFFF8}));
}

TEST(Ffm, SizeCountAndPsnMustAgree) {
  const Bytes body = kFfmFixed + kFfmGaps;
  EXPECT_FALSE(parse_ffm(body, Psn{0xFFFFF9}));  // BTH names another gap
  EXPECT_FALSE(parse_ffm(body + hex("00fffff900000001"), Psn{0xFFFFF8}));
  EXPECT_FALSE(parse_ffm(ConstBytes{body}.first(body.size() - 1), Psn{0xFFFFF8}));
  EXPECT_FALSE(parse_ffm(ConstBytes{body}.first(kFfmSize - 1), Psn{0xFFFFF8}));
  EXPECT_FALSE(parse_ffm({}, Psn{0}));
  Bytes none = kFfmFixed;
  store_be16(none.data() + 36, 0);
  EXPECT_FALSE(parse_ffm(none, Psn{0xFFFFF8}));
}

TEST(Ffm, NoMoreGapsThanTheMaximum) {
  for (const std::uint16_t count : {kFfmGapsMax, static_cast<std::uint16_t>(kFfmGapsMax + 1)}) {
    Bytes body = kFfmFixed;
    store_be16(body.data() + 36, count);
    for (std::uint16_t i = 0; i < count; ++i) body = body + hex("00fffff8 00000001");
    EXPECT_EQ(parse_ffm(body, Psn{0xFFFFF8}).has_value(), count == kFfmGapsMax) << count;
  }
}

}  // namespace
}  // namespace brdma::wire
