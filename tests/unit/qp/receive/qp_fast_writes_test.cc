// qp/receive/fast_writes.h: which WRITEs take the fast path, and that they do the same as on the general one.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "support/responder_parts.h"

namespace brdma::qp {
namespace {

using Kind = ReceivedMessages::Kind;
using wire::RcOp;

constexpr std::uint32_t kMtu = test::ResponderParts::kMtu, kMsn = test::ResponderParts::kMsn;
constexpr std::uint32_t kLength = 4 * kMtu;  // of the long WRITE

// A long WRITE is in progress where a test begins it: its First packet has been executed.
struct Fast : test::ResponderParts {
  Fast() {
    identity.attributes.access = kAccessRemoteWrite;
    bytes.fill(std::byte{0});
    data.fill(std::byte{7});
  }
  [[nodiscard]] wire::SingleWrite single(std::size_t size = 100) const {
    wire::SingleWrite write;
    write.psn = window.base();
    write.path = 1;
    write.timestamp = 500;
    write.reth = {.address = kStart, .rkey = region->key, .length = static_cast<std::uint32_t>(size)};
    write.payload = ConstBytes{data}.first(size);
    return write;
  }
  void begin_long() {
    messages.set_reth({.address = kStart, .rkey = region->key, .length = kLength});
    messages.go_on(Kind::kWrite, kMtu);
  }
  [[nodiscard]] wire::Packet middle() const {
    wire::Packet packet;
    packet.op = RcOp::kWriteMiddle;
    packet.bitmap = true;
    packet.bth.psn = window.base();
    packet.bxth.path = 1;
    packet.bxth.timestamp = 500;
    packet.reth = {.address = kStart + kMtu, .rkey = region->key, .length = kLength};
    packet.payload = ConstBytes{data}.first(kMtu);
    return packet;
  }
  bool take_middle(const wire::Packet& packet) { return fast_writes().take_middle(packet, now); }
  [[nodiscard]] bool is_written(std::size_t at, std::size_t size) const {
    return std::ranges::all_of(ConstBytes{bytes}.subspan(at, size), [](std::byte one) { return one == std::byte{7}; });
  }
  // As if the packet had not come.
  void expect_nothing() {
    EXPECT_EQ(window.base(), Psn{1010});
    EXPECT_EQ(messages.msn(), kMsn);
    EXPECT_FALSE(ack.pending());
    EXPECT_FALSE(echo.valid());
    EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte one) { return one == std::byte{0}; }));
  }

  std::array<std::byte, 2 * kMtu> data{};
};

// Why a packet takes the general path.
struct Obstacle {
  const char* what;
  void (*raise)(Fast&);
};
constexpr Obstacle kObstacles[] = {
    {"the connection is not established", [](Fast& responder) { responder.established = false; }},
    {"a packet is missing", [](Fast& responder) { responder.window.receive(Psn{1012}); }},
    {"the state of missing packets has not ended", [](Fast& responder) { responder.room().begin(); }},
    {"the peer sends on several paths",
     [](Fast& responder) {
       responder.identity.receiving_paths = 2;
       responder.tolerance.on_path(0, responder.environment, responder.identity, responder.now);
     }},
    {"another packet is next", [](Fast& responder) { responder.window.advance_over(1); }},
};

TEST(FastSingleWrites, OneInTurnIsExecuted) {
  Fast responder;
  responder.connection.bitmap_seen = false;
  responder.base_packet.refuse();
  const wire::SingleWrite write = responder.single();
  std::byte* const to = responder.fast_writes().place_of(write);
  ASSERT_EQ(to, responder.bytes.data());
  responder.expect_nothing();
  EXPECT_TRUE(responder.fast_writes().take(write, to, responder.now));
  EXPECT_TRUE(responder.is_written(0, 100));
  EXPECT_EQ(responder.bytes[100], std::byte{0});
  EXPECT_EQ(responder.window.base(), Psn{1011});
  EXPECT_EQ(responder.messages.msn(), kMsn + 1);
  EXPECT_EQ(responder.count(Counter::kWriteRequests), 1U);
  EXPECT_TRUE(responder.connection.bitmap_seen);
  EXPECT_FALSE(responder.base_packet.is_refused());
  EXPECT_TRUE(responder.ack.pending());
  EXPECT_EQ(responder.echo.timestamp(), 500U);
  EXPECT_EQ(responder.echo.path(), 1U);
}

