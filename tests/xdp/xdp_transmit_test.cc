// Sending by AF_XDP over a veth pair, received by the kernel's own network stack, which checks every length and
// checksum. And the right to send.
#include "io/xdp/xdp_transmit.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "found_steering.h"
#include "io/netdev/neighbours.h"
#include "io/shard/outlet.h"
#include "io/xdp/xdp_frame.h"
#include "private_network.h"
#include "support/own_syscall.h"
#include "xdp/xdp_grant.h"
#include "xdp/xdp_right.h"

namespace brdma::test {
namespace {

using io::FileDescriptor;
using io::XdpTransmit;
using Outcome = XdpTransmit::Report::Outcome;

constexpr int kPatienceMs = 20'000;
constexpr std::uint16_t kPort = 0xC123;
const IpAddress kLeft = IpAddress::v4(10, 9, 0, 1), kRight = IpAddress::v4(10, 9, 0, 2);

// Errors with which the next wake-ups of the kernel end, in this order; then it answers itself.
std::deque<int> wakeup_errors;

}  // namespace
}  // namespace brdma::test

extern "C" long syscall(long number, ...) noexcept {
  std::va_list list;
  va_start(list, number);
  const brdma::test::SyscallArguments with{list};
  va_end(list);
  auto& errors = brdma::test::wakeup_errors;
  if (number != SYS_sendto || with[1] != 0 || errors.empty()) return with.pass_on(number);
  errno = errors.front();
  errors.pop_front();
  return -1;
}

namespace brdma::test {
namespace {

IpAddress v6(std::uint8_t last) { return IpAddress{{0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}}; }

class XdpTransmitTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(network_.ready());
    daemon::XdpWish wish;
    wish.ifindex = if_nametoindex("left");
    wish.mode = io::XdpMode::kNative;
    wish.receive_chunks = 0;
    wish.transmit_chunks = io::kXdpTransmitChunks;
    auto granted = grant_xdp_there(wish);
    if (!granted && granted.reason().error == EPERM) GTEST_SKIP() << granted.reason().message;
    ASSERT_TRUE(granted) << granted.reason().message;
    EXPECT_FALSE(granted.value().link.valid()) << "a program was attached, though nothing is to be received";
    io::XdpReply reply;
    reply.transmit_chunks = wish.transmit_chunks;
    auto opened = XdpTransmit::open(granted.value().socket.get(), granted.value().memory.get(), reply);
    ASSERT_TRUE(opened) << opened.reason().message;
    transmit_.emplace(std::move(opened).value());
    hop_ = io::NextHop{{2, 0, 0, 0, 9, 2}, {2, 0, 0, 0, 9, 1}, 9000};
  }

  // A UDP socket on the other end; the kernel hands it whole good datagrams only.
  [[nodiscard]] FileDescriptor receiver() {
    const SecondNetwork::Visit visit{network_};
    FileDescriptor fd{socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(kRoceUdpPort);
    const int yes = 1, bytes = 16 << 20;
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
    (void)setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
    (void)setsockopt(fd.get(), IPPROTO_IP, IP_RECVTOS, &yes, sizeof yes);
    (void)setsockopt(fd.get(), IPPROTO_IPV6, IPV6_RECVTCLASS, &yes, sizeof yes);
    return fd;
  }

  // Raw IPv4 packets as they come to the other end.
  [[nodiscard]] FileDescriptor observer() {
    const SecondNetwork::Visit visit{network_};
    return FileDescriptor{socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_UDP)};
  }

