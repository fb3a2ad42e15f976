// Two processes on one interface, a queue each. AF_XDP puts packets on the other end, too: on its queue N, they come by
// queue N.
#include <gtest/gtest.h>
#include <net/if.h>
#include <poll.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "found_steering.h"
#include "io/xdp/xdp_socket.h"
#include "io/xdp/xdp_transmit.h"
#include "private_network.h"
#include "xdp/xdp_grant.h"
#include "xdp/xdp_steering.h"

namespace brdma::test {
namespace {

constexpr int kPatienceMs = 20'000;
constexpr std::uint32_t kChunks = 256;

std::optional<daemon::XdpGrant> grant(const char* interface, std::uint32_t slot, bool receive) {
  daemon::XdpWish wish;
  wish.ifindex = if_nametoindex(interface);
  wish.slot = slot;
  wish.mode = io::XdpMode::kNative;
  wish.receive_chunks = receive ? kChunks : 0;
  wish.transmit_chunks = receive ? 0 : kChunks;
  auto granted = grant_xdp_there(wish);
  if (granted) return std::move(granted).value();
  return std::nullopt;
}

class XdpQueues : public testing::Test {
 protected:
  void SetUp() override {
    const char* const queues = " numtxqueues 2 numrxqueues 2 ";
    ASSERT_TRUE(ip(std::string{"link add near"} + queues + "type veth peer name far" + queues));
    ASSERT_TRUE(ip("link set near up") && ip("link set far up"));
    ASSERT_TRUE(wait_until_running("near") && wait_until_running("far"));
    if (!daemon::XdpSteering::attach(if_nametoindex("far"), 1500, daemon::XdpHook::kDriver)) GTEST_SKIP() << "not root";
    for (std::uint32_t i = 0; i < 2; ++i) {
      auto in = grant("far", kSlots[i], true), out = grant("near", 0, false);
      ASSERT_TRUE(in && out);
      EXPECT_EQ(in->queue, i);
      EXPECT_EQ(out->queue, i);
      io::XdpReply reply;
      reply.receive_chunks = kChunks;
      auto receiver = io::XdpSocket::open({std::move(in->socket), std::move(in->memory), std::move(in->link)}, reply);
      reply.receive_chunks = 0;
      reply.transmit_chunks = kChunks;
      auto sender = io::XdpTransmit::open(out->socket.get(), out->memory.get(), reply);
      ASSERT_TRUE(receiver && sender);
      receivers_[i].emplace(std::move(receiver).value());
      senders_[i].emplace(std::move(sender).value());
    }
  }
  void TearDown() override { ip("link delete near 2>/dev/null"); }

  void send(std::size_t queue, std::uint32_t slot) {
    std::array<std::byte, 64> packet{};
    store_be32(packet.data(), 0x0400'FFFF);
    store_be32(&packet[4], 0x2000 | slot);
    const Slice slice{packet.data(), packet.size()};
    Transmit batch;
    batch.source = IpAddress::v4(10, 0, 0, 1);
    batch.destination = IpAddress::v4(10, 0, 0, 2);
    batch.segments = 1;
    batch.segment_bytes = static_cast<std::uint16_t>(packet.size());
    batch.bytes = static_cast<std::uint32_t>(packet.size());
    batch.slices = {&slice, 1};
    const io::NextHop hop{{2, 0, 0, 0, 0, 2}, {2, 0, 0, 0, 0, 1}, 1500};
    EXPECT_EQ(senders_[queue]->send(batch, {.hop = &hop, .source_port = 0xC000}).outcome,
              io::XdpTransmit::Report::Outcome::kSent);
  }
  [[nodiscard]] bool receive(std::size_t queue, int patience_ms) {
    io::ReceivedMessage message;
    while (!receivers_[queue]->receive(message)) {
      pollfd readable{receivers_[queue]->fd(), POLLIN, 0};
      if (poll(&readable, 1, patience_ms) <= 0) return false;
    }
    return true;
  }

  static constexpr std::array<std::uint32_t, 2> kSlots{7, 8};
  std::array<std::optional<io::XdpSocket>, 2> receivers_;
  std::array<std::optional<io::XdpTransmit>, 2> senders_;
};

TEST_F(XdpQueues, EachTakesItsOwnSlotsPacketsOfItsOwnQueue) {
  send(0, kSlots[1]);  // by the other's queue: left to the kernel, that is to UDP
  send(1, kSlots[0]);
  send(0, kSlots[0]);
  send(1, kSlots[1]);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(receive(i, kPatienceMs)) << i;
    EXPECT_FALSE(receive(i, 0)) << i;
  }
}

TEST_F(XdpQueues, OneThatEndsLeavesTheOtherAlone) {
  receivers_[0].reset();
  senders_[0].reset();
  EXPECT_TRUE(daemon::XdpSteering::find(if_nametoindex("far")).link.valid());
  send(1, kSlots[1]);
  EXPECT_TRUE(receive(1, kPatienceMs));
  receivers_[1].reset();
  EXPECT_FALSE(daemon::XdpSteering::find(if_nametoindex("far")).link.valid());
}

TEST_F(XdpQueues, ADeletedInterfaceIsNoEndlessWait) {
  ASSERT_TRUE(ip("link delete near"));
  EXPECT_FALSE(receive(0, 0));
  pollfd readable{receivers_[0]->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&readable, 1, 0), 0) << "a thread that sleeps on it would spin";
}

}  // namespace
}  // namespace brdma::test
