// RDMA-CM as a program sees it: two hosts' identifiers over a wire, with the host's answers (ports, routes, devices)
// given by the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <utility>

#include "cm/rdma_cm.h"

namespace brdma::cm {
namespace {

constexpr IpAddress kAddressA = IpAddress::v4(10, 0, 0, 1), kAddressB = IpAddress::v4(10, 0, 0, 2),
                    kAny = IpAddress::v4(0, 0, 0, 0);
constexpr ChannelNumber kChannel = 5, kOther = 6;
using Kind = RdmaEventKind;

// One interface with one address; every other is reached through it.
class Machine : public RdmaHost {
 public:
  explicit Machine(const IpAddress& address, std::uint64_t guid) : address_(address), guid_(guid) {}
  Result<std::uint16_t, Status> take_port(wire::PortSpace, const SocketAddress& address, const PortOptions&) override {
    const std::uint16_t port = address.port == 0 ? next_port_++ : address.port;
    if (!taken_.insert(port).second) return Status{EADDRINUSE};
    return port;
  }
  Status listen_port(wire::PortSpace, const SocketAddress& address) override {
    if (std::exchange(forget_at_next_question, false)) {
      taken_.clear();
      forgot_ = true;
    }
    return taken_.contains(address.port) ? Status::success() : Status{EINVAL};
  }
  bool lost_ports() override { return std::exchange(forgot_, false); }
  void release_port(wire::PortSpace, const SocketAddress& address) override { taken_.erase(address.port); }
  Result<IpAddress, Status> source_for(const SocketAddress& to) override {
    if (!to.address.is_v4()) return Status{ENETUNREACH};
    return address_;
  }
  std::optional<LocalDevice> device_of(const IpAddress& local) override {
    if (local != address_) return std::nullopt;
    return LocalDevice{guid_, 1, PathMtu::k4096};
  }
  void event_added(ChannelNumber channel) override { ++waiting[channel]; }
  void events_removed(ChannelNumber channel, std::uint32_t count) override { waiting[channel] -= count; }

  std::map<ChannelNumber, std::int64_t> waiting;
  std::set<std::uint16_t> taken_;
  bool forget_at_next_question = false;  // the daemon starts anew while it is asked
  IpAddress address_;

 private:
  bool forgot_ = false;
  std::uint64_t guid_;
  std::uint16_t next_port_ = 40'000;
};

class RdmaCms : public testing::Test {
 protected:
  static Config config(std::uint16_t prefix) {
    Config config;
    config.id_prefix = prefix;
    config.seed = prefix;
    return config;
  }
  void carry() {
    OutgoingMad out;
    for (bool any = true; any;) {
      any = false;
      while (a_.poll_send(out)) {
        any = true;
        note(out.mad);
        b_.handle_mad({out.endpoints.remote, out.endpoints.local}, out.mad, now_);
      }
      while (b_.poll_send(out)) {
        any = true;
        note(out.mad);
        a_.handle_mad({out.endpoints.remote, out.endpoints.local}, out.mad, now_);
      }
    }
  }
  void note(wire::MadBytes mad) {
    const auto cm = wire::parse_cm(mad);
    if (const auto* req = cm ? std::get_if<wire::CmReq>(&cm->message) : nullptr) request_ = *req;
    if (const auto* rep = cm ? std::get_if<wire::CmRep>(&cm->message) : nullptr) reply_ = *rep;
  }
  // The next event of a side, which must be of this kind.
  RdmaEvent fetch(RdmaCm& side, Kind kind, ChannelNumber channel = kChannel) {
    const auto event = side.fetch_event(channel);
    if (!event) {
      ADD_FAILURE() << "no event, instead of " << static_cast<int>(kind);
      return {};
    }
    EXPECT_EQ(event->kind, kind);
    return *event;
  }
  IdNumber listener(std::uint32_t backlog = 0) {
    const IdNumber id = b_.create(kChannel, 0xB0).value();
    EXPECT_TRUE(b_.bind(id, {kAny, 7174}).ok());
    EXPECT_TRUE(b_.listen(id, backlog).ok());
    return id;
  }
  IdNumber resolved(std::uint64_t user = 0xA0) {
    const IdNumber id = a_.create(kChannel, user).value();
    EXPECT_TRUE(a_.resolve_address(id, std::nullopt, {kAddressB, 7174}).ok());
    fetch(a_, Kind::kAddressResolved);
    EXPECT_TRUE(a_.resolve_route(id).ok());
    fetch(a_, Kind::kRouteResolved);
    return id;
  }
  static ConnectParameters parameters(std::uint32_t qpn, std::string_view words = "") {
    ConnectParameters parameters;
    parameters.qpn = qpn;
    parameters.responder_resources = 3;
    parameters.initiator_depth = 5;
    parameters.retry_count = 6;
    parameters.rnr_retry_count = 7;
    parameters.private_data_length = static_cast<std::uint8_t>(words.size());
    std::memcpy(parameters.private_data.data(), words.data(), words.size());
    return parameters;
  }
  static std::string words(const RdmaEvent& event) {
    return std::string(reinterpret_cast<const char*>(event.parameters.private_data.data()));
  }