  struct Batch {
    std::vector<std::byte> bytes;
    std::vector<Slice> slices;
    Transmit transmit;
  };
  // `count` packets, the last of `last` bytes (0: as long), in slices of a size that fits nothing.
  static Batch batch(std::size_t count, std::size_t size, bool ipv6 = false, std::size_t last = 0) {
    Batch made;
    made.bytes.resize((count - 1) * size + (last == 0 ? size : last));
    for (std::size_t i = 0; i < made.bytes.size(); ++i) made.bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
    constexpr std::size_t kSlice = 1237;
    for (std::size_t at = 0; at < made.bytes.size(); at += kSlice)
      made.slices.push_back({&made.bytes[at], std::min(kSlice, made.bytes.size() - at)});
    made.transmit.source = ipv6 ? v6(1) : kLeft;
    made.transmit.destination = ipv6 ? v6(2) : kRight;
    made.transmit.segments = static_cast<std::uint16_t>(count);
    made.transmit.segment_bytes = static_cast<std::uint16_t>(size);
    made.transmit.bytes = static_cast<std::uint32_t>(made.bytes.size());
    made.transmit.slices = made.slices;
    return made;
  }

  Outcome send(const Batch& made, bool ids_count = true) {
    return transmit_->send(made.transmit, {.hop = &hop_, .source_port = kPort, .ids_count = ids_count}).outcome;
  }

  static void expect_all(int fd, const Batch& made) {
    std::vector<std::byte> got(65536);
    for (std::size_t at = 0; at < made.bytes.size(); at += made.transmit.segment_bytes) {
      const std::size_t wanted = std::min<std::size_t>(made.transmit.segment_bytes, made.bytes.size() - at);
      pollfd readable{fd, POLLIN, 0};
      ASSERT_GT(poll(&readable, 1, kPatienceMs), 0) << "packet at " << at;
      ASSERT_EQ(recv(fd, got.data(), got.size(), 0), static_cast<ssize_t>(wanted)) << "packet at " << at;
      ASSERT_EQ(std::memcmp(got.data(), &made.bytes[at], wanted), 0) << "packet at " << at;
    }
  }

  SecondNetwork network_;
  std::optional<XdpTransmit> transmit_;
  io::NextHop hop_;
};

TEST_F(XdpTransmitTest, PacketsOfAllSizesArriveManyTimesAround) {
  const FileDescriptor udp = receiver();
  for (unsigned round = 0; round < 30; ++round) {
    for (const std::size_t size : {1u, 16u, 17u, 64u, 1044u, 4033u, 4034u, 4035u, 4053u, 4054u, 4055u, 4116u, 8900u}) {
      const Batch one = batch(1, size, round % 2 == 1);
      ASSERT_EQ(send(one), Outcome::kSent) << size;
      ASSERT_NO_FATAL_FAILURE(expect_all(udp.get(), one)) << size << " round " << round;
    }
  }
}

TEST_F(XdpTransmitTest, WholeBatchesArriveInOrder) {
  const FileDescriptor udp = receiver();
  for (const bool ipv6 : {false, true}) {
    for (const std::size_t size : {64u, 4116u}) {
      const Batch many = batch(kSegmentsMax, size, ipv6, size / 2);
      ASSERT_EQ(send(many), Outcome::kSent);
      ASSERT_NO_FATAL_FAILURE(expect_all(udp.get(), many)) << size;
    }
  }
}

TEST_F(XdpTransmitTest, HeadersSayWhatTheBatchSays) {
  const FileDescriptor raw = observer();
  for (const bool ids_count : {true, false}) {
    Batch few = batch(3, 80);
    few.transmit.traffic_class = 0x2A;
    few.transmit.hop_limit = 17;
    ASSERT_EQ(send(few, ids_count), Outcome::kSent);
    for (std::uint16_t i = 0; i < 3; ++i) {
      std::array<std::byte, 2048> got;
      pollfd readable{raw.get(), POLLIN, 0};
      ASSERT_GT(poll(&readable, 1, kPatienceMs), 0);
      ASSERT_EQ(recv(raw.get(), got.data(), got.size(), 0), 20 + 8 + 80);
      EXPECT_EQ(load_u8(&got[1]), 0x2A);
      EXPECT_EQ(load_be16(&got[4]), ids_count ? i : 0);
      EXPECT_EQ(load_be16(&got[6]), 0x4000);  // "don't fragment"
      EXPECT_EQ(load_u8(&got[8]), 17);
      EXPECT_EQ(load_be16(&got[20]), kPort);
      EXPECT_EQ(load_be16(&got[22]), kRoceUdpPort);
    }
  }
}

