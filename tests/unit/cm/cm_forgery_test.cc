// The connection manager, and forged messages: an attacker who does not see a connection's messages cannot end it.
#include <gmock/gmock.h>

#include <cerrno>
#include <set>

#include "support/cm/managers.h"
#include "support/forgeries.h"

namespace brdma::cm {
namespace {

using test::forgeries;

// A forged request: the peer confirms that the connection is unchanged.
TEST_F(Managers, ARequestInAnothersNameEndsNothing) {
  const auto [a, b] = established();
  wire::CmReq req = request();
  req.local_comm_id = 77;
  req.path = {.local_gid = kAddressA, .remote_gid = kAddressB};
  b_.agent.handle(kEndpointsB, {.transaction = 5, .message = req}, now_);
  carry();
  EXPECT_EQ(b_.agent.state(b), ConnectionState::kEstablished);
  EXPECT_EQ(a_.agent.state(a), ConnectionState::kEstablished);
  EXPECT_THAT(kinds(b_), testing::ElementsAre(Kind::kRequest, Kind::kReady));
  EXPECT_THAT(kinds(a_), testing::ElementsAre(Kind::kReply));
  ASSERT_TRUE(a_.agent.disconnect(a, now_).ok());
  carry();
  EXPECT_EQ(kinds(b_).back(), Kind::kDisconnected);
}

// Nor does one with the peer's id: at its end the connection still names that id.
TEST_F(Managers, ARequestWithAnothersIdTakesItNotAway) {
  const auto [a, b] = established();
  wire::CmReq req = request(0x999);
  req.local_comm_id = a;
  req.path = {.local_gid = kAddressA, .remote_gid = kAddressB};
  b_.agent.handle(kEndpointsB, {.transaction = 5, .message = req}, now_);
  ASSERT_TRUE(b_.agent.disconnect(b, now_).ok());
  carry();
  EXPECT_THAT(kinds(a_), testing::ElementsAre(Kind::kReply, Kind::kDisconnected));
  pass(3_s);
  EXPECT_EQ(b_.agent.connections(), 1u) << "the forged request, which the application has not answered";
}

// From its own address, with the victim's GUID and queue pair number: another connection, and the victim's own request
// is not taken for a stale one either.
TEST_F(Managers, AStrangersRequestWithAnothersQueuePairIsJustAnother) {
  const Endpoints stranger{kAddressB, IpAddress::v4(10, 0, 0, 3)};
  wire::CmReq req = request();
  req.local_comm_id = 77;
  req.path = {.local_gid = stranger.remote, .remote_gid = kAddressB};
  b_.agent.handle(stranger, {.transaction = 5, .message = req}, now_);
  take_events();
  ASSERT_THAT(kinds(b_), testing::ElementsAre(Kind::kRequest));
  b_.events.clear();
  const auto [a, b] = established();
  req.local_comm_id = 78;
  b_.agent.handle(stranger, {.transaction = 6, .message = req}, now_);
  OutgoingMad out;
  ASSERT_TRUE(b_.outbox.poll(out));
  EXPECT_EQ(out.endpoints, stranger);
  EXPECT_EQ(std::get<wire::CmRej>(wire::parse_cm(out.mad)->message).reason, wire::reject::kStaleConnection);
  EXPECT_FALSE(b_.outbox.poll(out)) << "no other host gets a message";
  take_events();
  EXPECT_EQ(b_.agent.state(b), ConnectionState::kEstablished);
  EXPECT_THAT(kinds(b_), testing::ElementsAre(Kind::kRequest, Kind::kReady));
}

TEST_F(Managers, IdsAreNotCountedUp) {
  std::set<std::uint32_t> steps;
  CommId last = 0;
  for (std::uint32_t i = 0; i < 100; ++i) {
    const auto id = a_.agent.connect(kEndpointsA, request(i), now_);
    ASSERT_TRUE(id);
    EXPECT_EQ(id.value() >> 16, 0xAu);
    steps.insert(id.value() - last);
    last = id.value();
  }
  EXPECT_GT(steps.size(), 95u);
}

// Guessing one of three numbers reveals nothing about the others: a transaction and two ids.
TEST_F(Managers, BlindForgeriesOfEachKindEndNothing) {
  const auto [a, b] = established();
  const unsigned tries = forgeries();
  Random random{7, "forger"};
  const auto forge = [&](Side& side, CommId ours, CommId theirs, std::uint32_t qpn) {
    const auto any = [&](CommId right) { return random.below(2) == 0 ? right : static_cast<CommId>(random.next()); };
    const CommId to = any(ours);
    CommId from = any(theirs);
    if (to == ours && from == theirs) from ^= 1 + static_cast<CommId>(random.below(255));
    const std::uint64_t transaction = random.next();
    const auto handle = [&](const wire::CmMessage& message) {
      side.agent.handle(side.endpoints, {.transaction = transaction, .message = message}, now_);
    };
    wire::CmRep rep = reply(qpn);
    switch (random.below(8)) {
      case 0:  // both ids are right, and the transaction is not; or no id at all
        return handle(wire::CmRej{.local_comm_id = random.below(2) == 0 ? theirs : 0,
                                  .remote_comm_id = random.below(2) == 0 ? ours : 0,
                                  .reason = static_cast<std::uint16_t>(random.below(40))});
      case 1:
        rep.local_comm_id = from;
        rep.remote_comm_id = to;
        return handle(rep);
      case 2:
        return handle(wire::CmRtu{.local_comm_id = from, .remote_comm_id = to});
      case 3:
        return handle(wire::CmDreq{.local_comm_id = from, .remote_comm_id = to, .remote_qpn = qpn});
      case 4:
        return handle(wire::CmDrep{.local_comm_id = theirs, .remote_comm_id = ours});
      case 5:
        return handle(wire::CmMra{.local_comm_id = theirs, .remote_comm_id = ours});
      case 6:
        return handle(wire::CmLap{.local_comm_id = from, .remote_comm_id = to});
      default: {
        wire::CmReq req = request(qpn);
        req.local_comm_id = from;
        req.path = {.local_gid = side.endpoints.remote, .remote_gid = side.endpoints.local};
        return handle(req);
      }
    }
  };
  for (unsigned i = 0; i < tries; ++i) {
    forge(a_, a, b, 0x111);
    forge(b_, b, a, 0x222);
    for (OutgoingMad out; a_.outbox.poll(out) || b_.outbox.poll(out);) {
    }
  }
  EXPECT_EQ(a_.agent.state(a), ConnectionState::kEstablished);
  EXPECT_EQ(b_.agent.state(b), ConnectionState::kEstablished);
  take_events();
  for (const Side* side : {&a_, &b_}) {
    for (const Event& event : side->events) EXPECT_NE(event.kind, Kind::kDisconnected);
  }
}

TEST_F(Managers, ForgedMessagesChangeNothing) {
  const auto [a, id_of_b] = established();
  const auto b = id_of_b;  // clang 14 captures no structured binding
  const std::size_t events = a_.events.size() + b_.events.size();
  const auto expect_nothing = [&](const Endpoints& from, const wire::CmMessage& message, std::size_t answers) {
    b_.agent.handle(from, {.transaction = 1, .message = message}, now_);
    take_events();
    EXPECT_EQ(a_.events.size() + b_.events.size(), events);
    EXPECT_EQ(b_.agent.state(b), ConnectionState::kEstablished);
    std::size_t sent = 0;
    for (OutgoingMad out; b_.outbox.poll(out); ++sent) EXPECT_EQ(out.endpoints.remote, from.remote);
    EXPECT_EQ(sent, answers);
  };
  const Endpoints stranger{kAddressB, IpAddress::v4(10, 0, 0, 3)};
  expect_nothing(stranger, wire::CmDreq{.local_comm_id = a, .remote_comm_id = b, .remote_qpn = 0x222}, 1);
  expect_nothing(kEndpointsB, wire::CmDreq{.local_comm_id = a + 1, .remote_comm_id = b, .remote_qpn = 0x222}, 1);
  expect_nothing(kEndpointsB, wire::CmDreq{.local_comm_id = a, .remote_comm_id = b, .remote_qpn = 0x223}, 0);
  expect_nothing(stranger, wire::CmRej{.local_comm_id = a, .remote_comm_id = b}, 0);
  expect_nothing(kEndpointsB, wire::CmDrep{.local_comm_id = a, .remote_comm_id = b}, 0);
  expect_nothing(kEndpointsB, wire::CmRtu{.local_comm_id = a, .remote_comm_id = b}, 0);
  expect_nothing(kEndpointsB, wire::CmMra{.local_comm_id = a, .remote_comm_id = b}, 0);
  expect_nothing(kEndpointsB, wire::CmLap{.local_comm_id = a, .remote_comm_id = b}, 1);
  expect_nothing(kEndpointsB, wire::CmApr{.local_comm_id = a, .remote_comm_id = b}, 0);
  expect_nothing(kEndpointsB, wire::CmSidrRep{.request_id = b}, 0);
  wire::CmReq req = request();
  req.local_comm_id = 77;
  req.path = {.local_gid = kAddressA, .remote_gid = kAddressB};
  expect_nothing(stranger, req, 0);  // the answer would go to a third host
}

}  // namespace
}  // namespace brdma::cm
