#include "qp/respond/responder_resources.h"

#include <gtest/gtest.h>

namespace brdma::qp {
namespace {

TEST(ResponsePackets, AtLeastOneAndNeverOneTooMany) {
  EXPECT_EQ(response_packets(0, 1024), 1u);
  EXPECT_EQ(response_packets(1, 1024), 1u);
  EXPECT_EQ(response_packets(1024, 1024), 1u);
  EXPECT_EQ(response_packets(1025, 1024), 2u);
  EXPECT_EQ(response_packets(0x8000'0000, 256), 1u << 23);
  EXPECT_EQ(response_packets(0xFFFF'FFFF, 256), 1u << 24);
}

Response read(std::uint32_t psn, std::uint32_t bytes) {
  Response answer;
  answer.kind = Response::Kind::kRead;
  answer.psn = Psn{psn};
  answer.bytes_left = bytes;
  return answer;
}

TEST(ResponderResources, KnowsWhichResponsesAreStillToLeave) {
  ResponderResources resources;
  resources.reset(4);
  resources.push(read(0xFF'FFFE, 3000));  // PSNs fffffe, ffffff, 0
  EXPECT_TRUE(resources.will_response(Psn{0xFF'FFFE}, 3, 1024));
  EXPECT_TRUE(resources.will_response(Psn{0}, 1, 1024));
  EXPECT_FALSE(resources.will_response(Psn{0}, 2, 1024));
  EXPECT_FALSE(resources.will_response(Psn{0xFF'FFFD}, 1, 1024));
  resources.front().psn = Psn{0xFF'FFFF};  // one has left
  resources.front().bytes_left = 2000;
  EXPECT_FALSE(resources.will_response(Psn{0xFF'FFFE}, 1, 1024));
  EXPECT_TRUE(resources.will_response(Psn{0}, 1, 1024));
}

TEST(ResponderResources, DuplicatesLeaveRoomForRequests) {
  ResponderResources resources;
  resources.reset(16);
  std::size_t replays = 0;
  for (; resources.room_for_replay(); ++replays) resources.push(read(0, 1));
  std::size_t requests = 0;
  for (; resources.room_for_request(); ++requests) resources.push(read(0, 1));
  EXPECT_GE(requests, 16u);
  EXPECT_GE(replays, 16u);
  EXPECT_LT(replays + requests, 200u);
}

TEST(ResponderResources, RemembersTwiceTheDepthOfAtomics) {
  ResponderResources resources;
  resources.reset(20);
  for (std::uint32_t i = 0; i < 100; ++i) resources.remember_atomic(Psn{i}, i * 10, i);
  EXPECT_EQ(resources.find_atomic(Psn{59}), nullptr);
  for (std::uint32_t i = 60; i < 100; ++i) {
    ASSERT_NE(resources.find_atomic(Psn{i}), nullptr);
    EXPECT_EQ(resources.find_atomic(Psn{i})->original, i * 10);
  }
  resources.remember_atomic(Psn{99}, 7, 0);  // the same PSN, 2^24 packets later
  EXPECT_EQ(resources.find_atomic(Psn{99})->original, 7u);
  resources.reset(20);
  EXPECT_EQ(resources.find_atomic(Psn{99}), nullptr);
}

TEST(ResponderResources, FindsAWaitingNak) {
  ResponderResources resources;
  resources.reset(1);
  resources.push(read(5, 1));
  EXPECT_FALSE(resources.has_nak(Psn{5}));
  Response nak;
  nak.psn = Psn{6};
  resources.push(nak);
  EXPECT_TRUE(resources.has_nak(Psn{6}));
  resources.replace_all(nak);
  EXPECT_EQ(resources.size(), 1u);
}

}  // namespace
}  // namespace brdma::qp