TEST_F(XdpTransmitTest, WhatIsTooLongOrTooMuchIsLeftToUdp) {
  hop_.mtu = 1500;
  EXPECT_EQ(send(batch(1, 1472)), Outcome::kSent);
  EXPECT_EQ(send(batch(1, 1473)), Outcome::kUseUdp);
  EXPECT_EQ(send(batch(1, 1453, true)), Outcome::kUseUdp);
  hop_.mtu = 65535;
  EXPECT_EQ(send(batch(kSegmentsMax, 20000)), Outcome::kUseUdp);
}

// Down for a while: UDP takes over; up again: all is as before.
TEST_F(XdpTransmitTest, GoesOnAfterTheInterfaceWasDown) {
  ASSERT_TRUE(ip("link set left down"));
  EXPECT_NE(send(batch(1, 64)), Outcome::kSent);
  EXPECT_EQ(transmit_->dead(), 0);
  ASSERT_TRUE(ip("link set left up"));
  for (int i = 0; i < 400; ++i) {
    ASSERT_NE(send(batch(1, 64)), Outcome::kWaits) << i;
  }
}

// A ring that filled while the interface was down, and is emptied by an interface without a carrier: the packets that
// waited are refused with those of the batch that finds them.
TEST_F(XdpTransmitTest, RefusedPacketsThatHadWaitedInTheRingAreReported) {
  ASSERT_TRUE(ip("link set left down"));
  for (std::uint32_t i = 0; i < io::kXdpTransmitChunks; ++i) ASSERT_EQ(send(batch(1, 64)), Outcome::kUseUdp) << i;
  EXPECT_EQ(transmit_->sent(), io::kXdpTransmitChunks);
  {
    const SecondNetwork::Visit visit{network_};
    ASSERT_TRUE(ip("link set right down"));
  }
  ASSERT_TRUE(ip("link set left up"));
  const Batch one = batch(1, 64);
  const XdpTransmit::Report report = transmit_->send(one.transmit, {.hop = &hop_, .source_port = kPort});
  EXPECT_EQ(report.outcome, Outcome::kSent);
  EXPECT_EQ(report.refused, io::kXdpTransmitChunks + 1);
  EXPECT_EQ(transmit_->sent(), 0u);
}

// AF_XDP drops some, then the interface goes down and UDP sends the batch.
TEST_F(XdpTransmitTest, RefusedPacketsAreReportedWhereUdpTakesOver) {
  ASSERT_TRUE(ip("neigh replace 10.9.0.2 lladdr 02:00:00:00:09:02 dev left nud permanent"));
  auto socket = io::TransmitSocket::open({});
  ASSERT_TRUE(socket) << socket.reason().message;
  std::vector<io::TransmitSocket> sockets;
  sockets.push_back(std::move(socket).value());
  io::XdpOutlet by_xdp{std::move(*transmit_), io::Neighbours{if_nametoindex("left")}, /*all=*/true};
  io::Outlet outlet{std::move(sockets), std::move(by_xdp)};
  const FileDescriptor udp = receiver();
  const Batch one = batch(1, 64);
  wakeup_errors = {EBUSY, EBUSY, EBUSY, ENETDOWN};
  const io::SendReport report = outlet.send(one.transmit);
  EXPECT_TRUE(wakeup_errors.empty());
  EXPECT_EQ(report.refused, 3u);
  EXPECT_FALSE(report.blocked);
  EXPECT_NO_FATAL_FAILURE(expect_all(udp.get(), one));
}

TEST_F(XdpTransmitTest, IsDeadOnceTheInterfaceIsGone) {
  ASSERT_TRUE(ip("link delete left"));
  EXPECT_EQ(send(batch(1, 64)), Outcome::kUseUdp);
  EXPECT_NE(transmit_->dead(), 0);
  EXPECT_EQ(send(batch(1, 64)), Outcome::kUseUdp);
}

