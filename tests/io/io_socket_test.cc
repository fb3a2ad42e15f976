// Sockets against the kernel: batches, their metadata, buffers, refusals and a full send buffer.
#include <gmock/gmock.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "io/shard/arrival_clock.h"
#include "io/udp/receive_budget.h"
#include "io/udp/receive_socket.h"
#include "io/udp/socket_address.h"
#include "io/udp/transmit_socket.h"
#include "private_network.h"
#include "test_lease.h"
#include "wire/crc/icrc.h"

namespace brdma::io {
namespace {

using test::ip;
using test::make_leases;
using test::SecondNetwork;

constexpr int kPatienceMs = 20'000;
constexpr IpAddress kLoopback4 = IpAddress::v4(127, 0, 0, 1);
constexpr IpAddress kLoopback6{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
constexpr IpAddress kHere = IpAddress::v4(10, 9, 0, 1), kThere = IpAddress::v4(10, 9, 0, 2);

// A batch that owns its bytes: packet i is filled with i + 1.
struct Batch {
  std::vector<std::byte> bytes;
  Slice slice;
  Transmit transmit;
  Batch(IpAddress source, IpAddress destination, std::uint16_t segment_bytes, std::uint16_t segments,
        std::size_t last_bytes = 0) {
    if (last_bytes == 0) last_bytes = segment_bytes;
    for (unsigned i = 0; i < segments; ++i)
      bytes.insert(bytes.end(), i + 1u == segments ? last_bytes : segment_bytes, static_cast<std::byte>(i + 1));
    slice = {bytes.data(), bytes.size()};
    transmit.source = source;
    transmit.destination = destination;
    transmit.segments = segments;
    transmit.segment_bytes = segment_bytes;
    transmit.bytes = static_cast<std::uint32_t>(bytes.size());
    transmit.slices = {&slice, 1};
  }
};

TransmitSocket open_or_die(const TransmitSocketOptions& options = {}) {
  auto opened = TransmitSocket::open(options);
  EXPECT_TRUE(opened.ok()) << opened.reason().message;
  return std::move(opened).value();
}

struct Packet {
  Datagram about;
  std::vector<std::byte> bytes;
};

// Arrived data, message by message and split into packets; waits for at least so much. The kernel hands a packet over
// within the call that sends it, unless it is busy: then a thread of its own does it later.
std::vector<Packet> receive_all(ReceiveSocket& socket, std::size_t at_least, unsigned* messages = nullptr) {
  std::vector<Packet> packets;
  ReceivedMessage message;
  unsigned count = 0;
  for (;;) {
    while (socket.receive(message)) {
      ++count;
      for (std::size_t at = 0; at < message.bytes.size(); at += message.segment_bytes) {
        const auto part = message.bytes.subspan(at, std::min(message.segment_bytes, message.bytes.size() - at));
        packets.push_back({message.datagram, {part.begin(), part.end()}});
      }
    }
    pollfd readable{socket.fd(), POLLIN, 0};
    if (packets.size() >= at_least || poll(&readable, 1, kPatienceMs) != 1) break;
  }
  if (messages != nullptr) *messages = count;
  return packets;
}

void expect_numbered(const std::vector<Packet>& packets, std::size_t count, std::size_t bytes) {
  ASSERT_EQ(packets.size(), count);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(packets[i].bytes.size(), bytes) << i;
    EXPECT_EQ(packets[i].bytes[0], static_cast<std::byte>(i + 1)) << i;
  }
}

TEST(Sockets, ABatchArrivesAsOneMessage) {
  auto leases = make_leases(1);
  ReceiveSocket receiver{leases[0].socket_fd, true};
  TransmitSocket sender = open_or_die();
  ASSERT_TRUE(sender.gso());
  ASSERT_TRUE(receiver.gro());
  EXPECT_GE(sender.port(), 0xC000);
  Batch batch{kLoopback4, kLoopback4, 4116, 15};
  EXPECT_EQ(sender.send(batch.transmit).refused, 0u);
  unsigned messages = 0;
  const auto packets = receive_all(receiver, 15, &messages);
  expect_numbered(packets, 15, 4116);
  EXPECT_EQ(messages, 1u);
}

// The kernel begins to stamp arrivals some time after the first socket has requested it (it changes its own code, in a
// work item). Earlier packets are stamped when they are read, and seem not to have waited at all.
TEST(Sockets, AMessageCarriesItsArrivalTime) {
  auto leases = make_leases(1);
  ReceiveSocket receiver{leases[0].socket_fd, true};
  TransmitSocket sender = open_or_die();
  Batch batch{kLoopback4, kLoopback4, 84, 2};
  ArrivalClock clock;
  const Instant started = monotonic_now();
  for (Duration waited; waited < 1_ms;) {
    const Instant before = monotonic_now();
    ASSERT_LT(before - started, 10_s) << "no arrival was stamped";
    EXPECT_EQ(sender.send(batch.transmit).refused, 0u);
    const Instant sent = monotonic_now();
    while (monotonic_now() - sent < 3_ms) continue;  // it lies there
    ReceivedMessage message;
    ASSERT_TRUE(receiver.receive(message));
    const Instant now = monotonic_now();
    waited = clock.waited(message.stamp, now);
    EXPECT_LE(waited, now - before + 10_us);
    if (waited >= 1_ms) {
      EXPECT_GE(waited, now - sent - 10_us);
    }
  }
}

TEST(Sockets, SixtyFourSegmentsAndAShorterLast) {
  auto leases = make_leases(1);
  ReceiveSocket receiver{leases[0].socket_fd, true};
  TransmitSocket sender = open_or_die();
  Batch batch{kLoopback4, kLoopback4, 84, 64, 60};
  EXPECT_EQ(sender.send(batch.transmit).refused, 0u);
  const auto packets = receive_all(receiver, 64);
  ASSERT_EQ(packets.size(), 64u);
  EXPECT_EQ(packets[62].bytes.size(), 84u);
  EXPECT_EQ(packets[63].bytes.size(), 60u);
}

TEST(Sockets, MetadataOfBothFamilies) {
  for (const bool dual_stack : {true, false}) {
    auto leases = make_leases(1, dual_stack);
    ReceiveSocket receiver{leases[0].socket_fd, dual_stack};
    TransmitSocket sender = open_or_die();
    Batch v4{IpAddress::v4(127, 1, 2, 3), IpAddress::v4(127, 9, 9, 9), 100, 2};
    v4.transmit.traffic_class = 0x6A;  // a DSCP, and ECN 2
    v4.transmit.hop_limit = 7;
    EXPECT_EQ(sender.send(v4.transmit).error, 0);
    auto packets = receive_all(receiver, 2);
    expect_numbered(packets, 2, 100);
    EXPECT_EQ(packets[0].about.source, v4.transmit.source);
    EXPECT_EQ(packets[0].about.destination, v4.transmit.destination);
    EXPECT_EQ(packets[0].about.source_port, sender.port());
    EXPECT_EQ(packets[0].about.traffic_class, 0x6A);
    if (!dual_stack) continue;
    Batch v6{kLoopback6, kLoopback6, 100, 2};
    v6.transmit.traffic_class = 0x6A;
    v6.transmit.hop_limit = 7;
    EXPECT_EQ(sender.send(v6.transmit).error, 0);
    packets = receive_all(receiver, 2);
    expect_numbered(packets, 2, 100);
    EXPECT_EQ(packets[0].about.source, kLoopback6);
    EXPECT_EQ(packets[0].about.destination, kLoopback6);
    EXPECT_EQ(packets[0].about.source_port, sender.port());
    EXPECT_EQ(packets[0].about.traffic_class, 0x6A);
  }
}

TEST(Sockets, WithoutGroTheKernelCuts) {
  auto leases = make_leases(1);
  ReceiveSocket receiver{leases[0].socket_fd, true, {.gro = false}};
  EXPECT_FALSE(receiver.gro());
  TransmitSocket sender = open_or_die();
  Batch batch{kLoopback4, kLoopback4, 1044, 10};
  EXPECT_EQ(sender.send(batch.transmit).refused, 0u);
  unsigned messages = 0;
  expect_numbered(receive_all(receiver, 10, &messages), 10, 1044);
  EXPECT_EQ(messages, 10u);
}

TEST(Sockets, WithoutGsoPacketsGoSingly) {
  auto leases = make_leases(1);
  ReceiveSocket receiver{leases[0].socket_fd, true};
  TransmitSocket sender = open_or_die({.gso = false});
  EXPECT_FALSE(sender.gso());
  Batch batch{kLoopback4, kLoopback4, 1044, 10, 60};
  EXPECT_EQ(sender.send(batch.transmit).refused, 0u);
  const auto packets = receive_all(receiver, 10);
  ASSERT_EQ(packets.size(), 10u);
  EXPECT_EQ(packets[9].bytes.size(), 60u);
}

// The kernel gives single packets identification 0; the engine made the ICRC of packet i of a standard batch for i.
TEST(Sockets, StandardPacketsSentSinglyGetTheIcrcOfTheirIdentification) {
  auto leases = make_leases(1);
  ReceiveSocket receiver{leases[0].socket_fd, true};
  TransmitSocket sender = open_or_die({.gso = false});
  Batch batch{kLoopback4, kLoopback4, 64, 3};
  batch.transmit.standard = true;
  const auto icrc_of = [&](ConstBytes packet, std::uint16_t ip_id) {
    return wire::packet_icrc({kLoopback4, kLoopback4, sender.port(), kRoceUdpPort, ip_id}, packet);
  };
  for (std::uint16_t i = 0; i < 3; ++i) {
    const std::uint32_t icrc = icrc_of(ConstBytes{batch.bytes}.subspan(i * 64u, 64), i);
    std::memcpy(batch.bytes.data() + i * 64 + 60, &icrc, 4);
  }
  EXPECT_EQ(sender.send(batch.transmit).refused, 0u);
  const auto packets = receive_all(receiver, 3);
  ASSERT_EQ(packets.size(), 3u);
  for (const auto& packet : packets) EXPECT_EQ(wire::stored_icrc(packet.bytes), icrc_of(packet.bytes, 0));
}

// A segment larger than the route's MTU is refused as one message and packet by packet; neither blames GSO.
TEST(Sockets, PacketsBeyondTheMtuAreRefusedAndCounted) {
  const SecondNetwork network{1500};
  ASSERT_TRUE(network.ready());
  TransmitSocket sender = open_or_die();
  Batch batch{kHere, kThere, 4116, 15};
  for (int i = 0; i < 20; ++i) {
    const SendReport report = sender.send(batch.transmit);
    EXPECT_FALSE(report.blocked);
    EXPECT_EQ(report.refused, 15u);
    EXPECT_EQ(report.error, EMSGSIZE);
  }
  EXPECT_TRUE(sender.gso());
}

TEST(Sockets, NoRouteIsRefused) {
  TransmitSocket sender = open_or_die();
  Batch batch{{}, IpAddress::v4(10, 200, 0, 1), 100, 1};
  const SendReport report = sender.send(batch.transmit);
  EXPECT_EQ(report.refused, 1u);
  EXPECT_EQ(report.error, ENETUNREACH);
}

TEST(Sockets, LinkLocalAddressesUseTheDevicesInterface) {
  const SecondNetwork network;
  ASSERT_TRUE(network.ready());
  ASSERT_TRUE(ip("address add fe80::9:1/64 dev left nodad"));
  std::vector<Lease> leases;
  {
    const SecondNetwork::Visit visit{network};
    ASSERT_TRUE(ip("address add fe80::9:2/64 dev right nodad"));
    leases = make_leases(1);
  }
  ReceiveSocket receiver{leases[0].socket_fd, true};
  TransmitSocket sender = open_or_die({.ifindex = if_nametoindex("left")});
  IpAddress here{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1}}, there = here;
  there.bytes[15] = 2;
  Batch batch{here, there, 100, 3};
  EXPECT_EQ(sender.send(batch.transmit).error, 0);
  const auto packets = receive_all(receiver, 3);  // neighbour discovery comes first
  expect_numbered(packets, 3, 100);
  EXPECT_EQ(packets[0].about.source, here);
  EXPECT_EQ(packets[0].about.destination, there);
}

// Packets to a neighbour whose link-layer address is not known yet wait in the kernel on the sending socket's account:
// so its buffer runs full. When the address is known they leave, and packets refused with EAGAIN can follow.
void expect_resumes_after_full_buffer(bool gso, bool connected = false) {
  const SecondNetwork network;
  ASSERT_TRUE(network.ready());
  std::vector<Lease> leases;
  {
    const SecondNetwork::Visit visit{network};
    ASSERT_TRUE(ip("link set right arp off"));
    leases = make_leases(1);
  }
  ReceiveSocket receiver{leases[0].socket_fd, true, {.buffer_bytes = 4 << 20}};
  TransmitSocket sender = open_or_die({.gso = gso, .send_buffer_bytes = 20'000});
  Batch batch{kHere, kThere, 1044, 8};
  if (connected) {
    ASSERT_TRUE(ip("neighbour replace 10.9.0.2 lladdr 02:00:00:00:09:02 dev left nud permanent"));
    for (unsigned i = 0; i < PeerSockets::kBatchesToConnect; ++i) ASSERT_FALSE(sender.send(batch.transmit).blocked);
    ASSERT_EQ(sender.connected(), 1u);
    ASSERT_EQ(receive_all(receiver, PeerSockets::kBatchesToConnect * 8).size(), PeerSockets::kBatchesToConnect * 8);
    ASSERT_TRUE(ip("neighbour del 10.9.0.2 dev left"));
  }
  unsigned sent = 0;
  SendReport report;
  while (!report.blocked && sent < 1000) {
    report = sender.send(batch.transmit);
    ASSERT_EQ(report.refused, 0u);
    if (!report.blocked) ++sent;
  }
  ASSERT_TRUE(report.blocked);
  EXPECT_TRUE(sender.send(batch.transmit).blocked);  // still
  ASSERT_TRUE(ip("neighbour replace 10.9.0.2 lladdr 02:00:00:00:09:02 dev left nud permanent"));
  EXPECT_EQ(sender.blocked_fd() == sender.fd(), !connected);
  pollfd writable{sender.blocked_fd(), POLLOUT, 0};
  ASSERT_EQ(poll(&writable, 1, 5000), 1);
  report = sender.send(batch.transmit);
  EXPECT_FALSE(report.blocked);
  EXPECT_EQ(report.refused, 0u);
  const auto packets = receive_all(receiver, (sent + 1) * 8);
  EXPECT_EQ(packets.size(), (sent + 1) * 8);
  for (std::size_t i = 0; i < packets.size(); ++i)
    ASSERT_EQ(packets[i].bytes[0], static_cast<std::byte>(i % 8 + 1)) << "packet " << i << " of " << packets.size();
}
TEST(Sockets, FullSendBufferBlocksAndResumes) { expect_resumes_after_full_buffer(true); }
TEST(Sockets, FullSendBufferBlocksAndResumesWithoutGso) { expect_resumes_after_full_buffer(false); }
TEST(Sockets, FullSendBufferOfAConnectedSocketBlocksAndResumes) { expect_resumes_after_full_buffer(true, true); }

// The promise behind the credit: as many packets and bytes as receive_budget() states fit, singly and unread.
TEST(Sockets, StatedCreditFitsTheBuffer) {
  for (const std::uint16_t size : std::array<std::uint16_t, 5>{60, 300, 1044, 2068, 4116}) {
    auto leases = make_leases(1);
    ReceiveSocket receiver{leases[0].socket_fd, true, {.gro = false, .buffer_bytes = 500'000}};
    TransmitSocket sender = open_or_die();
    const ReceiveBudget budget = receive_budget(receiver.buffer_bytes());
    Batch batch{kLoopback4, kLoopback4, size, 1};
    const std::size_t packets = std::min<std::size_t>(budget.packets, budget.bytes / size);
    ASSERT_GT(packets, 0u);
    for (std::size_t i = 0; i < packets; ++i) ASSERT_EQ(sender.send(batch.transmit).refused, 0u);
    std::array<std::uint32_t, SK_MEMINFO_VARS> info{};
    socklen_t length = sizeof(info);
    ASSERT_EQ(getsockopt(receiver.fd(), SOL_SOCKET, SO_MEMINFO, info.data(), &length), 0);
    EXPECT_LE(info[SK_MEMINFO_RMEM_ALLOC] / packets, kChargePerPacket + size * kChargeNumerator / kChargeDenominator)
        << size;
    EXPECT_EQ(receive_all(receiver, packets).size(), packets) << size;
    EXPECT_EQ(receiver.take_overflow(), 0u);
  }
}

TEST(Sockets, OverflowIsCounted) {
  auto leases = make_leases(1);
  ReceiveSocket receiver{leases[0].socket_fd, true, {.buffer_bytes = 20'000}};
  TransmitSocket sender = open_or_die();
  Batch batch{kLoopback4, kLoopback4, 1044, 1};
  constexpr std::size_t kSent = 200;
  for (std::size_t i = 0; i < kSent; ++i) ASSERT_EQ(sender.send(batch.transmit).refused, 0u);
  const std::size_t first = receive_all(receiver, 1).size();
  EXPECT_LT(first, kSent);
  ASSERT_EQ(sender.send(batch.transmit).refused, 0u);  // reports the error
  EXPECT_EQ(receive_all(receiver, 1).size(), 1u);
  EXPECT_EQ(receiver.take_overflow(), kSent - first);
  EXPECT_EQ(receiver.take_overflow(), 0u);
}

// The most used peers have a connected socket of their own: the same packets, from the same port.
TEST(Sockets, PeersSentToMostAreConnected) {
  for (const bool v4 : {true, false}) {
    const IpAddress loopback = v4 ? kLoopback4 : kLoopback6;
    auto leases = make_leases(1);
    ReceiveSocket receiver{leases[0].socket_fd, true};
    TransmitSocket sender = open_or_die();
    Batch batch{loopback, loopback, 100, 3};
    Batch single{loopback, loopback, 100, 1};
    batch.transmit.traffic_class = single.transmit.traffic_class = 0x28;
    for (unsigned i = 0; i < 2 * PeerSockets::kBatchesToConnect; ++i) {
      EXPECT_EQ(sender.connected(), i < PeerSockets::kBatchesToConnect ? 0u : 1u) << i;
      EXPECT_EQ(sender.send(i % 2 == 0 ? batch.transmit : single.transmit).refused, 0u);
      const std::size_t sent = i % 2 == 0 ? 3 : 1;
      const auto packets = receive_all(receiver, sent);
      expect_numbered(packets, sent, 100);
      EXPECT_EQ(packets[0].about.source_port, sender.port());
      EXPECT_EQ(packets[0].about.source, loopback);
      EXPECT_EQ(packets[0].about.destination, loopback);
      EXPECT_EQ(packets[0].about.traffic_class, 0x28);
    }
    // Nobody else has the port; and no packet gets into the connected socket either.
    TransmitSocket other = open_or_die();
    EXPECT_NE(other.port(), sender.port());
  }
}

// Their ICRC covers the identification, which a connected socket increments.
TEST(Sockets, StandardPacketsGoByTheUnconnectedSocket) {
  auto leases = make_leases(1);
  ReceiveSocket receiver{leases[0].socket_fd, true};
  TransmitSocket sender = open_or_die();
  Batch batch{kLoopback4, kLoopback4, 100, 1};
  batch.transmit.standard = true;
  for (unsigned i = 0; i < 2 * PeerSockets::kBatchesToConnect; ++i) EXPECT_EQ(sender.send(batch.transmit).refused, 0u);
  EXPECT_EQ(sender.connected(), 0u);
  EXPECT_EQ(receive_all(receiver, 2 * PeerSockets::kBatchesToConnect).size(), 2 * PeerSockets::kBatchesToConnect);
}

TEST(Sockets, MorePeersThanPlacesGiveWay) {
  TransmitSocket sender = open_or_die();
  for (std::uint8_t peer = 1; peer <= 2 * PeerSockets::kPeersMax; ++peer) {
    Batch batch{kLoopback4, IpAddress::v4(127, 0, 1, peer), 100, 1};
    for (unsigned i = 0; i < PeerSockets::kBatchesToConnect; ++i) EXPECT_EQ(sender.send(batch.transmit).refused, 0u);
    EXPECT_EQ(sender.connected(), std::min<std::size_t>(peer, PeerSockets::kPeersMax));
  }
  // In turn, none often enough in a row: they still leave, by the unconnected one.
  for (unsigned i = 0; i < 4 * PeerSockets::kBatchesToConnect; ++i) {
    Batch batch{kLoopback4, IpAddress::v4(127, 0, 2, static_cast<std::uint8_t>(1 + i % 2)), 100, 1};
    EXPECT_EQ(sender.send(batch.transmit).refused, 0u);
  }
  EXPECT_EQ(sender.connected(), PeerSockets::kPeersMax);
}

// Over IPv6 a port unreachable comes back as the error of the next send on a connected socket, which then has not sent.
TEST(Sockets, APeerWithoutAListenerIsReportedAndNothingIsLost) {
  const int listener = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(listener, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = to_in6_addr(kLoopback6);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  TransmitSocket sender = open_or_die({.destination_port = ntohs(address.sin6_port)});
  Batch batch{kLoopback6, kLoopback6, 100, 1};
  const auto send_some = [&] {
    unsigned unreachable = 0;
    for (unsigned i = 0; i < 2 * PeerSockets::kBatchesToConnect; ++i) {
      const SendReport report = sender.send(batch.transmit);
      EXPECT_EQ(report.refused, 0u);
      unreachable += report.unreachable ? 1 : 0;
    }
    return unreachable;
  };
  const auto expect_all_and_no_more = [](int fd) {
    std::array<std::byte, 200> ignored;
    unsigned arrived = 0;
    for (pollfd readable{fd, POLLIN, 0}; arrived < 2 * PeerSockets::kBatchesToConnect; ++arrived) {
      ASSERT_EQ(poll(&readable, 1, kPatienceMs), 1) << "after " << arrived;
      ASSERT_GT(recv(fd, ignored.data(), ignored.size(), 0), 0);
    }
    EXPECT_EQ(recv(fd, ignored.data(), ignored.size(), MSG_DONTWAIT), -1);
  };
  EXPECT_EQ(send_some(), 0u);
  EXPECT_EQ(sender.connected(), 1u);
  expect_all_and_no_more(listener);
  close(listener);
  EXPECT_GT(send_some(), 0u);
  EXPECT_EQ(sender.connected(), 1u) << "as good as before";
  const int again = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(again, reinterpret_cast<const sockaddr*>(&address), size), 0);
  EXPECT_LE(send_some(), 1u) << "the last one's error";
  expect_all_and_no_more(again);
  close(again);
}

// Nobody empties a sending socket's receive buffer, so nothing may get into it.
TEST(Sockets, SendingSocketsReceiveNothing) {
  TransmitSocket victim = open_or_die();
  TransmitSocket sender = open_or_die({.destination_port = victim.port()});
  Batch batch{kLoopback4, kLoopback4, 100, 4};
  EXPECT_EQ(sender.send(batch.transmit).refused, 0u);
  std::byte byte;
  EXPECT_EQ(recv(victim.fd(), &byte, 1, MSG_DONTWAIT), -1);
}

TEST(Sockets, SteeredByTheLowByteOfTheQpn) {
  auto leases = make_leases(4);
  TransmitSocket sender = open_or_die();
  std::vector<ReceiveSocket> receivers;
  for (auto& lease : leases) receivers.emplace_back(lease.socket_fd, true);
  for (unsigned slot = 0; slot < 4; ++slot) {
    Batch batch{kLoopback4, kLoopback4, 100, 5};
    for (unsigned i = 0; i < 5; ++i) batch.bytes[i * 100 + 7] = static_cast<std::byte>(test::kFirstSlot + slot);
    EXPECT_EQ(sender.send(batch.transmit).refused, 0u);
  }
  for (auto& receiver : receivers) expect_numbered(receive_all(receiver, 5), 5, 100);
}

}  // namespace
}  // namespace brdma::io
