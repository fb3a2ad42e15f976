// qp/receive/base_packet.h: what is said of the packet at the base, and what it waits for.
#include <gtest/gtest.h>

#include "qp/receive/base_packet.h"

namespace brdma::qp {
namespace {

TEST(BasePacket, IsNamedOnceUntilItComes) {
  BasePacket packet;
  EXPECT_TRUE(packet.name());
  EXPECT_FALSE(packet.name());
  packet.name_again();
  EXPECT_TRUE(packet.name()) << "the peer went back";
  packet.advance();
  EXPECT_TRUE(packet.name()) << "another one";
}

TEST(BasePacket, StaysRefusedUntilItIsExecutedOrTriedAgain) {
  BasePacket packet;
  packet.refuse();
  EXPECT_TRUE(packet.is_refused());
  packet.retry();
  EXPECT_FALSE(packet.is_refused());
  packet.refuse();
  packet.advance();
  EXPECT_FALSE(packet.is_refused());
}

TEST(BasePacket, APostedReceiveRetriesTheOneThatWaitsForIt) {
  BasePacket packet;
  packet.on_receive_posted();
  EXPECT_FALSE(packet.retry_due()) << "nothing waits";
  packet.block();
  EXPECT_FALSE(packet.retry_due());
  packet.on_receive_posted();
  EXPECT_TRUE(packet.retry_due());
  packet.unblock();
  packet.on_receive_posted();
  EXPECT_TRUE(packet.retry_due()) << "still to be tried";
  packet.retry();
  EXPECT_FALSE(packet.retry_due());
  packet.block();
  packet.on_receive_posted();
  packet.forget_waiting();
  EXPECT_FALSE(packet.is_blocked());
  EXPECT_FALSE(packet.retry_due());
}

}  // namespace
}  // namespace brdma::qp