// A batch that was given up, one that UDP sent because the interface was down, and one that finds the interface gone,
// which UDP sends too.
TEST_F(XdpTransmitTest, PacketsInTheRingOfADeadSocketAreReported) {
  const Batch given_up = batch(3, 5000);
  wakeup_errors = {ENOBUFS};
  ASSERT_EQ(send(given_up), Outcome::kWaits);
  EXPECT_EQ(transmit_->give_up(given_up.transmit), 0u);
  wakeup_errors = {ENETDOWN};
  ASSERT_EQ(send(batch(2, 64)), Outcome::kUseUdp);
  const Batch last = batch(4, 64);
  wakeup_errors = {ENXIO};
  const XdpTransmit::Report report = transmit_->send(last.transmit, {.hop = &hop_, .source_port = kPort});
  EXPECT_EQ(report.outcome, Outcome::kUseUdp);
  EXPECT_EQ(transmit_->dead(), ENXIO);
  EXPECT_EQ(report.refused, given_up.transmit.segments);
  EXPECT_EQ(transmit_->sent(), 0u);
}

TEST_F(XdpTransmitTest, RightIsAPacketSocketOfThisNetwork) {
  const FileDescriptor packet{socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)};
  const FileDescriptor udp{socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  EXPECT_TRUE(daemon::proves_right_to_transmit(packet.get()));
  EXPECT_FALSE(daemon::proves_right_to_transmit(udp.get()));
  EXPECT_FALSE(daemon::proves_right_to_transmit(-1));
  const SecondNetwork::Visit visit{network_};
  EXPECT_FALSE(daemon::proves_right_to_transmit(packet.get()));
}

class NeighboursTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(network_.ready());
    neighbours_.emplace(if_nametoindex("left"));
  }
  [[nodiscard]] const io::NextHop* find(const IpAddress& to = kRight) {
    now_ = now_ + io::Neighbours::kLookEvery;
    return neighbours_->find(to.is_v4() ? kLeft : v6(1), to, now_);
  }
  SecondNetwork network_;
  std::optional<io::Neighbours> neighbours_;
  Instant now_ = Instant::from_ns(1'000'000'000);
};

TEST_F(NeighboursTest, FollowsWhatTheKernelKnows) {
  ASSERT_TRUE(ip("neigh replace 10.9.0.2 lladdr 02:00:00:00:00:07 dev left nud permanent"));
  const io::NextHop* hop = find();
  ASSERT_NE(hop, nullptr);
  EXPECT_EQ(hop->destination, (io::MacBytes{2, 0, 0, 0, 0, 7}));
  EXPECT_EQ(hop->source, (io::MacBytes{2, 0, 0, 0, 9, 1}));
  EXPECT_EQ(hop->mtu, 9000u);

  ASSERT_TRUE(ip("neigh replace 10.9.0.2 lladdr 02:00:00:00:00:08 dev left nud permanent"));
  ASSERT_NE(hop = find(), nullptr);
  EXPECT_EQ(hop->destination[5], 8);

  ASSERT_TRUE(ip("link set left mtu 1500"));
  ASSERT_NE(hop = find(), nullptr);
  EXPECT_EQ(hop->mtu, 1500u);

  ASSERT_TRUE(ip("neigh del 10.9.0.2 dev left"));
  EXPECT_EQ(find(), nullptr);
}

TEST_F(NeighboursTest, AsksTheKernelOnceUntilSomethingChanges) {
  ASSERT_TRUE(ip("neigh replace 10.9.0.2 lladdr 02:00:00:00:00:07 dev left nud permanent"));
  ASSERT_NE(find(), nullptr);
  ASSERT_TRUE(ip("neigh replace 10.9.0.2 lladdr 02:00:00:00:00:08 dev left nud permanent"));
  // Nobody has updated it yet.
  EXPECT_EQ(neighbours_->find(kLeft, kRight, now_)->destination[5], 7);
  EXPECT_EQ(find()->destination[5], 8);
}

