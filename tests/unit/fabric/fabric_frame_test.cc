// Classification of frames, lengths and checksums of datagrams, and corruption: one bit that UDP does not notice.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "fabric/routing/frame.h"

namespace brdma::fabric {
namespace {

using Bytes = std::vector<std::byte>;

Bytes from_hex(std::string_view hex) {
  Bytes out;
  for (std::size_t i = 0; i + 1 < hex.size();) {
    if (hex[i] == ' ') {
      ++i;
      continue;
    }
    out.push_back(static_cast<std::byte>(std::stoi(std::string{hex.substr(i, 2)}, nullptr, 16)));
    i += 2;
  }
  return out;
}

constexpr std::string_view kMacs = "02000a4d0002 02000a4d0001 ";
Bytes v4_frame(std::size_t payload, std::uint16_t port = kRocePort) {
  Bytes frame = from_hex(std::string{kMacs} + "0800 45020000 00004000 40110000 0a4d0001 0a4d0002 c000 0000 00000000");
  store_be16(&frame[36], port);
  for (std::size_t i = 0; i < payload; ++i) frame.push_back(static_cast<std::byte>(i * 7 + 1));
  return frame;
}
Bytes v6_frame(std::size_t payload) {
  Bytes frame = from_hex(std::string{kMacs} +
                         "86dd 60000000 00001140 fd770000000000000000000000000001 fd770000000000000000000000000002"
                         "c000 12b7 00000000");
  for (std::size_t i = 0; i < payload; ++i) frame.push_back(static_cast<std::byte>(i * 5 + 3));
  return frame;
}

// The Internet checksum's sum, straight from its definition; over a valid header or datagram it is 0xFFFF.
std::uint16_t internet_sum(ConstBytes bytes, std::uint32_t start = 0) {
  std::uint32_t sum = start;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    sum += std::to_integer<std::uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}
// Completes a partial checksum over the UDP header and payload, as a network interface does.
void complete_checksum(Bytes& frame, const FrameInfo& info) {
  const std::uint16_t sum = internet_sum(ConstBytes{frame}.subspan(info.udp_offset));
  store_be16(&frame[info.udp_offset + 6], static_cast<std::uint16_t>(~sum));
}
bool udp_checksum_is_right(const Bytes& frame, const FrameInfo& info) {
  const std::size_t address = info.is_ipv6 ? 22 : 26;
  const std::size_t address_size = info.is_ipv6 ? 32 : 8;
  const std::uint32_t pseudo = internet_sum(ConstBytes{frame}.subspan(address, address_size)) + 17u +
                               static_cast<std::uint32_t>(frame.size() - info.udp_offset);
  return internet_sum(ConstBytes{frame}.subspan(info.udp_offset), pseudo) == 0xFFFF;
}

TEST(FabricFrame, RoceOverIpv4IsSeen) {
  const Bytes frame = v4_frame(100);
  const auto info = inspect_frame(frame);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->destination, 0x02000A4D0002u);
  EXPECT_EQ(info->source, 0x02000A4D0001u);
  EXPECT_EQ(info->kind, FrameKind::kRoce);
  EXPECT_TRUE(info->is_udp);
  EXPECT_FALSE(info->is_ipv6);
  EXPECT_EQ(info->udp_offset, 34);
  EXPECT_EQ(info->payload_offset, 42);
}

TEST(FabricFrame, RoceOverIpv6IsSeen) {
  const auto info = inspect_frame(v6_frame(10));
  ASSERT_TRUE(info);
  EXPECT_EQ(info->kind, FrameKind::kRoce);
  EXPECT_TRUE(info->is_ipv6);
  EXPECT_EQ(info->payload_offset, 62);
}

TEST(FabricFrame, OtherTrafficIsRecognized) {
  EXPECT_EQ(inspect_frame(v4_frame(10, 4792))->kind, FrameKind::kIp);
  Bytes tcp = v4_frame(40);
  tcp[23] = std::byte{6};
  EXPECT_EQ(inspect_frame(tcp)->kind, FrameKind::kIp);
  EXPECT_FALSE(inspect_frame(tcp)->is_udp);
  Bytes options = v4_frame(40);
  options[14] = std::byte{0x46};
  EXPECT_EQ(inspect_frame(options)->kind, FrameKind::kIp);
  for (const std::uint16_t fragment : {std::uint16_t{0x2000}, std::uint16_t{0x0001}, std::uint16_t{0x2010}}) {
    Bytes part = v4_frame(40);
    store_be16(&part[20], fragment);
    EXPECT_EQ(inspect_frame(part)->kind, FrameKind::kIp);
    EXPECT_FALSE(inspect_frame(part)->is_udp);
  }
  EXPECT_EQ(inspect_frame(from_hex("ffffffffffff 02000a4d0001 0806 0001"))->kind, FrameKind::kControl);
  Bytes solicitation = v6_frame(10);
  solicitation[20] = std::byte{58};
  solicitation[54] = std::byte{135};
  EXPECT_EQ(inspect_frame(solicitation)->kind, FrameKind::kControl);
  solicitation[54] = std::byte{128};  // echo request
  EXPECT_EQ(inspect_frame(solicitation)->kind, FrameKind::kIp);
}

TEST(FabricFrame, TruncatedFramesAreNeverOverread) {
  for (const Bytes& whole : {v4_frame(4), v6_frame(4)}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const Bytes cut{whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)};  // the sanitizer's boundary
      const auto info = inspect_frame(cut);
      EXPECT_EQ(info.has_value(), size >= kEthernetHeaderSize);
      if (info && info->is_udp) {
        EXPECT_LE(info->payload_offset, size);
      }
    }
  }
}

