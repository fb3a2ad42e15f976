// brdmad's list of the connections of each process, from the messages that pass.
#include <gtest/gtest.h>

#include "live_connections.h"

namespace brdma::daemon {
namespace {

constexpr IpAddress kHere = IpAddress::v4(10, 0, 0, 1), kThere = IpAddress::v4(10, 0, 0, 2);
constexpr std::uint16_t kPrefix = 5;
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
  void received(const wire::CmMessage& message) { live_.received(kHere, kThere, {1, message}); }
  void sent(const wire::CmMessage& message) { live_.sent({1, message}); }

  LiveConnections live_;
};

TEST_F(AcceptedConnection, IsTakenLeaveOfOnce) {
  const auto farewells = live_.take(kPrefix);
  ASSERT_EQ(farewells.size(), 1u);
  EXPECT_EQ(farewells[0].local, kHere);
  EXPECT_EQ(farewells[0].remote, kThere);
  EXPECT_EQ(std::get<wire::CmDreq>(farewells[0].mad.message).remote_comm_id, kTheirs);
  EXPECT_TRUE(live_.take(kPrefix).empty());
}

TEST_F(AcceptedConnection, OfAnotherProcessStays) {
  EXPECT_TRUE(live_.take(kPrefix + 1).empty());
  EXPECT_EQ(live_.size(), 1u);
}

// A program that disconnects and ends: its DREQ may have been lost, and only here somebody can say it again.
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

}  // namespace
}  // namespace brdma::daemon