TEST_F(NeighboursTest, GatewaysAddressIsTakenForWhoIsBehindIt) {
  ASSERT_TRUE(ip("neigh replace 10.9.0.2 lladdr 02:00:00:00:00:07 dev left nud permanent"));
  ASSERT_TRUE(ip("neigh replace fd09::2 lladdr 02:00:00:00:00:09 dev left nud permanent"));
  ASSERT_TRUE(ip("route add 10.77.0.0/16 via 10.9.0.2 mtu 1400"));
  ASSERT_TRUE(ip("route add 10.78.0.0/16 via inet6 fd09::2 dev left"));
  ASSERT_TRUE(ip("-6 route add fd77::/16 via fd09::2"));
  const io::NextHop* hop = find(IpAddress::v4(10, 77, 1, 2));
  ASSERT_NE(hop, nullptr);
  EXPECT_EQ(hop->destination[5], 7);
  EXPECT_EQ(hop->mtu, 1400u);
  ASSERT_NE(hop = find(IpAddress::v4(10, 78, 1, 2)), nullptr);
  EXPECT_EQ(hop->destination[5], 9);
  IpAddress behind = v6(2);
  behind.bytes[1] = 0x77;
  ASSERT_NE(hop = find(behind), nullptr);
  EXPECT_EQ(hop->destination[5], 9);
}

TEST_F(NeighboursTest, AStaleOneIsLeftToUdpOnce) {
  ASSERT_TRUE(ip("neigh replace 10.9.0.2 lladdr 02:00:00:00:09:02 dev left nud stale"));
  EXPECT_EQ(find(), nullptr);
  EXPECT_NE(find(), nullptr);
}

TEST_F(NeighboursTest, WithoutARouteItUsesUdp) {
  EXPECT_EQ(find(IpAddress::v4(10, 9, 0, 99)), nullptr);  // nobody has queried it
  EXPECT_EQ(find(kLeft), nullptr);                        // our own
  EXPECT_EQ(find(IpAddress::v4(127, 0, 0, 1)), nullptr);
  EXPECT_EQ(find(IpAddress::v4(192, 0, 2, 1)), nullptr);  // no route
  EXPECT_EQ(find(IpAddress::v4(239, 1, 2, 3)), nullptr);
  EXPECT_EQ(neighbours_->find(IpAddress{}, kRight, now_), nullptr);
  ASSERT_TRUE(ip("link delete left"));
  EXPECT_EQ(find(), nullptr);
}

// RFC 1071's example: 0001 f203 f4f5 f6f7 add up to 2ddf0.
TEST(XdpFrame, SumIsTheInternetsSum) {
  const std::array<std::uint8_t, 8> bytes{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
  std::uint64_t sum = io::internet_sum(std::as_bytes(std::span{bytes}));
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  EXPECT_EQ(sum, 0xf2dd) << "ddf2 in the order of the network";
}

TEST(XdpFrame, WhatIsWrittenIsReadAgain) {
  for (const bool ipv4 : {true, false}) {
    const io::FrameHeaders headers{.source = ipv4 ? kLeft : v6(1),
                                   .destination = ipv4 ? kRight : v6(2),
                                   .source_port = kPort,
                                   .traffic_class = 0xA5,
                                   .identification = 0x1234};
    std::vector<std::byte> frame(io::frame_headers_size(headers.destination) + 64);
    const io::MacBytes to{1, 2, 3, 4, 5, 6}, from{7, 8, 9, 10, 11, 12};
    EXPECT_EQ(io::write_frame_headers(headers, to, from, 64, frame.data()), frame.size() - 64);
    EXPECT_EQ(load_u8(&frame[0]), 1);
    EXPECT_EQ(load_u8(&frame[11]), 12);
    Datagram read;
    ASSERT_TRUE(io::parse_roce_frame(frame, read));
    EXPECT_EQ(read.source, headers.source);
    EXPECT_EQ(read.destination, headers.destination);
    EXPECT_EQ(read.source_port, kPort);
    EXPECT_EQ(read.traffic_class, 0xA5);
    EXPECT_EQ(read.ip_id_known, ipv4);
    EXPECT_EQ(read.ip_id, ipv4 ? 0x1234 : 0);
    EXPECT_EQ(read.bytes.size(), 64u);
  }
}

}  // namespace
}  // namespace brdma::test
