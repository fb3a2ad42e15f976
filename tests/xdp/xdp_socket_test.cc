// AF_XDP sockets as brdmad makes them, over a veth pair, packets sent by UDP sockets on its other end.
#include "io/xdp/xdp_socket.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "found_steering.h"
#include "io/shard/shard.h"
#include "private_network.h"
#include "xdp/xdp_grant.h"
#include "xdp/xdp_steering.h"

namespace brdma::test {
namespace {

using io::FileDescriptor;
using io::XdpMode;

constexpr std::uint32_t kSlot = 7;
constexpr int kPatienceMs = 20'000;

io::XdpReply reply_of(const daemon::XdpGrant& grant, std::uint32_t chunks) {
  io::XdpReply reply;
  reply.mode = grant.mode;
  reply.queue = grant.queue;
  reply.receive_chunks = chunks;
  return reply;
}

class XdpSocketTest : public testing::TestWithParam<XdpMode> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(network_.ready());
    const SecondNetwork::Visit visit{network_};
    ifindex_ = if_nametoindex("right");
    const auto hook = GetParam() == XdpMode::kGeneric ? daemon::XdpHook::kGeneric : daemon::XdpHook::kDriver;
    const auto attached = daemon::XdpSteering::attach(ifindex_, 9000, hook);
    if (!attached && attached.reason().error == EPERM) GTEST_SKIP() << attached.reason().message;
  }

  [[nodiscard]] daemon::XdpWish wish(std::uint32_t chunks = 256) const {
    daemon::XdpWish wish;
    wish.ifindex = ifindex_;
    wish.slot = kSlot;
    wish.mode = GetParam();
    wish.receive_chunks = chunks;
    return wish;
  }

  [[nodiscard]] io::XdpSocket open(std::uint32_t chunks = 256) {
    const SecondNetwork::Visit visit{network_};
    daemon::XdpWish asked = wish(chunks);
    asked.leased = [](std::uint32_t) { return false; };  // the queue's owner has ended
    auto granted = grant_xdp_there(asked);
    // The kernel frees a queue some time after its socket was closed, without notification.
    for (int left = kPatienceMs; !granted && granted.reason().error == EAGAIN && left > 0; --left) {
      poll(nullptr, 0, 1);
      granted = grant_xdp_there(asked);
    }
    if (!granted) {
      ADD_FAILURE() << granted.reason().message;
      std::abort();
    }
    daemon::XdpGrant& grant = granted.value();
    const io::XdpReply reply = reply_of(grant, chunks);
    auto opened = io::XdpSocket::open({std::move(grant.socket), std::move(grant.memory), std::move(grant.link)}, reply);
    if (!opened) {
      ADD_FAILURE() << opened.reason().message;
      std::abort();
    }
    return std::move(opened).value();
  }