TEST(FabricFrame, DatagramSizeGivesLengthsAndChecksums) {
  for (Bytes frame : {v4_frame(1031), v6_frame(1031), v4_frame(0), v6_frame(1)}) {
    const FrameInfo info = *inspect_frame(frame);
    set_datagram_size(frame, info, frame.size() - info.payload_offset, 0xBEEF);
    if (!info.is_ipv6) {
      EXPECT_EQ(load_be16(&frame[16]), frame.size() - 14);
      EXPECT_EQ(load_be16(&frame[18]), 0xBEEF);
      EXPECT_EQ(internet_sum(ConstBytes{frame}.subspan(14, 20)), 0xFFFF);
      EXPECT_EQ(identification(frame, info), 0xBEEF);
    } else {
      EXPECT_EQ(load_be16(&frame[18]), frame.size() - 54);
      EXPECT_EQ(identification(frame, info), 0);
    }
    EXPECT_EQ(load_be16(&frame[info.udp_offset + 4]), frame.size() - info.udp_offset);
    complete_checksum(frame, info);
    EXPECT_TRUE(udp_checksum_is_right(frame, info));
  }
}

TEST(FabricFrame, SameFlowLooksPastLengthsIdentificationAndChecksums) {
  for (const Bytes& frame : {v4_frame(10), v6_frame(10)}) {
    const FrameInfo info = *inspect_frame(frame);
    Bytes resized = frame;
    set_datagram_size(resized, info, 500, 9);
    EXPECT_TRUE(same_flow(frame, resized, info));
    for (std::size_t at = 0; at < info.udp_offset + 4u; ++at) {
      const bool varies = info.is_ipv6 ? (at == 18 || at == 19) : ((at >= 16 && at < 20) || at == 24 || at == 25);
      Bytes other = frame;
      other[at] ^= std::byte{1};
      EXPECT_EQ(same_flow(frame, other, info), varies) << "byte " << at;
    }
  }
}

TEST(FabricFrame, CorruptionFlipsOnePayloadBitAndMendsACompleteChecksum) {
  Random random{11};
  for (Bytes sound : {v4_frame(100), v6_frame(101), v4_frame(1)}) {
    const FrameInfo info = *inspect_frame(sound);
    set_datagram_size(sound, info, sound.size() - info.payload_offset, 0);
    complete_checksum(sound, info);
    for (int i = 0; i < 5'000; ++i) {
      Bytes frame = sound;
      corrupt_frame(frame, info, true, random.next());
      int flipped = 0;
      for (std::size_t at = 0; at < frame.size(); ++at) {
        if (at >= info.udp_offset + 6u && at < info.udp_offset + 8u) continue;  // the checksum
        const int bits = std::popcount(std::to_integer<unsigned>(frame[at] ^ sound[at]));
        if (bits != 0) {
          EXPECT_GE(at, info.payload_offset);
        }
        flipped += bits;
      }
      ASSERT_EQ(flipped, 1);
      ASSERT_TRUE(udp_checksum_is_right(frame, info)) << i;
    }
  }
}

TEST(FabricFrame, CorruptionLeavesPartialAndAbsentChecksumsAlone) {
  Bytes frame = v4_frame(50);
  const FrameInfo info = *inspect_frame(frame);
  corrupt_frame(frame, info, true, 77);
  EXPECT_EQ(load_be16(&frame[40]), 0);  // none was given
  store_be16(&frame[40], 0x1234);
  corrupt_frame(frame, info, false, 78);
  EXPECT_EQ(load_be16(&frame[40]), 0x1234);
  Bytes empty = v4_frame(0);
  corrupt_frame(empty, info, true, 1);
  EXPECT_EQ(empty, v4_frame(0));
}

}  // namespace
}  // namespace brdma::fabric
