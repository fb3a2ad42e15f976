// A switch's changes to IP headers: the checksum is right afterwards, and nothing else has changed.
#include <gtest/gtest.h>

#include <array>

#include "base/random.h"
#include "fabric/routing/five_tuple.h"
#include "fabric/routing/frame.h"
#include "fabric/routing/ip_header.h"
#include "fabric/switch/ecn_marks.h"

namespace brdma::fabric {
namespace {

using Header = std::array<std::byte, 48>;

std::uint32_t checksum(const Header& header) {  // 0xFFFF where it is right
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < 20; i += 2) sum += load_be16(&header[i]);
  sum = (sum & 0xFFFF) + (sum >> 16);
  return (sum & 0xFFFF) + (sum >> 16);
}

Header ipv4() {
  Header header{};
  (void)write_icmp_header(IpAddress::v4(10, 77, 0, 1), IpAddress::v4(10, 77, 0, 2), 28, header.data());
  return header;
}
Header ipv6(std::uint8_t traffic_class) {
  Header header{};
  store_be32(header.data(), 0x6000'0000u | std::uint32_t{traffic_class} << 20 | 0xABCDE);
  store_u8(&header[7], 2);
  return header;
}

TEST(IpHeader, EcnIsSetAndTheChecksumMended) {
  Random random{1};
  for (int i = 0; i < 1000; ++i) {
    Header header = ipv4();
    store_u8(&header[1], static_cast<std::uint8_t>(random.next()));
    store_be16(&header[4], static_cast<std::uint16_t>(random.next()));
    store_be16(&header[10], 0);
    store_be16(&header[10], static_cast<std::uint16_t>(~checksum(header)));
    ASSERT_EQ(checksum(header), 0xFFFFu);
    const Header before = header;
    const auto ecn = static_cast<std::uint8_t>(random.below(4));
    set_ecn(header, ecn);
    EXPECT_EQ(checksum(header), 0xFFFFu);
    EXPECT_EQ(ecn_of(traffic_class(header)), ecn);
    EXPECT_EQ(dscp_of(traffic_class(header)), dscp_of(traffic_class(before)));
    ASSERT_TRUE(spend_hop(header));
    EXPECT_EQ(checksum(header), 0xFFFFu);
    EXPECT_EQ(load_u8(&header[8]), 63);
  }
}

TEST(IpHeader, Ipv6HasTheClassBetweenVersionAndFlowLabel) {
  Header header = ipv6(0xB8);
  EXPECT_EQ(dscp_of(traffic_class(header)), 46);
  set_ecn(header, kCongested);
  EXPECT_EQ(load_be32(header.data()), 0x6BBA'BCDEu);
  EXPECT_TRUE(spend_hop(header));
  EXPECT_FALSE(spend_hop(header));
  EXPECT_EQ(load_u8(&header[7]), 1);
}

TEST(IpHeader, TheLastHopIsNotSpent) {
  for (const std::uint8_t left : {std::uint8_t{0}, std::uint8_t{1}}) {
    Header header = ipv4();
    store_u8(&header[8], left);
    const Header before = header;
    EXPECT_FALSE(spend_hop(header));
    EXPECT_EQ(header, before);
  }
}

TEST(EcnMarks, OnlyWhoKnowsEcnIsMarkedAndATranslatedMarkIsTakenOff) {
  EcnMarks marks;
  EXPECT_EQ(marks.leave_with(kNotEct, true, false), kNotEct);
  EXPECT_EQ(marks.leave_with(1, true, false), kCongested);
  EXPECT_EQ(marks.leave_with(2, true, false), kCongested);
  EXPECT_EQ(marks.leave_with(2, false, false), 2);
  EXPECT_EQ(marks.leave_with(kCongested, false, false), kCongested);
  EXPECT_EQ(marks.leave_with(kCongested, true, false), kCongested);
  EXPECT_EQ(marks.leave_with(kCongested, false, true), kNotEct);
  EXPECT_EQ(marks.set, 2u);
  EXPECT_EQ(marks.not_able, 1u);
  EXPECT_EQ(marks.taken_over, 1u);
}

TEST(FiveTuple, IsReadFromUdpAndFromWhatHasNoPorts) {
  std::array<std::byte, 60> packet{};
  (void)write_roce_headers(IpAddress::v4(10, 0, 0, 1), IpAddress::v4(10, 0, 0, 2), 50'000, 20, packet.data());
  const auto flow = five_tuple(packet);
  ASSERT_TRUE(flow);
  EXPECT_EQ(*flow, (FiveTuple{IpAddress::v4(10, 0, 0, 1), IpAddress::v4(10, 0, 0, 2), 50'000, 4791, 17}));
  store_be16(&packet[6], 0x2000);  // a fragment
  EXPECT_EQ(five_tuple(packet)->source_port, 0);
  const Header icmp = ipv4();
  EXPECT_EQ(five_tuple(icmp)->protocol, 1);
  EXPECT_EQ(five_tuple(icmp)->destination_port, 0);
  Header six = ipv6(0);
  EXPECT_EQ(five_tuple(six)->source, IpAddress{});
  for (std::size_t size = 0; size < 20; ++size) EXPECT_FALSE(five_tuple(ConstBytes{icmp}.first(size)));
  for (std::size_t size = 0; size < 40; ++size) EXPECT_FALSE(five_tuple(ConstBytes{six}.first(size)));
  store_u8(six.data(), 0x50);
  EXPECT_FALSE(five_tuple(six));
}

}  // namespace
}  // namespace brdma::fabric
