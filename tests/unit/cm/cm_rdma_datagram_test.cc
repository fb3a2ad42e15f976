// RDMA-CM's datagram services: SIDR instead of a connection; groups.
#include "support/cm/rdma_cms.h"

namespace brdma::cm {
namespace {

class RdmaDatagrams : public RdmaCms {
 protected:
  IdNumber datagram_listener(std::uint32_t backlog = 0) {
    const IdNumber id = b_.create(kChannel, 0xB0, wire::PortSpace::kUdp).value();
    EXPECT_TRUE(b_.bind(id, {kAny, 7174}).ok());
    EXPECT_TRUE(b_.listen(id, backlog).ok());
    return id;
  }
  IdNumber datagram_resolved() {
    const IdNumber id = a_.create(kChannel, 0xA0, wire::PortSpace::kUdp).value();
    EXPECT_TRUE(a_.resolve_address(id, std::nullopt, {kAddressB, 7174}).ok());
    fetch(a_, Kind::kAddressResolved);
    EXPECT_TRUE(a_.resolve_route(id).ok());
    fetch(a_, Kind::kRouteResolved);
    return id;
  }
};

TEST_F(RdmaDatagrams, TheQueuePairBehindAPortIsReported) {
  const IdNumber listening = datagram_listener();
  const IdNumber active = datagram_resolved();
  ASSERT_TRUE(a_.connect(active, parameters(0x111, "hello"), {}, now_).ok());
  carry();
  const RdmaEvent request = fetch(b_, Kind::kConnectRequest);
  EXPECT_EQ(request.user, 0xB0u);
  EXPECT_EQ(request.counted, listening);
  ASSERT_TRUE(request.datagram);
  EXPECT_EQ(request.parameters.private_data_length, 180);
  EXPECT_EQ(words(request), "hello");
  EXPECT_EQ(b_.query(request.id).value().remote.address, kAddressA);
  const auto init = b_.queue_pair_setting(request.id, QpState::kInit);
  ASSERT_TRUE(init.ok());
  EXPECT_EQ(init.value().attributes.qkey, kDatagramQkey);
  EXPECT_EQ(init.value().mask, kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrQkey);

  ASSERT_TRUE(b_.accept(request.id, 0xB1, parameters(0x222, "welcome"), {}, now_).ok());
  carry();
  const RdmaEvent established = fetch(a_, Kind::kEstablished);
  EXPECT_EQ(established.user, 0xA0u);
  ASSERT_TRUE(established.datagram);
  EXPECT_EQ(established.datagram->qpn, 0x222u);
  EXPECT_EQ(established.datagram->qkey, kDatagramQkey);
  EXPECT_EQ(established.datagram->address, kAddressB);
  EXPECT_EQ(established.datagram->sgid_index, 1);
  EXPECT_EQ(words(established), "welcome");
  EXPECT_EQ(established.parameters.private_data_length, 136);
  EXPECT_FALSE(b_.fetch_event(kChannel)) << "the responder gets no further event";
  EXPECT_EQ(a_.disconnect(active, now_).error(), EINVAL) << "there is no connection";
  EXPECT_EQ(a_.destroy(active, now_).value(), 3u);
  EXPECT_EQ(b_.destroy(request.id, now_).value(), 0u);
  EXPECT_EQ(b_.destroy(listening, now_).value(), 1u);
}

TEST_F(RdmaDatagrams, RefusalsAndSilenceAreUnreachable) {
  const IdNumber active = datagram_resolved();
  ASSERT_TRUE(a_.connect(active, parameters(1), {}, now_).ok());
  carry();
  EXPECT_EQ(fetch(a_, Kind::kUnreachable).status, sidr_status::kUnsupported) << "nobody listens";

  const IdNumber listening = datagram_listener();
  const IdNumber refused = datagram_resolved();
  ASSERT_TRUE(a_.connect(refused, parameters(1), {}, now_).ok());
  carry();
  const RdmaEvent request = fetch(b_, Kind::kConnectRequest);
  const std::array<std::byte, 3> no{std::byte{'n'}, std::byte{'o'}, std::byte{0}};
  ASSERT_TRUE(b_.reject(request.id, 0, no, now_).ok());
  carry();
  const RdmaEvent reply = fetch(a_, Kind::kUnreachable);
  EXPECT_EQ(reply.status, sidr_status::kRejected);
  EXPECT_EQ(words(reply), "no");

  (void)b_.destroy(listening, now_);
  const IdNumber unheard = datagram_resolved();
  ASSERT_TRUE(a_.connect(unheard, parameters(1), {}, now_).ok());
  for (int i = 0; i < 100 && a_.next_timeout(); ++i) {
    now_ = *a_.next_timeout();
    a_.handle_timeout(now_);
    OutgoingMad lost;
    while (a_.poll_send(lost)) continue;
  }
  EXPECT_EQ(fetch(a_, Kind::kUnreachable).status, -ETIMEDOUT);
}

// Ports of the two kinds are different ports, and destroying either end leaves nothing behind.
TEST_F(RdmaDatagrams, PortsOfBothKindsStandBesideEachOther) {
  machine_b_.taken_.clear();
  const IdNumber datagrams = datagram_listener();
  machine_b_.taken_.clear();  // the machine of this test knows one port space only
  const IdNumber connections = listener();
  const IdNumber active = datagram_resolved();
  ASSERT_TRUE(a_.connect(active, parameters(1), {}, now_).ok());
  carry();
  const RdmaEvent request = fetch(b_, Kind::kConnectRequest);
  EXPECT_EQ(request.counted, datagrams);
  ASSERT_TRUE(b_.destroy(request.id, now_).ok());
  carry();
  EXPECT_EQ(fetch(a_, Kind::kUnreachable).status, sidr_status::kRejected);
  (void)b_.destroy(connections, now_);
}

// In the port space of IB the identifier selects the kind of queue pair.
TEST_F(RdmaDatagrams, ThePortSpaceOfIbHasDatagramsToo) {
  const auto in_ib = [](RdmaCm& side, QpType type) {
    return side.create(kChannel, 1, wire::PortSpace::kIb, type).value();
  };
  const IdNumber listening = in_ib(b_, QpType::kUd), connections = in_ib(b_, QpType::kRc);
  ASSERT_TRUE(b_.bind(listening, {kAny, 7174}).ok());
  ASSERT_TRUE(b_.listen(listening, 0).ok());
  machine_b_.taken_.clear();
  ASSERT_TRUE(b_.bind(connections, {kAddressB, 7174}).ok()) << "one address of the port, by reuse";
  EXPECT_EQ(b_.listen(connections, 0).error(), EADDRINUSE) << "a service is of one kind";
  const IdNumber active = in_ib(a_, QpType::kUd);
  ASSERT_TRUE(a_.resolve_address(active, std::nullopt, {kAddressB, 7174}).ok());
  fetch(a_, Kind::kAddressResolved);
  ASSERT_TRUE(a_.resolve_route(active).ok());
  fetch(a_, Kind::kRouteResolved);
  ASSERT_TRUE(a_.connect(active, parameters(1), {}, now_).ok());
  OutgoingMad asked;
  ASSERT_TRUE(a_.poll_send(asked));
  const auto mad = wire::parse_cm(asked.mad);
  ASSERT_TRUE(mad && std::holds_alternative<wire::CmSidrReq>(mad->message));
  EXPECT_EQ(std::get<wire::CmSidrReq>(mad->message).service_id, 0x0000'0000'013F'0000u | 7174);
  b_.handle_mad({asked.endpoints.remote, asked.endpoints.local}, asked.mad, now_);
  const RdmaEvent request = fetch(b_, Kind::kConnectRequest);
  ASSERT_TRUE(request.datagram);
  ASSERT_TRUE(b_.accept(request.id, 1, parameters(0x222), {}, now_).ok());
  carry();
  EXPECT_EQ(fetch(a_, Kind::kEstablished).datagram->qpn, 0x222u);
}

TEST_F(RdmaDatagrams, AnEndingServiceRepeatsItsReplies) {
  (void)datagram_listener();
  const IdNumber active = datagram_resolved();
  ASSERT_TRUE(a_.connect(active, parameters(1), {}, now_).ok());
  carry();
  ASSERT_TRUE(b_.accept(fetch(b_, Kind::kConnectRequest).id, 1, parameters(2), {}, now_).ok());
  OutgoingMad lost;
  ASSERT_TRUE(b_.poll_send(lost));
  b_.destroy_all(now_);
  ASSERT_TRUE(b_.poll_send(lost));
  carry();
  fetch(a_, Kind::kEstablished);
}

TEST_F(RdmaDatagrams, AGroupIsJoinedAndLeft) {
  const IdNumber id = datagram_resolved();
  const SocketAddress group{IpAddress::v4(239, 1, 1, 1)};
  EXPECT_EQ(a_.multicast().join(id, 0xA1, {kAddressB}).reason().error(), EINVAL) << "no group";
  EXPECT_EQ(a_.multicast().join(resolved(), 0xA1, group).reason().error(), EINVAL) << "connections have no groups";
  const IdNumber membership = a_.multicast().join(id, 0xA1, group).value();
  const RdmaEvent joined = fetch(a_, Kind::kMulticastJoin);
  EXPECT_EQ(joined.user, 0xA1u) << "the program's pointer of the membership";
  ASSERT_TRUE(joined.datagram);
  EXPECT_EQ(joined.datagram->qpn, kMulticastQpn);
  EXPECT_EQ(joined.datagram->qkey, kDatagramQkey);
  EXPECT_EQ(joined.datagram->address, group.address);
  EXPECT_EQ(a_.multicast().leave(membership).value(), 1u);
  EXPECT_EQ(a_.multicast().leave(membership).reason().error(), ENOENT);
  const IdNumber unread = a_.multicast().join(id, 0xA2, group).value();
  EXPECT_EQ(a_.multicast().leave(unread).value(), 0u);
  EXPECT_FALSE(a_.fetch_event(kChannel)) << "its event went with it";
  EXPECT_EQ(a_.destroy(id, now_).value(), 3u) << "events of groups count for the identifier too";
}

}  // namespace
}  // namespace brdma::cm
