// brdmad's list of the connections of each process, from the messages that pass.
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "connections/live_connections.h"

namespace brdma::daemon {
namespace {

constexpr IpAddress kHere = IpAddress::v4(10, 0, 0, 1), kThere = IpAddress::v4(10, 0, 0, 2);
constexpr std::uint16_t kPrefix = 5;
constexpr std::uint32_t kPid = 77;
constexpr std::uint32_t kOurs = kPrefix << 16 | 9, kTheirs = 0x70001;

class AcceptedConnection : public testing::Test {
 protected:
  AcceptedConnection() {
    wire::CmReq req;
    req.local_comm_id = kTheirs;
    received(req);
    wire::CmRep rep;
    rep.local_comm_id = kOurs;
    rep.remote_comm_id = kTheirs;
    sent(rep);
  }
  void received(const wire::CmMessage& message) { live_.received({kHere, kThere}, {1, message}); }
  void sent(const wire::CmMessage& message) { live_.sent(kPid, {kHere, kThere}, {1, message}); }

  LiveConnections live_;
};

TEST_F(AcceptedConnection, IsDisconnectedOnce) {
  const auto farewells = live_.take(kPrefix);
  ASSERT_EQ(farewells.size(), 1u);
  EXPECT_EQ(farewells[0].endpoints, (cm::Endpoints{kHere, kThere}));
  EXPECT_EQ(std::get<wire::CmDreq>(farewells[0].mad.message).remote_comm_id, kTheirs);
  EXPECT_TRUE(live_.take(kPrefix).empty());
}

TEST_F(AcceptedConnection, OfAnotherProcessStays) {
  EXPECT_TRUE(live_.take(kPrefix + 1).empty());
  EXPECT_EQ(live_.size(), 1u);
}

// A program that disconnects and ends: its DREQ may have been lost, and only here it can be repeated.
TEST_F(AcceptedConnection, LivesUntilItsDisconnectionIsAnswered) {
  sent(wire::CmDreq{.local_comm_id = kOurs, .remote_comm_id = kTheirs, .remote_qpn = 0, .private_data = {}});
  EXPECT_EQ(live_.size(), 1u);
  received(wire::CmDrep{.local_comm_id = kTheirs, .remote_comm_id = kOurs, .private_data = {}});
  EXPECT_EQ(live_.size(), 0u);
}

TEST_F(AcceptedConnection, EndsWhenThePeerDisconnects) {
  received(wire::CmDreq{.local_comm_id = kTheirs, .remote_comm_id = kOurs, .remote_qpn = 0, .private_data = {}});
  EXPECT_EQ(live_.size(), 0u);
}

TEST_F(AcceptedConnection, IsNotEndedBySomebodyElse) {
  constexpr IpAddress kStranger = IpAddress::v4(10, 0, 0, 3);
  const wire::CmDreq dreq{.local_comm_id = kTheirs, .remote_comm_id = kOurs, .remote_qpn = 0, .private_data = {}};
  live_.received({kHere, kStranger}, {1, dreq});
  live_.received({kHere, kStranger}, {1, wire::CmRej{.local_comm_id = kTheirs, .remote_comm_id = kOurs}});
  EXPECT_EQ(live_.size(), 1u);
  // Forged, without the peer's id, or without the transaction.
  received(wire::CmDreq{.local_comm_id = kTheirs + 1, .remote_comm_id = kOurs, .remote_qpn = 0, .private_data = {}});
  received(wire::CmDrep{.local_comm_id = kTheirs + 1, .remote_comm_id = kOurs, .private_data = {}});
  received(wire::CmRej{.local_comm_id = kTheirs + 1, .remote_comm_id = kOurs});
  live_.received({kHere, kThere}, {2, wire::CmRej{.local_comm_id = kTheirs, .remote_comm_id = kOurs}});
  EXPECT_EQ(live_.size(), 1u);
}

class AskedConnection : public testing::Test {
 protected:
  AskedConnection() {
    wire::CmReq req;
    req.local_comm_id = kOurs;
    live_.sent(kPid, {kHere, kThere}, {1, req});
  }
  void answered_by(const IpAddress& remote, std::uint32_t asker = kOurs) {
    wire::CmRep rep;
    rep.local_comm_id = kTheirs;
    rep.remote_comm_id = asker;
    live_.received({kHere, remote}, {1, rep});
  }
  LiveConnections live_;
};

TEST_F(AskedConnection, CountsOnceItIsAnswered) {
  EXPECT_TRUE(LiveConnections{live_}.take(kPrefix).empty());
  answered_by(kThere);
  EXPECT_EQ(live_.take(kPrefix).size(), 1u);
}

// Unsolicited replies of a hostile host: no memory, and no DREQs to the hosts that it names as their senders.
TEST_F(AskedConnection, InventedRepliesLeaveNothing) {
  answered_by(IpAddress::v4(10, 0, 0, 3));
  for (std::uint32_t id = 0; id < 70'000; ++id) answered_by(kThere, kOurs + 1 + id);
  EXPECT_EQ(live_.size(), 1u);
  EXPECT_TRUE(live_.take(kPrefix).empty());
}

TEST_F(AcceptedConnection, AFloodOfRequestsIsForgottenFromItsBeginning) {
  for (std::uint32_t id = 1; id < 100'000; ++id) {
    wire::CmReq req;
    req.local_comm_id = id << 8;
    received(req);
  }
  wire::CmRep rep;
  rep.local_comm_id = kOurs + 1;
  rep.remote_comm_id = 99'999 << 8;
  sent(rep);
  EXPECT_EQ(live_.take(kPrefix).size(), 2u);
}

// A table of a worker that died: the next one has the same connections.
TEST(KeptConnections, AreThereForTheNextWorker) {
  const auto table = std::make_unique<ConnectionTable>();
  const auto connect = [](LiveConnections& live, std::uint32_t id) {
    wire::CmReq req;
    req.local_comm_id = id;
    live.sent(kPid, {kHere, kThere}, {1, req});
    wire::CmRep rep;
    rep.local_comm_id = id + 1000;
    rep.remote_comm_id = id;
    live.received({kHere, kThere}, {1, rep});
  };
  LiveConnections first{table.get()};
  for (std::uint32_t i = 0; i < 10; ++i) connect(first, kOurs + i);
  first.received({kHere, kThere},
                 {1, wire::CmDrep{.local_comm_id = kOurs + 1003, .remote_comm_id = kOurs + 3, .private_data = {}}});
  {
    LiveConnections second{table.get()};
    EXPECT_EQ(second.size(), 9u);
    EXPECT_TRUE(second.has(kPrefix));
    EXPECT_EQ(second.processes(), (std::map<std::uint16_t, std::uint32_t>{{kPrefix, kPid}}));
    connect(second, kOurs + 20);
    EXPECT_EQ(table->rows_used, 10u) << "the row that is free is used";
  }
  LiveConnections third{table.get()};
  const auto farewells = third.take(kPrefix);
  ASSERT_EQ(farewells.size(), 10u);
  EXPECT_EQ(std::get<wire::CmDreq>(farewells[9].mad.message).remote_comm_id, kOurs + 1020);
  EXPECT_EQ(farewells[9].endpoints.remote, kThere);
  EXPECT_EQ(LiveConnections{table.get()}.size(), 0u);
}

TEST(KeptConnections, NonsenseInTheTableDoesNoHarm) {
  const auto table = std::make_unique<ConnectionTable>();
  table->rows_used = ~0u;
  table->rows[0].id = table->rows[1].id = kOurs;  // twice the same
  LiveConnections live{table.get()};
  EXPECT_EQ(live.size(), 1u);
  EXPECT_EQ(table->rows_used, kConnectionsMax);
}

}  // namespace
}  // namespace brdma::daemon