  // A UDP socket here and one there that get the packets that XDP leaves.
  [[nodiscard]] FileDescriptor receiver() {
    const SecondNetwork::Visit visit{network_};
    FileDescriptor fd{socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(kRoceUdpPort);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
    return fd;
  }

  void send(const std::vector<std::byte>& payload, bool ipv6 = false, int segment = 0, std::uint8_t tos = 0) {
    const FileDescriptor fd{socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    sockaddr_in6 to{};
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(kRoceUdpPort);
    ASSERT_EQ(inet_pton(AF_INET6, ipv6 ? "fd09::2" : "::ffff:10.9.0.2", &to.sin6_addr), 1);
    const int classes = tos;
    (void)setsockopt(fd.get(), IPPROTO_IP, IP_TOS, &classes, sizeof classes);
    (void)setsockopt(fd.get(), IPPROTO_IPV6, IPV6_TCLASS, &classes, sizeof classes);
    if (segment > 0) {
      ASSERT_EQ(setsockopt(fd.get(), SOL_UDP, UDP_SEGMENT, &segment, sizeof segment), 0);
    }
    ASSERT_EQ(sendto(fd.get(), payload.data(), payload.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to),
              static_cast<ssize_t>(payload.size()));
  }

  static std::vector<std::byte> packet(std::uint32_t qpn, std::size_t size, unsigned fill = 0x5a) {
    std::vector<std::byte> bytes(size, static_cast<std::byte>(fill));
    store_be32(bytes.data(), 0x0400'FFFF);
    store_be32(bytes.data() + 4, qpn);
    return bytes;
  }

  // Waits until the socket is readable.
  static bool receive(io::XdpSocket& socket, io::ReceivedMessage& message) {
    while (!socket.receive(message)) {
      pollfd readable{socket.fd(), POLLIN, 0};
      if (poll(&readable, 1, kPatienceMs) <= 0) return false;
    }
    return true;
  }

  static bool equal(ConstBytes got, const std::vector<std::byte>& sent) {
    return got.size() == sent.size() && std::memcmp(got.data(), sent.data(), got.size()) == 0;
  }

  SecondNetwork network_;
  std::uint32_t ifindex_ = 0;
};

std::string mode_name(const testing::TestParamInfo<XdpMode>& info) {
  return info.param == XdpMode::kNative ? "Native" : "Generic";
}
INSTANTIATE_TEST_SUITE_P(Modes, XdpSocketTest, testing::Values(XdpMode::kNative, XdpMode::kGeneric), mode_name);

TEST_P(XdpSocketTest, ReceivesItsSlotsPacketsWithAllThatTheirHeadersSay) {
  io::XdpSocket socket = open();
  EXPECT_EQ(socket.mode(), GetParam());
  for (const bool ipv6 : {false, true}) {
    const auto sent = packet(0x002000 | kSlot, 80);
    send(sent, ipv6, 0, 0x2A);
    io::ReceivedMessage message;
    ASSERT_TRUE(receive(socket, message));
    EXPECT_TRUE(equal(message.bytes, sent));
    EXPECT_EQ(message.segment_bytes, sent.size());
    EXPECT_EQ(message.datagram.traffic_class, 0x2A);
    EXPECT_NE(message.datagram.source_port, 0);
    EXPECT_EQ(message.datagram.ip_id_known, !ipv6);
    if (!ipv6) {
      EXPECT_EQ(message.datagram.source, IpAddress::v4(10, 9, 0, 1));
      EXPECT_EQ(message.datagram.destination, IpAddress::v4(10, 9, 0, 2));
    } else {
      EXPECT_EQ(message.datagram.source.bytes[0], 0xfd);
      EXPECT_EQ(message.datagram.source.bytes[15], 1);
      EXPECT_EQ(message.datagram.destination.bytes[15], 2);
    }
  }
}

// Longer than a chunk holds, and around that; each byte, and repeatedly around the rings.
TEST_P(XdpSocketTest, ReceivesPacketsOfAllSizesManyTimesAround) {
  constexpr std::uint32_t kChunks = 64;
  io::XdpSocket socket = open(kChunks);
  std::uint32_t count = 0;
  for (unsigned round = 0; round < 40; ++round) {
    for (const std::size_t size : {12u, 64u, 1044u, 3796u, 3797u, 3798u, 3799u, 3840u, 4096u, 4116u, 8900u}) {
      const auto sent = packet(0x004000 | kSlot, size, ++count);
      send(sent, round % 2 == 1);
      io::ReceivedMessage message;
      ASSERT_TRUE(receive(socket, message)) << size << " round " << round;
      EXPECT_TRUE(equal(message.bytes, sent)) << size << " round " << round;
    }
  }
  EXPECT_EQ(socket.take_drops(), 0u);
  EXPECT_EQ(socket.take_unreadable(), 0u);
}

// A frame that the steering program accepts, as it does not read the length in the UDP header, but that is invalid.
TEST_P(XdpSocketTest, AFrameThatIsNoPacketIsCountedByTheShard) {
  Statistics statistics;
  FileDescriptor udp = receiver();
  std::vector<io::TransmitSocket> transmit_sockets;
  transmit_sockets.push_back(io::TransmitSocket::open({}).value());
  EngineConfig config;
  config.slot = kSlot;
  io::Shard shard{config,
                  io::Intake{io::ReceiveSocket{udp.get(), true}, open()},
                  std::move(transmit_sockets),
                  statistics,
                  nullptr,
                  Duration{}};
  const auto wait_for = [&](std::uint64_t packets) {
    for (int left = kPatienceMs; statistics.get(Counter::kXdpReceived) < packets && left > 0; --left) {
      (void)shard.make_progress();
      poll(nullptr, 0, 1);
    }
  };
  std::vector<std::byte> datagram(28 + 80);  // IPv4 and UDP headers, then the packet
  const auto good = packet(0x002000 | kSlot, 80);
  std::copy(good.begin(), good.end(), datagram.begin() + 28);
  store_be32(datagram.data(), 0x4500'0000);  // the kernel writes length, identification and checksum
  datagram[8] = std::byte{64};
  datagram[9] = std::byte{IPPROTO_UDP};
  store_be32(datagram.data() + 16, 0x0A09'0002);
  store_be16(datagram.data() + 20, 0xC000);
  store_be16(datagram.data() + 22, kRoceUdpPort);
  store_be16(datagram.data() + 24, 8 + 80 - 4);  // the UDP header's, too short
  const FileDescriptor raw{socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW)};
  ASSERT_TRUE(raw.valid());
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(0x0A09'0002);
  ASSERT_EQ(sendto(raw.get(), datagram.data(), datagram.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to),
            static_cast<ssize_t>(datagram.size()));
  send(good);
  wait_for(1);
  EXPECT_EQ(statistics.get(Counter::kXdpReceived), 1u);
  EXPECT_EQ(statistics.get(Counter::kXdpUnreadable), 1u);
  EXPECT_EQ(statistics.get(Counter::kReceivedPackets), 1u);
}

TEST_P(XdpSocketTest, LeavesOtherSlotsToUdp) {
  io::XdpSocket socket = open();
  const FileDescriptor udp = receiver();
  const auto other = packet(0x002008, 80), mine = packet(0x002007, 96);
  send(other);
  send(mine);
  io::ReceivedMessage message;
  ASSERT_TRUE(receive(socket, message));
  EXPECT_TRUE(equal(message.bytes, mine));
  EXPECT_FALSE(socket.receive(message));
  std::vector<std::byte> got(4096);
  ASSERT_EQ(recv(udp.get(), got.data(), got.size(), 0), static_cast<ssize_t>(other.size()));
  EXPECT_EQ(recv(udp.get(), got.data(), got.size(), MSG_DONTWAIT), -1);
}

// A batch that the sender's kernel did not split: the driver's hook gets it in packets, the generic one in one piece,
// which goes to UDP with the size of its packets.
TEST_P(XdpSocketTest, BatchesArriveWholeInEitherMode) {
  io::XdpSocket socket = open();
  const FileDescriptor udp = receiver();
  constexpr std::size_t kSegment = 4116, kSegments = 8;
  std::vector<std::byte> batch;
  for (std::size_t i = 0; i < kSegments; ++i) {
    const auto one = packet(0x002007, kSegment, static_cast<unsigned>(i));
    batch.insert(batch.end(), one.begin(), one.end());
  }
  send(batch, false, kSegment);
  std::size_t by_xdp = 0, by_udp = 0;
  std::array<pollfd, 2> both{pollfd{socket.fd(), POLLIN, 0}, pollfd{udp.get(), POLLIN, 0}};
  while (by_xdp + by_udp < kSegments) {
    ASSERT_GT(poll(both.data(), both.size(), kPatienceMs), 0);
    io::ReceivedMessage message;
    for (; socket.receive(message); ++by_xdp) {
      EXPECT_TRUE(equal(message.bytes, packet(0x002007, kSegment, static_cast<unsigned>(by_xdp))));
    }
    std::vector<std::byte> got(kSegment + 1);
    while (recv(udp.get(), got.data(), got.size(), MSG_DONTWAIT) == static_cast<ssize_t>(kSegment)) ++by_udp;
  }
  EXPECT_EQ(by_xdp, GetParam() == XdpMode::kNative ? kSegments : 0);
}

TEST_P(XdpSocketTest, CountsWhatItHadNoRoomFor) {
  constexpr std::uint32_t kChunks = 16, kSent = 40;
  io::XdpSocket socket = open(kChunks);
  const FileDescriptor udp = receiver();
  for (unsigned i = 0; i < kSent; ++i) send(packet(0x002007, 80));
  std::uint64_t drops = 0;
  for (int left = kPatienceMs; (drops += socket.take_drops()) < kSent - kChunks && left > 0; --left)
    poll(nullptr, 0, 1);
  io::ReceivedMessage message;
  unsigned received = 0;
  while (socket.receive(message)) ++received;
  EXPECT_EQ(received, kChunks);
  EXPECT_EQ(received + drops, kSent);
  EXPECT_EQ(socket.take_drops(), 0u);
}

TEST_P(XdpSocketTest, QueueIsForOneAndFreeAgainWhenTheSocketCloses) {
  const auto ask = [&] {
    const SecondNetwork::Visit visit{network_};
    return grant_xdp_there(wish());
  };
  std::uint32_t queues = 0;
  {
    std::vector<daemon::XdpGrant> all;
    for (;;) {
      auto granted = ask();
      if (!granted) {
        EXPECT_EQ(granted.reason().error, EBUSY);
        EXPECT_NE(granted.reason().message.find("receive queue"), std::string::npos) << granted.reason().message;
        break;
      }
      all.push_back(std::move(granted).value());
      ASSERT_LT(++queues, daemon::kXdpQueuesMax);
    }
    EXPECT_GE(queues, 1u);
  }
  const io::XdpSocket socket = open();
  EXPECT_EQ(socket.queue(), 0u);
}

// Nothing stays behind: neither at the ending process nor at the packets' destination.
TEST_P(XdpSocketTest, LastSocketTakesTheProgramWithIt) {
  const auto attached = [&] {
    const SecondNetwork::Visit visit{network_};
    return daemon::XdpSteering::find(ifindex_).link.valid();
  };
  const FileDescriptor udp = receiver();
  {
    const io::XdpSocket socket = open();
    EXPECT_TRUE(attached());
  }
  // A process that looks through the system's links has this one open for a moment, as tests beside this one do.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{2};
  while (attached() && std::chrono::steady_clock::now() < until) sched_yield();
  EXPECT_FALSE(attached());
  const auto sent = packet(0x002007, 80);
  send(sent);
  std::vector<std::byte> got(4096);
  EXPECT_EQ(recv(udp.get(), got.data(), got.size(), 0), static_cast<ssize_t>(sent.size()));
}

// The last lease has ended, and the holder still has the link of its program, a moment longer than brdmad's worker.
TEST_P(XdpSocketTest, AProgramThatIsBeingTakenAwayIsNobodyElses) {
  {
    const SecondNetwork::Visit visit{network_};
    daemon::XdpWish next = wish();
    const auto last = daemon::grant_xdp(next);
    ASSERT_TRUE(last);
    EXPECT_EQ(daemon::grant_xdp(next).reason().error, EBUSY);
    next.leaving = last.value().attached->program_id();
    EXPECT_EQ(daemon::grant_xdp(next).reason().error, EAGAIN);
  }
  EXPECT_EQ(open().queue(), 0u);
}

// Numbers of interfaces are of their namespace: containers have the same ones.
TEST_P(XdpSocketTest, AnotherNamespacesProgramIsNotTakenForOurs) {
  const io::XdpSocket socket = open();
  EXPECT_FALSE(daemon::XdpSteering::find(ifindex_).link.valid());
}

}  // namespace
}  // namespace brdma::test
