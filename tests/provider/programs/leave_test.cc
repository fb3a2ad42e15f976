// Before a queue pair forgets its peer (destroyed, moved to RESET or ERR, as in rdma_disconnect) it repeats its last
// acknowledgement. Otherwise a peer that missed it would retransmit until its retries run out, or find its sends
// flushed when the disconnection arrives. Counted on the wire.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <span>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

constexpr std::size_t kUdpBytes = 8;
constexpr std::uint16_t kRocePort = 4791;
struct Offload {  // before each message, with PACKET_VNET_HDR: struct virtio_net_hdr, whose header C++ does not take
  std::uint8_t flags, gso_type;
  std::uint16_t header_bytes, gso_size, checksum_start, checksum_offset;
};
constexpr std::uint8_t kCapsOpcode = 0xE0;

// Receives all packets on lo.
class Listener {
 public:
  Listener() : fd_(::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL))) {
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(::if_nametoindex("lo"));
    const int on = 1;  // metadata with the packet's header offset
    EXPECT_EQ(::setsockopt(fd_, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on), 0) << std::strerror(errno);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0) << std::strerror(errno);
  }
  ~Listener() { ::close(fd_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Bytes of RoCE payload for that queue pair since the last call, without CAPS, which may still be exchanged. lo hands
  // a datagram over within the send call, so nothing is in flight.
  std::size_t bytes_for(std::uint32_t qpn) {
    std::size_t sum = 0;
    std::array<std::uint8_t, 65536> packet{};
    for (;;) {
      sockaddr_ll from{};
      socklen_t from_bytes = sizeof from;
      const ssize_t got =
          ::recvfrom(fd_, packet.data(), packet.size(), 0, reinterpret_cast<sockaddr*>(&from), &from_bytes);
      if (got < 0) return sum;
      if (from.sll_pkttype == PACKET_OUTGOING) continue;  // each is seen leaving, too
      sum += roce_bytes({packet.data(), static_cast<std::size_t>(got)}, qpn);
    }
  }

 private:
  // Of one message, which may be several packets: for each its destination.
  static std::size_t roce_bytes(std::span<const std::uint8_t> message, std::uint32_t qpn) {
    Offload offload{};
    if (message.size() < sizeof offload + ETH_HLEN + 1) return 0;
    std::memcpy(&offload, message.data(), sizeof offload);
    message = message.subspan(sizeof offload + ETH_HLEN);
    const std::size_t ip = message[0] >> 4 == 4 ? (message[0] & 0xFu) * 4 : 40;
    if (message.size() < ip + kUdpBytes) return 0;
    const std::uint8_t* const udp = message.data() + ip;
    if ((udp[2] << 8 | udp[3]) != kRocePort) return 0;
    std::size_t sum = 0;
    for (auto rest = message.subspan(ip + kUdpBytes); rest.size() >= 12;) {
      const std::size_t size =
          offload.gso_size == 0 ? rest.size() : std::min<std::size_t>(offload.gso_size, rest.size());
      const std::uint32_t destination = std::uint32_t{rest[5]} << 16 | std::uint32_t{rest[6]} << 8 | rest[7];
      if (destination == qpn && rest[0] != kCapsOpcode) sum += size;
      rest = rest.subspan(size);
    }
    return sum;
  }
  int fd_;
};

class Leaving : public testing::Test {
 protected:
  // Else queue pairs of one host still exchange CAPS while the first message is sent: that counts, too.
  static Side make() {
    ::setenv("BRDMA_LOCAL", "0", 1);
    return Side::make();
  }
  Leaving() : a(make()), b(make()) { connect(a, b); }

  // `a` has sent, and has its acknowledgement; nothing is due. Returns the bytes that `b` sends to it because of
  // `leave`.
  std::size_t acknowledged_when(const std::function<int()>& leave) {
    ibv_sge sge = a.sge(0, 64);
    EXPECT_EQ(post_receive(b, 1, 0, 64), 0);
    EXPECT_EQ(post_send(a, send_request(sge)), 0);
    EXPECT_EQ(wait_completion(b.cq.get()).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
    const std::uint32_t qpn = a.qp->qp_num;
    EXPECT_GT(listener.bytes_for(qpn), 0u) << "the acknowledgement itself";
    EXPECT_EQ(leave(), 0);
    return listener.bytes_for(qpn);
  }
  int move_to(ibv_qp_state state) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    return ibv_modify_qp(b.qp.get(), &attributes, IBV_QP_STATE);
  }
  Listener listener;
  Side a, b;
};

constexpr std::size_t kSmallestAcks = 3 * (12 + 4 + 4);  // three with BTH, AETH and ICRC

TEST_F(Leaving, ByDestruction) {
  EXPECT_GE(acknowledged_when([this] { return ibv_destroy_qp(b.qp.release()); }), kSmallestAcks);
}

TEST_F(Leaving, ByAMoveToErr) {
  EXPECT_GE(acknowledged_when([this] { return move_to(IBV_QPS_ERR); }), kSmallestAcks);
}

TEST_F(Leaving, ByAMoveToReset) {
  EXPECT_GE(acknowledged_when([this] { return move_to(IBV_QPS_RESET); }), kSmallestAcks);
}

TEST_F(Leaving, WithoutLeavingNothingIsRepeated) {
  EXPECT_EQ(acknowledged_when([this] { return move_to(IBV_QPS_SQD); }), 0u);
}

// The peer's acknowledged packets lie in our socket when the queue pair leaves: they count. (With a network device they
// would have been taken out long ago; a library that closes a connection does not poll first.)
TEST_F(Leaving, AfterWhatHasArrivedAlready) {
  const auto move = [](Side& side, ibv_qp_state state) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    ASSERT_EQ(ibv_modify_qp(side.qp.get(), &attributes, IBV_QP_STATE), 0);
  };
  ibv_sge sge = a.sge(0, 64);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(post_receive(b, 1, 0, 64), 0);
    ASSERT_EQ(post_send(a, send_request(sge)), 0);
    ASSERT_EQ(wait_completion(b.cq.get()).status, IBV_WC_SUCCESS);
    move(a, IBV_QPS_ERR);
    ASSERT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS) << "round " << i;
    for (Side* side : {&a, &b}) move(*side, IBV_QPS_RESET);
    connect(a, b);
  }
}

}  // namespace
}  // namespace brdma::test
