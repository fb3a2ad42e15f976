// Identifiers of RDMA-CM, their connections, events, ports and addresses.
#include "support/cm/rdma_cms.h"

namespace brdma::cm {
namespace {

TEST_F(RdmaCms, FromBindToDestroy) {
  const IdNumber listening = listener();
  const IdNumber active = resolved();
  ASSERT_TRUE(a_.connect(active, parameters(0x111, "hello"), {}, now_).ok());
  carry();

  const RdmaEvent request = fetch(b_, Kind::kConnectRequest);
  EXPECT_EQ(request.user, 0xB0u);
  EXPECT_EQ(request.counted, listening);
  EXPECT_NE(request.id, listening);
  EXPECT_EQ(request.parameters.qpn, 0x111u);
  EXPECT_EQ(request.parameters.responder_resources, 5) << "what the other may ask for is what we must hold";
  EXPECT_EQ(request.parameters.initiator_depth, 3);
  EXPECT_EQ(request.parameters.private_data_length, 56) << "the whole field: its length is not on the wire";
  EXPECT_EQ(words(request), "hello");
  const auto passive_route = b_.query(request.id).value();
  EXPECT_EQ(passive_route.local, (SocketAddress{kAddressB, 7174}));
  EXPECT_EQ(passive_route.remote, (SocketAddress{kAddressA, 40'000}));
  EXPECT_EQ(passive_route.device->guid, 0xBu);
  EXPECT_TRUE(passive_route.resolved);

  const auto early = [&](QpState state) { return b_.queue_pair_setting(request.id, state).value().attributes; };
  EXPECT_EQ(early(QpState::kRtr).max_dest_rd_atomic, 5) << "before the answer: what the request said";
  EXPECT_EQ(early(QpState::kRts).max_rd_atomic, 3);

  ASSERT_TRUE(b_.accept(request.id, 0xB1, parameters(0x222, "welcome"), {}, now_).ok());
  carry();
  const RdmaEvent response = fetch(a_, Kind::kConnectResponse);
  EXPECT_EQ(response.user, 0xA0u);
  EXPECT_EQ(words(response), "welcome");

  const auto a_rtr = a_.queue_pair_setting(active, QpState::kRtr).value();
  const auto a_rts = a_.queue_pair_setting(active, QpState::kRts).value();
  const auto b_rtr = b_.queue_pair_setting(request.id, QpState::kRtr).value();
  const auto b_rts = b_.queue_pair_setting(request.id, QpState::kRts).value();
  EXPECT_EQ(a_rtr.mask, 0x129181u);
  EXPECT_EQ(a_rts.mask, 0x12E01u);
  EXPECT_EQ(a_.queue_pair_setting(active, QpState::kInit).value().mask, 0x39u);
  EXPECT_EQ(a_rtr.attributes.destination_qpn, 0x222u);
  EXPECT_EQ(b_rtr.attributes.destination_qpn, 0x111u);
  EXPECT_EQ(a_rtr.attributes.receive_psn, request_.first_psn) << "the one who asks says where the other begins";
  EXPECT_EQ(b_rtr.attributes.receive_psn, reply_.first_psn);
  EXPECT_EQ(a_rtr.attributes.receive_psn, b_rts.attributes.send_psn);
  EXPECT_EQ(b_rtr.attributes.receive_psn, a_rts.attributes.send_psn);
  EXPECT_EQ(a_rtr.attributes.path_mtu, PathMtu::k4096);
  EXPECT_EQ(a_rtr.attributes.peer_address, kAddressB);
  EXPECT_EQ(a_rts.attributes.max_rd_atomic, b_rtr.attributes.max_dest_rd_atomic);
  EXPECT_EQ(b_rts.attributes.max_rd_atomic, a_rtr.attributes.max_dest_rd_atomic);
  EXPECT_EQ(b_rts.attributes.retry_count, 6);
  EXPECT_EQ(request_.path.ack_timeout, 19) << "as a kernel's request has it: wire_cm_messages_test.cc";
  EXPECT_EQ(a_rts.attributes.timeout, 19);
  EXPECT_EQ(b_rts.attributes.timeout, 19);
  EXPECT_EQ(passive_route.packet_life_time, 18);

  ASSERT_TRUE(a_.confirm(active).ok());
  carry();
  EXPECT_EQ(fetch(b_, Kind::kEstablished).user, 0xB1u);
  ASSERT_TRUE(a_.disconnect(active, now_).ok());
  carry();
  fetch(a_, Kind::kDisconnected);
  fetch(b_, Kind::kDisconnected);
  EXPECT_TRUE(b_.disconnect(request.id, now_).ok()) << "the peer was faster: still no error";
  now_ = now_ + 1_s;
  a_.handle_timeout(now_);
  b_.handle_timeout(now_);
  fetch(a_, Kind::kTimeWaitExit);
  EXPECT_EQ(a_.destroy(active, now_).value(), 5u);
  EXPECT_EQ(b_.destroy(request.id, now_).value(), 2u) << "time-wait's end was not fetched";
  EXPECT_EQ(b_.destroy(listening, now_).value(), 1u);
  EXPECT_EQ(a_.ids() + b_.ids(), 0u);
  EXPECT_TRUE(machine_a_.taken_.empty());
  EXPECT_TRUE(machine_b_.taken_.empty());
}

// Two hosts on one link, whose interfaces have different indices; each names its own.
class LinkLocal : public RdmaCms {
 protected:
  static constexpr std::uint32_t kLinkA = 7, kLinkB = 9;
  static IpAddress link_local(std::uint8_t last) {
    return IpAddress{{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}};
  }
  // The sender's addresses, with the receiver's interface.
  static Endpoints seen(const OutgoingMad& out, std::uint32_t scope) {
    return {out.endpoints.remote, out.endpoints.local, scope};
  }
  IdNumber ask(const std::optional<SocketAddress>& source, const SocketAddress& destination, Kind then) {
    const IdNumber id = asks_.create(kChannel, 0xA0).value();
    EXPECT_TRUE(asks_.resolve_address(id, source, destination).ok());
    fetch(asks_, then);
    return id;
  }
  Machine here_{link_local(1), 0xA, kLinkA}, there_{link_local(2), 0xB, kLinkB};
  RdmaCm asks_{config(0xA), here_}, serves_{config(0xB), there_};
};

TEST_F(LinkLocal, MessagesNameTheInterfaceOnBothSides) {
  const IdNumber listening = serves_.create(kChannel, 0xB0).value();
  ASSERT_TRUE(serves_.bind(listening, {IpAddress{}, 7174}).ok());
  ASSERT_TRUE(serves_.listen(listening, 0).ok());
  const IdNumber active = ask(std::nullopt, {link_local(2), 7174, kLinkA}, Kind::kAddressResolved);
  EXPECT_EQ(asks_.query(active).value().local.scope, kLinkA);
  ASSERT_TRUE(asks_.resolve_route(active).ok());
  fetch(asks_, Kind::kRouteResolved);
  ASSERT_TRUE(asks_.connect(active, parameters(0x111), {}, now_).ok());
  OutgoingMad out;
  ASSERT_TRUE(asks_.poll_send(out));
  EXPECT_EQ(out.endpoints, (Endpoints{link_local(1), link_local(2), kLinkA}));

  serves_.handle_mad(seen(out, kLinkB), out.mad, now_);
  const RdmaEvent request = fetch(serves_, Kind::kConnectRequest);
  const auto route = serves_.query(request.id).value();
  EXPECT_EQ(route.local.scope, kLinkB);
  EXPECT_EQ(route.remote.scope, kLinkB);
  ASSERT_TRUE(serves_.accept(request.id, 0xB1, parameters(0x222), {}, now_).ok());
  ASSERT_TRUE(serves_.poll_send(out));
  EXPECT_EQ(out.endpoints.scope, kLinkB);
  asks_.handle_mad(seen(out, kLinkA + 1), out.mad, now_);
  EXPECT_FALSE(asks_.fetch_event(kChannel)) << "the same address on another link is another peer";
  asks_.handle_mad(seen(out, kLinkA), out.mad, now_);
  fetch(asks_, Kind::kConnectResponse);
}

TEST_F(LinkLocal, AnAddressNeedsItsInterface) {
  const IdNumber id = asks_.create(kChannel, 1).value();
  EXPECT_EQ(asks_.bind(id, {link_local(1), 0}).error(), EINVAL);
  EXPECT_EQ(asks_.bind(id, {link_local(1), 0, kLinkA + 1}).error(), ENODEV);
  EXPECT_TRUE(asks_.bind(id, {link_local(1), 0, kLinkA}).ok());
  const SocketAddress bound{link_local(1), 0, kLinkA};
  ask(std::nullopt, {link_local(2), 7174}, Kind::kAddressError);
  ask(bound, {link_local(2), 7174, kLinkA + 1}, Kind::kAddressError);
  ask(bound, {link_local(2), 7174}, Kind::kAddressResolved);  // the source selects it
}

TEST_F(LinkLocal, AListenerOnOneLinkGetsNothingOfAnother) {
  const IdNumber listening = serves_.create(kChannel, 0xB0).value();
  ASSERT_TRUE(serves_.bind(listening, {link_local(2), 7174, kLinkB}).ok());
  ASSERT_TRUE(serves_.listen(listening, 0).ok());
  const IdNumber active = ask(std::nullopt, {link_local(2), 7174, kLinkA}, Kind::kAddressResolved);
  ASSERT_TRUE(asks_.resolve_route(active).ok());
  ASSERT_TRUE(asks_.connect(active, parameters(0x111), {}, now_).ok());
  OutgoingMad out;
  ASSERT_TRUE(asks_.poll_send(out));
  serves_.handle_mad(seen(out, kLinkB + 1), out.mad, now_);
  EXPECT_FALSE(serves_.fetch_event(kChannel));
}

TEST_F(RdmaCms, RefusedByNobodyAndByTheProgram) {
  IdNumber active = resolved();
  ASSERT_TRUE(a_.connect(active, parameters(1), {}, now_).ok());
  carry();
  EXPECT_EQ(fetch(a_, Kind::kRejected).status, 8);
  EXPECT_EQ(a_.disconnect(active, now_).error(), 0);
  listener();
  active = resolved();
  ASSERT_TRUE(a_.connect(active, parameters(1), {}, now_).ok());
  carry();
  const IdNumber child = fetch(b_, Kind::kConnectRequest).id;
  const std::array<std::byte, 3> no{std::byte{'n'}, std::byte{'o'}, std::byte{0}};
  ASSERT_TRUE(b_.reject(child, 0, no, now_).ok());
  carry();
  const RdmaEvent rejected = fetch(a_, Kind::kRejected);
  EXPECT_EQ(rejected.status, 28);
  EXPECT_EQ(words(rejected), "no");
  EXPECT_EQ(b_.accept(child, 1, parameters(2), {}, now_).error(), EINVAL);
}

TEST_F(RdmaCms, RequestsThatNobodyHasFetchedEndWithTheirListener) {
  const IdNumber listening = listener(2);
  std::vector<IdNumber> actives;
  for (std::uint32_t i = 0; i < 3; ++i) {
    actives.push_back(resolved());
    ASSERT_TRUE(a_.connect(actives.back(), parameters(0x100 + i), {}, now_).ok());
  }
  carry();
  EXPECT_EQ(fetch(a_, Kind::kRejected).status, 3) << "beyond the backlog";
  EXPECT_EQ(b_.ids(), 3u);
  EXPECT_EQ(machine_b_.waiting[kChannel], 2);
  EXPECT_EQ(b_.destroy(listening, now_).value(), 0u);
  EXPECT_EQ(machine_b_.waiting[kChannel], 0);
  EXPECT_EQ(b_.ids(), 0u);
  carry();
  EXPECT_EQ(fetch(a_, Kind::kRejected).status, 28);
  EXPECT_EQ(fetch(a_, Kind::kRejected).status, 28);
}

TEST_F(RdmaCms, RequestsThatWaitCountInTheBacklogOfASecondListen) {
  const IdNumber listening = listener(2);
  const auto connect = [&](std::uint32_t qpn) {
    ASSERT_TRUE(a_.connect(resolved(), parameters(qpn), {}, now_).ok());
    carry();
  };
  for (std::uint32_t i = 0; i < 2; ++i) connect(0x100 + i);
  ASSERT_TRUE(b_.listen(listening, 3).ok());
  connect(0x200);
  EXPECT_FALSE(a_.fetch_event(kChannel)) << "one more than before";
  connect(0x201);
  EXPECT_EQ(fetch(a_, Kind::kRejected).status, 3);
  ASSERT_TRUE(b_.listen(listening, 1).ok());
  for (int i = 0; i < 2; ++i) fetch(b_, Kind::kConnectRequest);
  connect(0x202);
  EXPECT_EQ(fetch(a_, Kind::kRejected).status, 3) << "one waits, and one may";
  fetch(b_, Kind::kConnectRequest);
  connect(0x203);
  fetch(b_, Kind::kConnectRequest);
}

TEST_F(RdmaCms, NobodyIsThere) {
  const IdNumber active = resolved();
  ASSERT_TRUE(a_.connect(active, parameters(1), {}, now_).ok());
  for (auto next = a_.next_timeout(); next; next = a_.next_timeout()) {
    now_ = *next;
    a_.handle_timeout(now_);
    OutgoingMad lost;
    while (a_.poll_send(lost)) {
    }
  }
  EXPECT_EQ(fetch(a_, Kind::kUnreachable).status, -ETIMEDOUT);
}

TEST_F(RdmaCms, AddressesThatDoNotResolve) {
  IdNumber id = a_.create(kChannel, 1).value();
  const SocketAddress v6{IpAddress{{0xFD, 1}}, 1};
  ASSERT_TRUE(a_.resolve_address(id, std::nullopt, v6).ok());
  EXPECT_EQ(fetch(a_, Kind::kAddressError).status, -ENETUNREACH);
  id = a_.create(kChannel, 1).value();
  EXPECT_EQ(a_.bind(id, {kAddressB, 1}).error(), ENODEV) << "not an address of this host";
  EXPECT_EQ(a_.resolve_route(id).error(), EINVAL);
  EXPECT_EQ(a_.connect(id, parameters(1), {}, now_).error(), EINVAL);
  EXPECT_EQ(a_.queue_pair_setting(id, QpState::kInit).reason().error(), EINVAL);
}

// As in the kernel: bound to, it is every address; connected to, it is a device's own.
TEST_F(RdmaCms, LoopbackIsAnyAddress) {
  const SocketAddress loopback{IpAddress::v4(127, 0, 0, 1), 98};
  const IdNumber passive = a_.create(kChannel, 1).value(), active = a_.create(kChannel, 2).value();
  ASSERT_TRUE(a_.bind(passive, loopback).ok());
  EXPECT_FALSE(a_.query(passive).value().device);
  EXPECT_TRUE(a_.listen(passive, 1).ok());
  ASSERT_TRUE(a_.resolve_address(active, std::nullopt, loopback).ok());
  fetch(a_, Kind::kAddressResolved);
  const RouteInfo route = a_.query(active).value();
  EXPECT_EQ(route.local.address, kAddressA);
  EXPECT_EQ(route.remote, (SocketAddress{kAddressA, 98}));
}

TEST_F(RdmaCms, PortsAreTakenAndGivenBack) {
  const IdNumber first = a_.create(kChannel, 1).value(), second = a_.create(kChannel, 2).value();
  ASSERT_TRUE(a_.bind(first, {kAny, 99}).ok());
  EXPECT_EQ(a_.bind(second, {kAny, 99}).error(), EADDRINUSE);
  EXPECT_EQ(a_.bind(first, {kAny, 100}).error(), EINVAL) << "bound already";
  ASSERT_TRUE(a_.destroy(first, now_));
  EXPECT_TRUE(a_.bind(second, {kAny, 99}).ok());
  EXPECT_EQ(second, 1u);
  EXPECT_EQ(a_.create(kChannel, 3).value(), 0u) << "the lowest number that is free";
}

TEST_F(RdmaCms, AnIdentifierTakesItsEventsToAnotherChannel) {
  const IdNumber listening = listener();
  ASSERT_TRUE(a_.connect(resolved(), parameters(1), {}, now_).ok());
  carry();
  EXPECT_EQ(b_.migrate(listening, kChannel).value(), 0u) << "where it is";
  EXPECT_EQ(machine_b_.waiting[kChannel], 1);
  EXPECT_EQ(b_.migrate(listening, kOther).value(), 0u);
  EXPECT_EQ(machine_b_.waiting[kChannel], 0);
  EXPECT_EQ(machine_b_.waiting[kOther], 1);
  const RdmaEvent request = fetch(b_, Kind::kConnectRequest, kOther);
  ASSERT_TRUE(b_.accept(request.id, 0xB1, parameters(2), {}, now_).ok());
  EXPECT_EQ(b_.migrate(request.id, kChannel).value(), 0u);
  carry();
  ASSERT_TRUE(a_.confirm(fetch(a_, Kind::kConnectResponse).id).ok());
  carry();
  fetch(b_, Kind::kEstablished, kChannel);
}

// Linux 6.18: an event that a program, or its librdmacm, writes to itself.
TEST_F(RdmaCms, AnEventOfTheProgramsOwnWaitsBehindTheOthers) {
  const IdNumber id = a_.create(kChannel, 0xA0).value();
  ASSERT_TRUE(a_.resolve_address(id, std::nullopt, {kAddressB, 7174}).ok());
  ASSERT_TRUE(a_.write_event(id, Kind::kUser, -5, 0x1122'3344'5566'7788).ok());
  ASSERT_TRUE(a_.write_event(id, Kind::kInternal, 0, 16).ok());
  fetch(a_, Kind::kAddressResolved);
  const RdmaEvent own = fetch(a_, Kind::kUser);
  EXPECT_EQ(own.id, id);
  EXPECT_EQ(own.user, 0xA0u);
  EXPECT_EQ(own.status, -5);
  EXPECT_EQ(own.argument, 0x1122'3344'5566'7788u);
  EXPECT_EQ(fetch(a_, Kind::kInternal).argument, 16u);
  EXPECT_EQ(a_.write_event(id, Kind::kEstablished, 0, 0).error(), EINVAL) << "only the connection manager says so";
  EXPECT_EQ(a_.write_event(id + 1, Kind::kUser, 0, 0).error(), ENOENT);
  EXPECT_EQ(a_.destroy(id, now_).value(), 3u) << "all of which the program must acknowledge";

  // A request that is not accepted has no program's identifier for an event.
  (void)listener();
  const IdNumber active = resolved();
  ASSERT_TRUE(a_.connect(active, parameters(0x111), {}, now_).ok());
  carry();
  const RdmaEvent request = fetch(b_, Kind::kConnectRequest);
  EXPECT_EQ(b_.write_event(request.id, Kind::kUser, 0, 0).error(), EINVAL);
}

// A thread has read the count of an event, and before it fetches the event another one destroys the identifier. It
// would wait for the next event, which may never come.
TEST_F(RdmaCms, AReaderThatWasToldOfAnEventFindsOne) {
  const IdNumber id = a_.create(kChannel, 0xA0).value();
  ASSERT_TRUE(a_.resolve_address(id, std::nullopt, {kAddressB, 7174}).ok());
  ASSERT_TRUE(a_.write_event(id, Kind::kUser, 0, 1).ok());
  machine_a_.told_reader(kChannel);
  EXPECT_EQ(a_.destroy(id, now_).value(), 1u) << "it waits for this one to be acknowledged";
  EXPECT_EQ(machine_a_.waiting[kChannel], 0);
  const IdNumber next = a_.create(kChannel, 0xA1).value();
  EXPECT_EQ(next, id);
  EXPECT_EQ(fetch(a_, Kind::kAddressResolved).user, 0xA0u);
  EXPECT_FALSE(a_.fetch_event(kChannel));
  EXPECT_EQ(a_.destroy(next, now_).value(), 0u) << "not its own";
}

TEST_F(RdmaCms, AReaderThatWasToldOfAnEventFindsItWhereItWas) {
  const IdNumber id = a_.create(kChannel, 0xA0).value();
  for (const std::uint64_t argument : {1, 2}) ASSERT_TRUE(a_.write_event(id, Kind::kUser, 0, argument).ok());
  machine_a_.told_reader(kChannel);
  EXPECT_EQ(a_.migrate(id, kOther).value(), 1u);
  EXPECT_EQ(machine_a_.waiting[kOther], 1);
  EXPECT_EQ(fetch(a_, Kind::kUser).argument, 1u);
  machine_a_.told_reader(kOther);
  EXPECT_EQ(fetch(a_, Kind::kUser, kOther).argument, 2u);
  EXPECT_EQ(a_.destroy(id, now_).value(), 2u);
}

TEST_F(RdmaCms, AnEventIsFreshForAMillisecond) {
  const IdNumber listening = listener();
  ASSERT_TRUE(a_.connect(resolved(), parameters(0x111), {}, now_).ok());
  EXPECT_FALSE(b_.has_fresh_event(listening, now_));
  carry();
  EXPECT_TRUE(b_.has_fresh_event(listening, now_ + 999_us));
  EXPECT_FALSE(b_.has_fresh_event(listening, now_ + 1_ms));
  EXPECT_FALSE(b_.has_fresh_event(listening + 1, now_)) << "another's";
  fetch(b_, Kind::kConnectRequest);
  EXPECT_FALSE(b_.has_fresh_event(listening, now_));
}

// Its peer is not refused: the program sees the request, which outlives its listener.
TEST_F(RdmaCms, AReaderThatWasToldOfARequestFindsIt) {
  const IdNumber listening = listener(2);
  for (const std::uint32_t qpn : {0x111u, 0x112u}) {
    ASSERT_TRUE(a_.connect(resolved(), parameters(qpn), {}, now_).ok());
  }
  carry();
  machine_b_.told_reader(kChannel);
  EXPECT_EQ(b_.destroy(listening, now_).value(), 1u);
  EXPECT_EQ(b_.ids(), 1u);
  const RdmaEvent request = fetch(b_, Kind::kConnectRequest);
  EXPECT_EQ(request.parameters.qpn, 0x111u);
  carry();
  EXPECT_EQ(fetch(a_, Kind::kRejected).status, 28) << "the second one's";
  EXPECT_TRUE(b_.accept(request.id, 0xB1, parameters(2), {}, now_).ok());
  carry();
  fetch(a_, Kind::kConnectResponse);
}

TEST_F(RdmaCms, AChannelThatClosesEndsItsConnections) {
  listener();
  ASSERT_TRUE(a_.connect(resolved(), parameters(1), {}, now_).ok());
  carry();
  const IdNumber child = fetch(b_, Kind::kConnectRequest).id;
  ASSERT_TRUE(b_.accept(child, 1, parameters(2), {}, now_).ok());
  carry();
  ASSERT_TRUE(a_.confirm(fetch(a_, Kind::kConnectResponse).id).ok());
  carry();
  b_.close_channel(kChannel, now_);
  EXPECT_EQ(b_.ids(), 0u);
  carry();
  fetch(a_, Kind::kDisconnected);
}

TEST_F(RdmaCms, TheMoreExactListenerIsAsked) {
  listener();
  const IdNumber exact = b_.create(kOther, 0xB2).value();
  machine_b_.taken_.erase(7174);  // two may share a port with different addresses: the host checks that
  ASSERT_TRUE(b_.bind(exact, {kAddressB, 7174}).ok());
  ASSERT_TRUE(b_.listen(exact, 0).ok());
  ASSERT_TRUE(a_.connect(resolved(), parameters(1), {}, now_).ok());
  carry();
  EXPECT_EQ(fetch(b_, Kind::kConnectRequest, kOther).counted, exact);
}

TEST_F(RdmaCms, NumbersThatNobodyHas) {
  EXPECT_EQ(a_.destroy(7, now_).reason().error(), ENOENT);
  EXPECT_EQ(a_.bind(7, {}).error(), ENOENT);
  EXPECT_EQ(a_.listen(7, 1).error(), ENOENT);
  EXPECT_EQ(a_.query(7).reason().error(), ENOENT);
  EXPECT_EQ(a_.confirm(7).error(), ENOENT);
  EXPECT_EQ(a_.migrate(7, 1).reason().error(), ENOENT);
  const IdNumber id = resolved();
  ConnectParameters much = parameters(1);
  much.private_data_length = 57;
  EXPECT_EQ(a_.connect(id, much, {}, now_).error(), EINVAL);
}

// tests docs/explanation/daemon.md: what survives what
TEST_F(RdmaCms, PortsThatAreForgottenWhileTheyAreAskedAboutAreTakenAgain) {
  const IdNumber bound = b_.create(kChannel, 1).value(), id = b_.create(kChannel, 2).value();
  ASSERT_TRUE(b_.bind(bound, {kAny, 7173}).ok());
  ASSERT_TRUE(b_.bind(id, {kAny, 7174}).ok());
  machine_b_.forget_at_next_question = true;
  EXPECT_TRUE(b_.listen(id, 1).ok());
  EXPECT_THAT(machine_b_.taken_, testing::ElementsAre(7173, 7174));
}

TEST_F(RdmaCms, ABoundIdentifierGetsEventsOfItsDevicesAddressesAndEnd) {
  const IdNumber on_any = listener(), on_address = b_.create(kChannel, 3).value();
  ASSERT_TRUE(b_.bind(on_address, {kAddressB, 7175}).ok());
  b_.addresses_changed(0xB);
  EXPECT_FALSE(b_.fetch_event(kChannel).has_value()) << "it is still there";
  machine_b_.address_ = IpAddress::v4(10, 0, 0, 77);
  b_.addresses_changed(0xA);
  EXPECT_FALSE(b_.fetch_event(kChannel).has_value()) << "of another device";
  b_.addresses_changed(0xB);
  b_.addresses_changed(0xB);
  EXPECT_EQ(fetch(b_, Kind::kAddressChange).id, on_address);
  machine_b_.address_ = kAddressB;
  b_.addresses_changed(0xB);
  machine_b_.address_ = IpAddress::v4(10, 0, 0, 77);
  b_.addresses_changed(0xB);
  EXPECT_EQ(fetch(b_, Kind::kAddressChange).user, 3u) << "was back, and is gone again";
  b_.device_removed(0xB);
  b_.device_removed(0xB);
  EXPECT_EQ(fetch(b_, Kind::kDeviceRemoval).id, on_address);
  EXPECT_FALSE(b_.fetch_event(kChannel).has_value()) << "once; and not to who listens everywhere";
  EXPECT_TRUE(b_.destroy(on_any, now_).ok());
}

}  // namespace
}  // namespace brdma::cm
