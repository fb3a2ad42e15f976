// Parsing frames: values from the headers, and every frame that is slightly invalid.
#include "io/xdp/xdp_frame.h"

#include <gtest/gtest.h>

#include "frames.h"

namespace brdma::test {
namespace {

using io::parse_roce_frame;

TEST(XdpFrame, SaysWhatTheHeadersSay) {
  Datagram datagram;
  auto frame = make_frame({.payload = 64});
  frame[15] = std::byte{0x2B};  // DSCP 10, congestion experienced
  ASSERT_TRUE(parse_roce_frame(frame, datagram));
  EXPECT_EQ(datagram.source, IpAddress::v4(10, 9, 0, 1));
  EXPECT_EQ(datagram.destination, IpAddress::v4(10, 9, 0, 2));
  EXPECT_EQ(datagram.source_port, 0xC000);
  EXPECT_EQ(datagram.traffic_class, 0x2B);
  EXPECT_TRUE(datagram.ip_id_known);
  EXPECT_EQ(datagram.ip_id, 0x1234);
  EXPECT_EQ(datagram.bytes.size(), 64u);
  EXPECT_EQ(datagram.bytes.data(), frame.data() + 42);

  frame = make_frame({.ipv6 = true, .payload = 64});
  frame[14] = std::byte{0x6A};  // traffic class 0xA5
  frame[15] = std::byte{0x50};
  ASSERT_TRUE(parse_roce_frame(frame, datagram));
  EXPECT_EQ(datagram.source.bytes[15], 1);
  EXPECT_EQ(datagram.destination.bytes[15], 2);
  EXPECT_EQ(datagram.traffic_class, 0xA5);
  EXPECT_FALSE(datagram.ip_id_known);
  EXPECT_EQ(datagram.bytes.data(), frame.data() + 62);
}

// Ethernet pads short frames.
TEST(XdpFrame, CutsOffWhatIsBehindTheDatagram) {
  for (const bool ipv6 : {false, true}) {
    auto frame = make_frame({.ipv6 = ipv6, .payload = 16});
    frame.resize(frame.size() + 20, std::byte{0});
    Datagram datagram;
    ASSERT_TRUE(parse_roce_frame(frame, datagram));
    EXPECT_EQ(datagram.bytes.size(), 16u);
  }
}

TEST(XdpFrame, RefusesEveryFrameThatIsCutShort) {
  for (const bool ipv6 : {false, true}) {
    const auto frame = make_frame({.ipv6 = ipv6, .payload = 24});
    Datagram datagram;
    for (std::size_t size = 0; size < frame.size(); ++size) {
      // In memory of its own, so that a sanitizer detects a byte too far.
      const std::vector<std::byte> cut(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_FALSE(parse_roce_frame(cut, datagram)) << size;
    }
  }
}

TEST(XdpFrame, RefusesWhatIsNoRocePacket) {
  Datagram datagram;
  EXPECT_FALSE(parse_roce_frame(make_frame({.port = 4792}), datagram));
  const auto with = [&](std::size_t at, std::uint8_t value, bool ipv6 = false) {
    auto frame = make_frame({.ipv6 = ipv6});
    store_u8(&frame[at], value);
    return parse_roce_frame(frame, datagram);
  };
  EXPECT_TRUE(with(22, 64));        // hop limit: any
  EXPECT_FALSE(with(12, 0x81));     // VLAN
  EXPECT_FALSE(with(14, 0x46));     // options
  EXPECT_FALSE(with(20, 0x20));     // more fragments
  EXPECT_FALSE(with(21, 0x01));     // a later fragment
  EXPECT_FALSE(with(23, 6));        // TCP
  EXPECT_FALSE(with(39, 0xFF));     // UDP length
  EXPECT_FALSE(with(17, 0x10));     // IP length
  EXPECT_FALSE(with(20, 6, true));  // IPv6, TCP
  EXPECT_FALSE(with(14, 0x40, true));
  EXPECT_FALSE(with(19, 0xFF, true));
}

}  // namespace
}  // namespace brdma::test
