// tests design ER-15: the lab's switch rewrites an acknowledgement, and each checksum that covers the change is right
// when the packet arrives: full, none and partial, IPv4 and IPv6. Checked by sums of this file's own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "fabric/routing/frame.h"
#include "feedback/ip_actions.h"
#include "support/translated_flow.h"

namespace brdma::lab {
namespace {

using test::TranslatedFlow;

constexpr Instant kNow = Instant::from_ns(1'000'000'000);
constexpr std::size_t kIpStart = 14, kIpv4HeaderSize = 20, kIpv6HeaderSize = 40;

enum class Checksum : std::uint8_t { kFull, kNone, kPartial };

// The one's complement sum of RFC 1071.
std::uint16_t sum_of(ConstBytes bytes, std::uint32_t sum = 0) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sum += static_cast<std::uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
    sum = (sum & 0xFFFF) + (sum >> 16);
  }
  return static_cast<std::uint16_t>(sum);
}

struct Case {
  bool is_ipv6 = false;
  Checksum checksum = Checksum::kFull;
};

class RewrittenPacket : public testing::TestWithParam<Case> {
 protected:
  RewrittenPacket() {
    if (GetParam().is_ipv6) {
      flow.sender.bytes = {0xFD, 0x77};
      flow.receiver.bytes = flow.sender.bytes;
      flow.sender.bytes[15] = 1;
      flow.receiver.bytes[15] = 2;
    }
    fabric::NetworkConfig config;
    config.ecn_to_rtt.emplace();
    actions.configure(config, config.ecn_to_rtt->increment);
  }

  [[nodiscard]] MutableBytes frame_of(const SwitchPacket& packet) {
    return pool.buffer(packet.buffer).first(packet.size);
  }
  [[nodiscard]] static std::size_t udp_offset() {
    return kIpStart + (GetParam().is_ipv6 ? kIpv6HeaderSize : kIpv4HeaderSize);
  }
  [[nodiscard]] MutableBytes checksum_field(const SwitchPacket& packet) {
    return frame_of(packet).subspan(udp_offset() + fabric::kUdpChecksumOffset, 2);
  }
  // Of addresses, protocol and the length of the datagram.
  [[nodiscard]] std::uint16_t pseudo_sum(const SwitchPacket& packet) {
    const MutableBytes frame = frame_of(packet);
    const auto length = static_cast<std::uint32_t>(frame.size() - udp_offset());
    return sum_of(GetParam().is_ipv6 ? frame.subspan(kIpStart + 8, 32) : frame.subspan(kIpStart + 12, 8), 17 + length);
  }

  SwitchPacket make(const IpAddress& from, const IpAddress& to, const TranslatedFlow::Bytes& payload) {
    SwitchPacket packet;
    packet.buffer = pool.take().value();
    packet.is_ipv6 = GetParam().is_ipv6;
    packet.udp_offset = static_cast<std::uint16_t>(udp_offset());
    packet.size = static_cast<std::uint16_t>(udp_offset() + 8 + payload.size());
    const MutableBytes frame = frame_of(packet);
    std::fill(frame.begin(), frame.end(), std::byte{0});
    store_be16(&frame[12], packet.is_ipv6 ? 0x86DD : 0x0800);
    (void)fabric::write_roce_headers(from, to, flow.source_port, payload.size(), &frame[kIpStart]);
    if (!packet.is_ipv6) {
      store_be16(&frame[kIpStart + 4], 0xBEEF);
      store_be16(&frame[kIpStart + 10], static_cast<std::uint16_t>(~sum_of(frame.subspan(kIpStart, kIpv4HeaderSize))));
    }
    std::memcpy(&frame[udp_offset() + 8], payload.data(), payload.size());
    set_checksum(packet);
    return packet;
  }
  void set_checksum(SwitchPacket& packet) {
    std::byte* const field = checksum_field(packet).data();
    if (GetParam().checksum == Checksum::kNone) return;
    store_be16(field, pseudo_sum(packet));
    packet.partial_checksum = GetParam().checksum == Checksum::kPartial;
    packet.checksum_start = packet.udp_offset;
    packet.checksum_offset = fabric::kUdpChecksumOffset;
    if (!packet.partial_checksum) complete(packet);
  }
  // As a network interface does it.
  void complete(const SwitchPacket& packet) {
    std::byte* const field = checksum_field(packet).data();
    const auto sum = static_cast<std::uint16_t>(~sum_of(frame_of(packet).subspan(udp_offset())));
    store_be16(field, sum == 0 ? std::uint16_t{0xFFFF} : sum);
  }

  // The acknowledgement behind `marked` of 8 data packets.
  SwitchPacket acknowledge(int marked) {
    for (int i = 0; i < 8; ++i) {
      SwitchPacket packet = make(flow.sender, flow.receiver, flow.data());
      actions.enqueued(packet, i < marked, kNow);
      pool.give_back(packet.buffer);
    }
    SwitchPacket packet = make(flow.receiver, flow.sender, flow.acknowledgement());
    before = {frame_of(packet).begin(), frame_of(packet).end()};
    actions.enqueued(packet, false, kNow);
    return packet;
  }

  TranslatedFlow flow;
  fabric::PacketPool pool{4, 2048};
  IpActions actions{pool};
  TranslatedFlow::Bytes before;
};

TEST_P(RewrittenPacket, ArrivesWithRightChecksums) {
  SwitchPacket packet = acknowledge(5);
  const MutableBytes frame = frame_of(packet);
  const ConstBytes payload = frame.subspan(udp_offset() + 8);
  EXPECT_EQ(TranslatedFlow::read(payload).tr, 501'000u);
  EXPECT_TRUE(flow.icrc_holds(payload, flow.receiver, flow.sender));
  if (GetParam().checksum == Checksum::kNone) {
    EXPECT_EQ(load_be16(checksum_field(packet).data()), 0) << "a packet without a checksum gets none";
    EXPECT_FALSE(packet.partial_checksum);
  } else {
    if (packet.partial_checksum) {
      EXPECT_EQ(packet.checksum_start, udp_offset());
      EXPECT_EQ(packet.checksum_offset, fabric::kUdpChecksumOffset);
      complete(packet);
    }
    EXPECT_EQ(sum_of(frame.subspan(udp_offset()), pseudo_sum(packet)), 0xFFFF);
  }
  const std::uint16_t header = sum_of(frame.subspan(kIpStart, kIpv4HeaderSize));
  EXPECT_TRUE(GetParam().is_ipv6 || header == 0xFFFF);
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(udp_offset() + 6), frame.begin()))
      << "other header fields stay as they were, the identification as well";
}

TEST_P(RewrittenPacket, WithoutCongestionNotAByteChanges) {
  const SwitchPacket packet = acknowledge(1);
  const MutableBytes frame = frame_of(packet);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), frame.begin(), frame.end()));
  EXPECT_EQ(packet.partial_checksum, GetParam().checksum == Checksum::kPartial);
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const std::string version = info.param.is_ipv6 ? "Ipv6" : "Ipv4";
  switch (info.param.checksum) {
    case Checksum::kFull:
      return version + "Full";
    case Checksum::kNone:
      return version + "None";
    case Checksum::kPartial:
      return version + "Partial";
  }
  return {};
}
INSTANTIATE_TEST_SUITE_P(Checksums, RewrittenPacket,
                         testing::Values(Case{false, Checksum::kFull}, Case{false, Checksum::kNone},
                                         Case{false, Checksum::kPartial}, Case{true, Checksum::kFull},
                                         Case{true, Checksum::kNone}, Case{true, Checksum::kPartial}),
                         name_of);

}  // namespace
}  // namespace brdma::lab
