// A peer offers another path (LAP) to a program with the real librdmacm: it is refused, and the connection continues.
// The peer is this test: its messages go through brdmad and over the network like others.
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <variant>

#include "io/cm/cm_link.h"
#include "provider/rdma_cm/rdma_cm_ids.h"
#include "wire/cm/cm_address.h"
#include "wire/cm/cm_messages.h"

namespace brdma::test {
namespace {

const IpAddress kHere = test_ip4();
constexpr std::uint32_t kQpn = 0x111;

class Peer {
 public:
  Peer() { EXPECT_EQ(link_.open().error, 0); }
  [[nodiscard]] std::uint32_t id() const { return std::uint32_t{link_.prefix()} << 16 | 1; }
  void say(const wire::CmMessage& message) {
    io::CmFrame frame{.kind = io::CmFrameKind::kMad, .local = kHere, .remote = kHere};
    wire::emit_cm({.transaction = 7, .message = message}, frame.mad);
    link_.send(frame);
  }
  // The next message of this kind. MRAs, and repetitions of the message before, which a busy machine may cause, are
  // skipped.
  template <class Message>
  Message next() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
    while (std::chrono::steady_clock::now() < end) {
      pollfd fd{link_.fd(), POLLIN, 0};
      (void)::poll(&fd, 1, 100);
      for (const io::CmFrame& frame : link_.receive()) {
        const auto mad = wire::parse_cm(frame.mad);
        if (!mad || std::holds_alternative<wire::CmMra>(mad->message)) continue;
        const bool wanted = std::holds_alternative<Message>(mad->message);
        if (!wanted && mad->message.index() == before_) continue;
        EXPECT_TRUE(wanted) << "variant " << mad->message.index();
        before_ = mad->message.index();
        if (const auto* message = std::get_if<Message>(&mad->message)) return *message;
      }
    }
    ADD_FAILURE() << "nothing came";
    return {};
  }
  // Connects to the listener there and confirms; returns the other side's id.
  std::uint32_t connect(std::uint16_t port, const Channel& server, rdma_cm_id*& child) {
    wire::CmReq req;
    req.local_comm_id = id();
    req.service_id = wire::service_id(wire::PortSpace::kTcp, port);
    req.qpn = kQpn;
    req.path_mtu_code = 3;
    req.path.local_gid = req.path.remote_gid = kHere;
    wire::emit_cm_address({.source_port = 40'000, .source = kHere, .destination = kHere}, req.private_data.data());
    say(req);
    EXPECT_EQ(next_event(server, &child), RDMA_CM_EVENT_CONNECT_REQUEST);
    make_qp(child);
    accept(child);
    const std::uint32_t theirs = next<wire::CmRep>().local_comm_id;
    say(wire::CmRtu{.local_comm_id = id(), .remote_comm_id = theirs, .private_data = {}});
    EXPECT_EQ(next_event(server), RDMA_CM_EVENT_ESTABLISHED);
    return theirs;
  }

 private:
  io::CmLink link_;
  std::size_t before_ = std::variant_npos;  // which message came last
};

TEST(AlternatePath, IsRefusedAndTheConnectionStays) {
  Channel server;
  Id listener(server);
  const std::uint16_t port = listen_somewhere(listener.id);
  Peer peer;
  rdma_cm_id* child = nullptr;
  const std::uint32_t theirs = peer.connect(port, server, child);
  ASSERT_FALSE(HasFailure());

  peer.say(wire::CmLap{.local_comm_id = peer.id() + 1, .remote_comm_id = theirs});  // not the connection's: unanswered
  peer.say(wire::CmApr{.local_comm_id = peer.id(), .remote_comm_id = theirs});      // unsolicited: ignored
  peer.say(wire::CmLap{.local_comm_id = peer.id(), .remote_comm_id = theirs});
  const auto apr = peer.next<wire::CmApr>();
  EXPECT_EQ(apr.local_comm_id, theirs);
  EXPECT_EQ(apr.remote_comm_id, peer.id());
  EXPECT_EQ(apr.status, wire::kAprUnsupported);

  ibv_qp_attr attributes{};
  ibv_qp_init_attr made{};
  ASSERT_EQ(ibv_query_qp(child->qp, &attributes, IBV_QP_STATE, &made), 0);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_RTS);
  peer.say(wire::CmDreq{
      .local_comm_id = peer.id(), .remote_comm_id = theirs, .remote_qpn = child->qp->qp_num, .private_data = {}});
  EXPECT_EQ(peer.next<wire::CmDrep>().local_comm_id, theirs);
  EXPECT_EQ(next_event(server), RDMA_CM_EVENT_DISCONNECTED) << "until now nothing had happened";
  rdma_destroy_qp(child);
  EXPECT_EQ(rdma_destroy_id(child), 0);
}

}  // namespace
}  // namespace brdma::test