  Instant now_ = Instant::from_ns(1'000'000'000);
  wire::CmReq request_;  // the last ones that were carried
  wire::CmRep reply_;
  Machine machine_a_{kAddressA, 0xA}, machine_b_{kAddressB, 0xB};
  RdmaCm a_{config(0xA), machine_a_}, b_{config(0xB), machine_b_};
};

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
  machine_b_.taken_.erase(7174);  // two may share a port that differ in address: the host's to know
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

// tests datagram services: SIDR instead of a connection.
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

TEST_F(RdmaDatagrams, TheQueuePairBehindAPortIsTold) {
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
  EXPECT_FALSE(b_.fetch_event(kChannel)) << "who answers is told nothing more";
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
  const RdmaEvent told = fetch(a_, Kind::kUnreachable);
  EXPECT_EQ(told.status, sidr_status::kRejected);
  EXPECT_EQ(words(told), "no");

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

// A port of the one kind is not the same port of the other, and whoever destroys what asks or is asked leaves nothing.
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

TEST_F(RdmaDatagrams, WhoEndsGivesItsAnswersSeveralTimes) {
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
  EXPECT_EQ(a_.join(id, 0xA1, {kAddressB}).reason().error(), EINVAL) << "no group";
  EXPECT_EQ(a_.join(resolved(), 0xA1, group).reason().error(), EINVAL) << "connections have no groups";
  const IdNumber membership = a_.join(id, 0xA1, group).value();
  const RdmaEvent joined = fetch(a_, Kind::kMulticastJoin);
  EXPECT_EQ(joined.user, 0xA1u) << "the program's pointer of the membership";
  ASSERT_TRUE(joined.datagram);
  EXPECT_EQ(joined.datagram->qpn, kMulticastQpn);
  EXPECT_EQ(joined.datagram->qkey, kDatagramQkey);
  EXPECT_EQ(joined.datagram->address, group.address);
  EXPECT_EQ(a_.leave(membership).value(), 1u);
  EXPECT_EQ(a_.leave(membership).reason().error(), ENOENT);
  const IdNumber unread = a_.join(id, 0xA2, group).value();
  EXPECT_EQ(a_.leave(unread).value(), 0u);
  EXPECT_FALSE(a_.fetch_event(kChannel)) << "its event went with it";
  EXPECT_EQ(a_.destroy(id, now_).value(), 3u) << "events of groups count for the identifier too";
}

// tests docs/daemon.md: what survives what
TEST_F(RdmaCms, PortsThatAreForgottenWhileTheyAreAskedAboutAreTakenAgain) {
  const IdNumber bound = b_.create(kChannel, 1).value(), id = b_.create(kChannel, 2).value();
  ASSERT_TRUE(b_.bind(bound, {kAny, 7173}).ok());
  ASSERT_TRUE(b_.bind(id, {kAny, 7174}).ok());
  machine_b_.forget_at_next_question = true;
  EXPECT_TRUE(b_.listen(id, 1).ok());
  EXPECT_THAT(machine_b_.taken_, testing::ElementsAre(7173, 7174));
}

TEST_F(RdmaCms, WhoIsBoundToADeviceIsToldOfItsAddressesAndItsEnd) {
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
