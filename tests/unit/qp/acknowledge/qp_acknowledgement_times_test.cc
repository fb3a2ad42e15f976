// When an acknowledgement is due with the settings of its queue pair (qp/acknowledge/acknowledgement_times.h), and
// whose timestamp it echoes (qp/acknowledge/packet_echo.h).
#include <gtest/gtest.h>

#include "support/responder_parts.h"

namespace brdma::qp {
namespace {

struct Acknowledging : test::ResponderParts {
  Acknowledging() {
    recovery.ack_delay = 100_us;
    recovery.ack_packets = 4;
  }
  void packet(bool asked = false) { ack.on_packet(asked, /*bitmap=*/true, now); }
};

TEST(AcknowledgementTimes, ItWaitsForMorePackets) {
  Acknowledging responder;
  EXPECT_FALSE(responder.times().due(responder.now)) << "nothing to acknowledge";
  responder.packet();
  EXPECT_EQ(responder.times().deadline(), responder.now + 100_us);
  EXPECT_FALSE(responder.times().due(responder.now + 99_us));
  EXPECT_TRUE(responder.times().due(responder.now + 100_us));
  for (int i = 0; i < 2; ++i) responder.packet();
  EXPECT_FALSE(responder.times().due(responder.now));
  responder.packet();
  EXPECT_TRUE(responder.times().due(responder.now)) << "four packets";
}

TEST(AcknowledgementTimes, WhilePacketsAreMissingItLeavesSooner) {
  Acknowledging responder;
  responder.packet();
  responder.window.receive(responder.window.base() + 2);
  EXPECT_EQ(responder.times().delay(), 5_us);
  EXPECT_EQ(responder.times().deadline(), responder.now + 5_us);
  responder.recovery.ack_delay = 2_us;
  EXPECT_EQ(responder.times().delay(), 2_us) << "never later than set";
}

TEST(AcknowledgementTimes, ARequestedOneMayWaitForData) {
  Acknowledging responder;
  EXPECT_FALSE(responder.times().deferrable(1, responder.now)) << "nothing to acknowledge";
  responder.packet(/*asked=*/true);
  EXPECT_TRUE(responder.times().due(responder.now));
  EXPECT_TRUE(responder.times().deferrable(1, responder.now + 99_us));
  EXPECT_FALSE(responder.times().deferrable(1, responder.now + 100_us));
  EXPECT_TRUE(responder.times().deferrable(3, responder.now + 299_us));
  EXPECT_FALSE(responder.times().deferrable(3, responder.now + 300_us));
}

TEST(AcknowledgementTimes, ItsInterestIsForcedWhenItHasWaitedLongEnough) {
  Acknowledging responder;
  EXPECT_EQ(responder.times().interest(responder.now), TransmitInterest::kNone);
  responder.packet(/*asked=*/true);
  EXPECT_EQ(responder.times().interest(responder.now + 99_us), TransmitInterest::kDeferrable);
  EXPECT_EQ(responder.times().interest(responder.now + 100_us), TransmitInterest::kForced);
}

TEST(AcknowledgementTimes, WithinAMessageTheApplicationCannotReply) {
  Acknowledging responder;
  responder.packet(/*asked=*/true);
  responder.messages.go_on(ReceivedMessages::Kind::kWrite, 1024);
  EXPECT_TRUE(responder.times().due(responder.now));
  EXPECT_FALSE(responder.times().deferrable(1, responder.now));
}

struct Echoing : test::ResponderParts {
  static wire::Packet packet(std::uint8_t path, std::uint64_t timestamp, bool asked = false) {
    wire::Packet packet;
    packet.bitmap = true;
    packet.bth.ack_request = asked;
    packet.bxth.path = path;
    packet.bxth.timestamp = timestamp;
    return packet;
  }
  void arrive(std::uint8_t path, std::uint64_t timestamp) {
    packet_echo().on_packet(packet(path, timestamp), tolerance, now);
  }
};

TEST(PacketEcho, TheNewestPacketIsEchoed) {
  Echoing responder;
  responder.environment.waited = 3_us;
  responder.arrive(0, 500);
  responder.pass(10_us);
  responder.arrive(0, 600);
  EXPECT_TRUE(responder.echo.valid());
  EXPECT_EQ(responder.echo.timestamp(), 600U);
  EXPECT_EQ(responder.echo.waited(), 3_us);
  EXPECT_EQ(responder.echo.newest_arrival(), responder.now - 3_us);
  EXPECT_EQ(responder.tolerance.paths(), nullptr) << "one path";
}

TEST(PacketEcho, WithSeveralPathsACopyThatAsksKeepsItsEchoUntilTheAcknowledgementHasLeft) {
  Echoing responder;
  responder.identity.receiving_paths = 2;
  responder.arrive(1, 500);
  ASSERT_NE(responder.tolerance.paths(), nullptr);
  responder.packet_echo().on_copy(Echoing::packet(1, 500, /*asked=*/true));
  responder.ack.force(responder.now);
  responder.arrive(0, 600);
  EXPECT_EQ(responder.echo.path(), 1U) << "a probe of its path, perhaps";
  EXPECT_EQ(responder.echo.timestamp(), 500U);
  responder.ack.on_sent(responder.window.base());
  responder.arrive(0, 700);
  EXPECT_EQ(responder.echo.path(), 0U);
  EXPECT_EQ(responder.echo.timestamp(), 700U);
  responder.ack.force(responder.now);
  responder.arrive(1, 800);
  EXPECT_EQ(responder.echo.timestamp(), 800U) << "released";
}

TEST(PacketEcho, OtherCopiesKeepNothing) {
  for (const bool several : {false, true}) {
    Echoing responder;
    responder.identity.receiving_paths = several ? 2 : 1;
    responder.arrive(0, 500);
    responder.packet_echo().on_copy(Echoing::packet(0, 500, /*asked=*/!several));
    responder.ack.force(responder.now);
    responder.arrive(0, 600);
    EXPECT_EQ(responder.echo.timestamp(), 600U) << several;
  }
}

}  // namespace
}  // namespace brdma::qp
