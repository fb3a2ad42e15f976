// Forged ICMP changes nothing: packets still leave, and the route keeps its MTU.
#include <gtest/gtest.h>
#include <linux/rtnetlink.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "io/system/file_descriptor.h"
#include "io/udp/socket_address.h"
#include "io/udp/transmit_socket.h"
#include "private_network.h"
#include "test_lease.h"
#include "udp/socket_group.h"

namespace brdma::io {
namespace {

using test::SecondNetwork;

constexpr IpAddress kHere4 = IpAddress::v4(10, 9, 0, 1), kThere4 = IpAddress::v4(10, 9, 0, 2);
constexpr IpAddress kHere6{{0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
constexpr IpAddress kThere6{{0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
constexpr std::uint16_t kMtuClaimed = 1300, kLarge = 8000;

struct Ports {
  std::uint16_t source, destination;
};

std::uint16_t checksum(ConstBytes bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) sum += load_be16(bytes.data() + i);
  sum = (sum >> 16) + (sum & 0xFFFF);
  return static_cast<std::uint16_t>(~(sum + (sum >> 16)));
}

// "Your packet from here to there was too large", or "nobody listens there".
std::vector<std::byte> forged4(Ports ports, std::uint8_t code) {
  std::vector<std::byte> message(8 + 28);
  message[0] = std::byte{ICMP_DEST_UNREACH};
  message[1] = std::byte{code};
  if (code == ICMP_FRAG_NEEDED) store_be16(&message[6], kMtuClaimed);
  std::byte* const ip = &message[8];
  store_be16(ip, 0x4500);
  store_be16(ip + 2, 8028);
  store_be16(ip + 6, 0x4000);
  ip[8] = std::byte{64};
  ip[9] = std::byte{17};
  store_be32(ip + 12, 0x0A090001);
  store_be32(ip + 16, 0x0A090002);
  store_be16(ip + 20, ports.source);
  store_be16(ip + 22, ports.destination);
  store_be16(ip + 24, 8008);
  store_be16(&message[2], checksum(message));
  return message;
}

std::vector<std::byte> forged6(Ports ports) {
  std::vector<std::byte> message(8 + 48);
  message[0] = std::byte{ICMP6_PACKET_TOO_BIG};  // the kernel makes the checksum
  store_be32(&message[4], kMtuClaimed);
  std::byte* const ip = &message[8];
  ip[0] = std::byte{0x60};
  store_be16(ip + 4, 8008);
  ip[6] = std::byte{17};
  ip[7] = std::byte{64};
  std::memcpy(ip + 8, kHere6.bytes.data(), 16);
  std::memcpy(ip + 24, kThere6.bytes.data(), 16);
  store_be16(ip + 40, ports.source);
  store_be16(ip + 42, ports.destination);
  store_be16(ip + 44, 8008);
  return message;
}

// Sent from the second network.
void forge(const SecondNetwork& network, bool v4, const std::vector<std::byte>& message) {
  const SecondNetwork::Visit visit{network};
  const FileDescriptor fd{
      ::socket(v4 ? AF_INET : AF_INET6, SOCK_RAW | SOCK_CLOEXEC, v4 ? int{IPPROTO_ICMP} : int{IPPROTO_ICMPV6})};
  ASSERT_TRUE(fd.valid());
  sockaddr_in to4{};
  to4.sin_family = AF_INET;
  to4.sin_addr = to_in_addr(kHere4);
  sockaddr_in6 to6{};
  to6.sin6_family = AF_INET6;
  to6.sin6_addr = to_in6_addr(kHere6);
  const auto* const to = v4 ? reinterpret_cast<const sockaddr*>(&to4) : reinterpret_cast<const sockaddr*>(&to6);
  ASSERT_EQ(::sendto(fd.get(), message.data(), message.size(), 0, to, v4 ? sizeof to4 : sizeof to6),
            static_cast<ssize_t>(message.size()));
}

// The route's MTU, by the system's own account.
int route_mtu(bool v4) {
  const FileDescriptor fd{::socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  sockaddr_in to4{};
  to4.sin_family = AF_INET;
  to4.sin_port = htons(9);
  to4.sin_addr = to_in_addr(kThere4);
  sockaddr_in6 to6{};
  to6.sin6_family = AF_INET6;
  to6.sin6_port = htons(9);
  to6.sin6_addr = to_in6_addr(kThere6);
  const auto* const to = v4 ? reinterpret_cast<const sockaddr*>(&to4) : reinterpret_cast<const sockaddr*>(&to6);
  EXPECT_EQ(::connect(fd.get(), to, v4 ? sizeof to4 : sizeof to6), 0);
  int mtu = 0;
  socklen_t size = sizeof mtu;
  EXPECT_EQ(::getsockopt(fd.get(), v4 ? int{IPPROTO_IP} : int{IPPROTO_IPV6}, v4 ? IP_MTU : IPV6_MTU, &mtu, &size), 0);
  return mtu;
}

// Large packets, one at a time; returns the number of refused ones.
unsigned send_large(TransmitSocket& sender, bool v4, unsigned count) {
  const std::vector<std::byte> bytes(kLarge);
  const Slice slice{bytes.data(), bytes.size()};
  Transmit batch;
  batch.source = v4 ? kHere4 : kHere6;
  batch.destination = v4 ? kThere4 : kThere6;
  batch.segments = 1;
  batch.segment_bytes = kLarge;
  batch.bytes = kLarge;
  batch.slices = {&slice, 1};
  unsigned refused = 0;
  for (unsigned i = 0; i < count; ++i) refused += sender.send(batch).refused;
  return refused;
}

struct Way {
  bool v4, connected;
};
class ForgedIcmp : public testing::TestWithParam<Way> {};

TEST_P(ForgedIcmp, NeitherStopsASenderNorLowersThePathMtu) {
  const auto [v4, connected] = GetParam();
  const SecondNetwork network;
  if (!network.ready()) GTEST_SKIP() << "no second network";
  auto opened = TransmitSocket::open({.connect = connected});
  ASSERT_TRUE(opened.ok());
  TransmitSocket sender = std::move(opened).value();
  constexpr unsigned kSome = 2 * PeerSockets::kBatchesToConnect;
  ASSERT_EQ(send_large(sender, v4, kSome), 0u);
  ASSERT_EQ(sender.connected(), connected ? 1u : 0u);
  const int mtu_before = route_mtu(v4);
  for (int i = 0; i < 3; ++i) {
    const Ports ports{sender.port(), 4791};
    forge(network, v4, v4 ? forged4(ports, ICMP_FRAG_NEEDED) : forged6(ports));
    if (v4) forge(network, v4, forged4(ports, ICMP_PORT_UNREACH));
    EXPECT_EQ(send_large(sender, v4, kSome), 0u);
    EXPECT_EQ(sender.connected(), connected ? 1u : 0u);
    EXPECT_EQ(route_mtu(v4), mtu_before);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, ForgedIcmp,
                         testing::Values(Way{true, false}, Way{true, true}, Way{false, false}, Way{false, true}),
                         [](const auto& each) {
                           return std::string{each.param.v4 ? "Ip4" : "Ip6"} +
                                  (each.param.connected ? "Connected" : "Unconnected");
                         });

// ICMP finds sockets that only receive as well.
TEST(ForgedIcmpTo, ReceivingSocketsLowersNoPathMtu) {
  const SecondNetwork network;
  if (!network.ready()) GTEST_SKIP() << "no second network";
  const auto group = daemon::open_socket_group();
  ASSERT_TRUE(group.ok()) << group.reason().message;
  for (const bool v4 : {true, false}) {
    const int mtu_before = route_mtu(v4);
    const Ports ports{kRoceUdpPort, 49152};
    forge(network, v4, v4 ? forged4(ports, ICMP_FRAG_NEEDED) : forged6(ports));
    EXPECT_EQ(route_mtu(v4), mtu_before) << (v4 ? "IPv4" : "IPv6");
  }
}

}  // namespace
}  // namespace brdma::io