TEST(FastSingleWrites, AllOthersTakeTheGeneralPath) {
  for (const Obstacle& one : kObstacles) {
    Fast responder;
    const wire::SingleWrite write = responder.single();
    one.raise(responder);
    EXPECT_EQ(responder.fast_writes().place_of(write), nullptr) << one.what;
  }
  constexpr Obstacle kMore[] = {
      {"an error has ended it", [](Fast& responder) { responder.halted = true; }},
      {"not connected", [](Fast& responder) { responder.connection.started = false; }},
      {"inside a message", [](Fast& responder) { responder.begin_long(); }},
      {"no right", [](Fast& responder) { responder.identity.attributes.access = kAccessRemoteRead; }},
      {"a smaller MTU", [](Fast& responder) { responder.mtu = 64; }},
      {"the region is gone", [](Fast& responder) { (void)responder.memory.remove(responder.region); }},
  };
  for (const Obstacle& one : kMore) {
    Fast responder;
    const wire::SingleWrite write = responder.single();
    one.raise(responder);
    EXPECT_EQ(responder.fast_writes().place_of(write), nullptr) << one.what;
    responder.expect_nothing();
  }
}

TEST(FastSingleWrites, AnAcknowledgementIsDueWhereThePeerAsks) {
  for (const bool asked : {true, false}) {
    Fast responder;
    wire::SingleWrite write = responder.single();
    write.ack_request = asked;
    EXPECT_TRUE(responder.fast_writes().take(write, responder.bytes.data(), responder.now));
    EXPECT_EQ(responder.times().due(responder.now), asked);
  }
}

TEST(FastSingleWrites, AWatcherSeesIt) {
  Fast responder;
  ASSERT_TRUE(responder.memory.watch(responder.region, true, nullptr).ok());
  EXPECT_TRUE(responder.fast_writes().take(responder.single(), responder.bytes.data(), responder.now));
  EXPECT_EQ(responder.environment.notices.arrivals.size(), 1U);
}

TEST(FastMiddlePackets, TheNextOneIsExecuted) {
  for (const bool bitmap : {true, false}) {
    Fast responder;
    responder.bitmap = bitmap;
    responder.begin_long();
    wire::Packet packet = responder.middle();
    packet.bitmap = bitmap;
    if (!bitmap) packet.reth = {};
    packet.bth.ack_request = true;
    EXPECT_TRUE(responder.take_middle(packet));
    EXPECT_TRUE(responder.is_written(kMtu, kMtu));
    EXPECT_EQ(responder.window.base(), Psn{1011});
    EXPECT_EQ(responder.messages.bytes(), 2 * kMtu);
    EXPECT_EQ(responder.messages.packets(), 2U);
    EXPECT_EQ(responder.messages.msn(), kMsn) << "the message is not complete";
    EXPECT_TRUE(responder.ack.pending());
    EXPECT_EQ(responder.echo.valid(), bitmap);
    EXPECT_EQ(responder.connection.bitmap_seen, bitmap);
  }
}

TEST(FastMiddlePackets, AllOthersTakeTheGeneralPath) {
  for (const Obstacle& one : kObstacles) {
    Fast responder;
    responder.begin_long();
    const wire::Packet packet = responder.middle();
    one.raise(responder);
    EXPECT_FALSE(responder.take_middle(packet)) << one.what;
  }
  struct Case {
    const char* what;
    void (*change)(Fast&, wire::Packet&);
  };
  constexpr Case kCases[] = {
      {"nothing has begun", [](Fast& responder, wire::Packet&) { responder.messages.abandon(); }},
      {"a Last packet", [](Fast&, wire::Packet& packet) { packet.op = RcOp::kWriteLast; }},
      {"of a SEND", [](Fast& responder, wire::Packet&) { responder.messages.go_on(Kind::kSend, kMtu); }},
      {"not the MTU", [](Fast&, wire::Packet& packet) { packet.payload = packet.payload.first(kMtu - 1); }},
      {"the rest of the message",
       [](Fast& responder, wire::Packet&) { responder.messages.go_on(Kind::kWrite, kLength - kMtu); }},
      {"another place", [](Fast&, wire::Packet& packet) { packet.reth.address += kMtu; }},
      {"another key", [](Fast&, wire::Packet& packet) { ++packet.reth.rkey; }},
      {"another length", [](Fast&, wire::Packet& packet) { ++packet.reth.length; }},
      {"of an operation", [](Fast&, wire::Packet& packet) { packet.bxth.operation_packets = 4; }},
      {"by reference", [](Fast&, wire::Packet& packet) { packet.bxth.operation = wire::Bxth::kByReference; }},
      {"the region is gone", [](Fast& responder, wire::Packet&) { (void)responder.memory.remove(responder.region); }},
      {"the first of several paths", [](Fast& responder, wire::Packet&) { responder.identity.receiving_paths = 2; }},
  };
  for (const Case& one : kCases) {
    Fast responder;
    responder.begin_long();
    wire::Packet packet = responder.middle();
    one.change(responder, packet);
    EXPECT_FALSE(responder.take_middle(packet)) << one.what;
    responder.expect_nothing();
  }
}

}  // namespace
}  // namespace brdma::qp
