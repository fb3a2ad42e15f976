// RoCE's ends, their network played by hand: go-back-N, IRN by its paper and as ns-3 codes do it, EDN, CNP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "by_hand.h"

namespace brdma::models::by_hand {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// At most ten packets outstanding.
Protocol capped(std::string_view name) {
  rdma::Settings settings = rdma_of(name);
  settings.cap = 10 * kPayload;
  return settings;
}

TEST(GoBackN, ANackReturnsToTheExpectedPacket) {
  Source source{protocol("rdma"), 6};
  EXPECT_THAT(source.sends(0_us), ElementsAre(0, 1, 2, 3, 4, 5));
  source.gets_nack(10_us, 3, 4);
  EXPECT_THAT(source.sends(10_us), ElementsAre(3, 4, 5));
  EXPECT_EQ(again(*source, Cause::kFeedback), 3u);
  source.gets_ack(20_us, 6, 10_us);
  EXPECT_TRUE(source->done());
}

TEST(GoBackN, TimeoutIsThatOfInfiniBandAndRestartsWithEachAnswer) {
  Source source{protocol("rdma"), 3};
  source.sends(0_us);
  ASSERT_EQ(source->next_deadline(), at(4'194'304_ns));
  source.gets_ack(10_us, 1, 0_us);
  ASSERT_EQ(source->next_deadline(), at(4'204'304_ns));
  source->on_deadline(at(4'204'304_ns));
  EXPECT_THAT(source.sends(4'204'304_ns), ElementsAre(1, 2));
  EXPECT_EQ(source->counters().timeouts, 1u);
  EXPECT_EQ(again(*source, Cause::kTimeout), 2u);
  EXPECT_EQ(source->next_deadline(), at(4'194'304_ns * 2 + 10_us));  // no back-off
}

TEST(GoBackN, WithoutATimer) {
  Source source{protocol("rdma-notimer"), 3};
  source.sends(0_us);
  EXPECT_EQ(source->next_deadline(), std::nullopt);
}

TEST(GoBackN, DestinationSendsOneNackPerExpectedPacketAndInterval) {
  rdma::Settings settings = rdma_of("rdma");
  EXPECT_EQ(settings.receiver.nack_interval, 500_us);
  settings.receiver.nack_interval = 4_us;
  Destination destination{settings};
  EXPECT_EQ(destination.gets(0, 0_us).at(0).kind, FrameKind::kAck);
  const auto nack = destination.gets(2, 1_us);
  ASSERT_EQ(nack.size(), 1u);
  EXPECT_EQ(nack[0].kind, FrameKind::kNack);
  EXPECT_EQ(nack[0].ack, 1000u);
  EXPECT_THAT(destination.gets(3, 2_us), IsEmpty());
  EXPECT_THAT(destination.gets(4, 4'999_ns), IsEmpty());
  EXPECT_EQ(destination.gets(5, 5_us).at(0).kind, FrameKind::kNack);  // 4 us later
  EXPECT_EQ(destination->in_order(), 1000u);
  EXPECT_EQ(destination->discarded(), 4u);
  destination.gets(1, 6_us);
  EXPECT_EQ(destination.gets(3, 6_us).at(0).ack, 2000u);  // another expected packet: at once
}

TEST(GoBackN, DestinationAcknowledgesDuplicatesOrNot) {
  rdma::Settings settings = rdma_of("rdma");
  for (const bool answers : {true, false}) {
    settings.receiver.answers_duplicates = answers;
    Destination destination{settings};
    destination.gets(0, 0_us);
    EXPECT_EQ(destination.gets(0, 1_us).size(), answers ? 1u : 0u);
  }
}

TEST(GoBackN, DestinationMayAcknowledgeSeldom) {
  rdma::Settings settings = rdma_of("rdma");
  settings.receiver.ack_every = 4;
  Destination destination{settings};
  for (const std::uint64_t number : {0u, 1u, 2u}) EXPECT_THAT(destination.gets(number, 0_us), IsEmpty());
  EXPECT_EQ(destination.gets(3, 0_us).at(0).ack, 4000u);
  EXPECT_EQ(destination.gets(4, 0_us, false, true).at(0).ack, 5000u);  // the last
  EXPECT_TRUE(destination->complete());
}

TEST(GoBackN, EdnReturnsToTheDroppedPacketOnce) {
  Source source{protocol("gobackn-edn"), 8};
  source.sends(0_us);
  source.gets_notice(2_us, 4, 0_us);
  source.gets_notice(2_us, 6, 0_us);  // is sent again anyway
  EXPECT_THAT(source.sends(3_us), ElementsAre(4, 5, 6, 7));
  source.gets_notice(4_us, 5, 0_us);
  source.gets_nack(10_us, 4, 5, 0_us);  // of the first round
  EXPECT_THAT(source.sends(10_us), IsEmpty());
  source.gets_nack(13_us, 4, 5, 3_us);  // of the second: 4 was lost again
  EXPECT_THAT(source.sends(13_us), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(again(*source, Cause::kNotified), 4u);
}

TEST(Irn, SendsTheCumulativeAckFirstAndOthersOnlyBelowASack) {
  Source source{capped("irn"), 30};
  ASSERT_EQ(source.sends(0_us).size(), 10u);
  source.gets_nack(10_us, 0, 1);
  EXPECT_THAT(source.sends(10_us), ElementsAre(0));
  source.gets_nack(11_us, 0, 5);
  EXPECT_THAT(source.sends(11_us), ElementsAre(2, 3, 4));
  source.gets_nack(12_us, 0, 6);
  EXPECT_THAT(source.sends(12_us), IsEmpty());  // each once; SACKs give no room for new packets
  source.gets_ack(20_us, 2, 10_us);
  EXPECT_THAT(source.sends(20_us), ElementsAre(10, 11));
  EXPECT_EQ(again(*source, Cause::kFeedback), 4u);
}

TEST(Irn, ALostRetransmissionWaitsForTheTimeout) {
  Source source{capped("irn"), 30};
  source.sends(0_us);
  source.gets_nack(10_us, 0, 1);
  source.sends(10_us);
  for (std::uint64_t i = 2; i < 10; ++i) source.gets_nack(12_us, 0, i);
  EXPECT_THAT(source.sends(12_us), IsEmpty());
  ASSERT_EQ(source->next_deadline(), at(12_us + 320_us));
  source->on_deadline(at(332_us));
  EXPECT_THAT(source.sends(332_us), ElementsAre(0));
  EXPECT_EQ(again(*source, Cause::kTimeout), 1u);
}

TEST(Irn, RecoveryEndsAtTheHighestPacketSentAtItsBegin) {
  Source source{capped("irn"), 30};
  source.sends(0_us);
  source.gets_nack(10_us, 0, 1);
  source.sends(10_us);
  source.gets_ack(20_us, 9, 10_us);
  source.sends(20_us);             // 10 to 18
  source.gets_nack(21_us, 9, 11);  // the same recovery: 9 is below a SACK
  EXPECT_THAT(source.sends(21_us), ElementsAre(9, 10));
  source.gets_ack(30_us, 12, 21_us);  // past 9: over
  source.sends(30_us);
  source.gets_nack(31_us, 12, 14);  // another: 12 first
  EXPECT_THAT(source.sends(31_us), ElementsAre(12, 13));
}

TEST(Irn, ALossAfterARecoveryByTimeoutIsOneOfFeedback) {
  Source source{capped("irn"), 30};
  source.sends(0_us);
  source->on_deadline(at(320_us));
  ASSERT_THAT(source.sends(320_us), ElementsAre(0));
  source.gets_ack(330_us, 10, 320_us);
  source.sends(330_us);
  source.gets_nack(340_us, 10, 11);
  EXPECT_THAT(source.sends(340_us), ElementsAre(10));
  EXPECT_EQ(again(*source, Cause::kTimeout), 1u);
  EXPECT_EQ(again(*source, Cause::kFeedback), 1u);
}

TEST(Irn, LowTimeoutWithThreePacketsOutstanding) {
  Source three{capped("irn"), 3};
  three.sends(0_us);
  EXPECT_EQ(three->next_deadline(), at(100_us));
  Source four{capped("irn"), 4};
  four.sends(0_us);
  EXPECT_EQ(four->next_deadline(), at(320_us));
  four.gets_ack(10_us, 1, 0_us);
  EXPECT_EQ(four->next_deadline(), at(110_us));
  four->on_deadline(at(110_us));
  EXPECT_THAT(four.sends(110_us), ElementsAre(1));  // what follows is not SACKed
}

TEST(Irn, CapIsTheBandwidthDelayProduct) {
  EXPECT_EQ(rdma_of("irn").cap, 125'000u);  // 100 Gbit/s, 10 us
  EXPECT_EQ((Path{Bandwidth::from_bps(100'000'000'000), 12'480_ns}).bdp(), 156'000u);
  EXPECT_EQ((Path{Bandwidth::from_bps(100'000'000'000), 8'320_ns}).bdp(), 104'000u);
}

TEST(Irn, DestinationKeepsPacketsAndNamesTheOneThatCame) {
  Destination destination{protocol("irn")};
  destination.gets(0, 0_us);
  for (const std::uint64_t number : {2u, 3u}) {
    const Frame nack = destination.gets(number, 1_us).at(0);
    EXPECT_EQ(nack.kind, FrameKind::kNack);
    EXPECT_EQ(nack.ack, 1000u);
    EXPECT_THAT(nack.sacked(), ElementsAre(ByteRange{number * 1000, (number + 1) * 1000}));
  }
  destination.gets(5, 2_us);
  const Frame ack = destination.gets(1, 3_us).at(0);
  EXPECT_EQ(ack.kind, FrameKind::kAck);  // although 4 is missing
  EXPECT_EQ(ack.ack, 4000u);
}

TEST(IrnNs3, RewindsAndSendsWhatIsStillInTheNetwork) {
  Source source{capped("irn-ns3"), 30};
  source.sends(0_us);
  source.gets_nack(10_us, 0, 1);
  EXPECT_THAT(source.sends(10_us), ElementsAre(0, 2, 3, 4, 5, 6, 7, 8, 9));
  source.gets_nack(11_us, 0, 2);  // the same recovery: no second return
  EXPECT_THAT(source.sends(11_us), IsEmpty());
  EXPECT_EQ(again(*source, Cause::kFeedback), 9u);
}

TEST(IrnNs3, ForgetsRangesThatItPassed) {
  Source source{capped("irn-ns3"), 30};
  source.sends(0_us);
  source.gets_nack(10_us, 0, 1);
  source.sends(10_us);
  source->on_deadline(at(330_us));
  EXPECT_THAT(source.sends(330_us), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));  // 1 arrived long ago
}

TEST(IrnNs3, AnAnswerWithoutHolesEndsTheRecovery) {
  Source source{capped("irn-ns3"), 30};
  source.sends(0_us);
  source.gets_nack(10_us, 0, 1);
  source.sends(10_us);
  source.gets_ack(20_us, 2, 10_us);
  source.sends(20_us);
  source.gets_nack(21_us, 2, 4);  // a recovery of its own: from 2
  EXPECT_EQ(source.sends(21_us).front(), 2u);
}

TEST(IrnNs3, DestinationSendsNacksWhileItHasHoles) {
  Destination destination{protocol("irn-ns3")};
  destination.gets(1, 0_us);
  destination.gets(3, 0_us);
  EXPECT_EQ(destination.gets(0, 1_us).at(0).kind, FrameKind::kNack);
  EXPECT_EQ(destination.gets(2, 2_us).at(0).kind, FrameKind::kAck);
}

TEST(IrnEdn, SendsWhatIsNamedAndNoSecondCopyForTheNackThatFollows) {
  Source source{capped("irn-edn"), 10};
  source.sends(0_us);
  source.gets_notice(2_us, 3, 0_us);
  source.gets_notice(2_us, 3, 0_us);
  EXPECT_THAT(source.sends(3_us), ElementsAre(3));
  source.gets_notice(4_us, 3, 0_us);  // about the first copy
  EXPECT_THAT(source.sends(4_us), IsEmpty());
  source.gets_nack(10_us, 3, 4, 0_us);  // 4 left before 3 did again
  EXPECT_THAT(source.sends(10_us), IsEmpty());
  source.gets_notice(12_us, 3, 3_us);  // the second copy was dropped, too
  EXPECT_THAT(source.sends(12_us), ElementsAre(3));
  EXPECT_EQ(again(*source, Cause::kNotified), 2u);
  EXPECT_EQ(source->counters().retransmitted(), 2u);
}

TEST(IrnEdn, LossesWithoutNotificationAreStillRepairedBySack) {
  Source source{capped("irn-edn"), 20};
  source.sends(0_us);
  source.gets_nack(10_us, 0, 2, 1_us);  // sent after 0 and 1
  EXPECT_THAT(source.sends(10_us), ElementsAre(0, 1));
  source.gets_nack(11_us, 0, 3, 1_us);
  EXPECT_THAT(source.sends(11_us), IsEmpty());
}

TEST(RdmaEdn, HasTheTimeoutOfAnAdapterAndAReceiverThatKeepsPackets) {
  Source source{protocol("rdma-edn"), 3};
  source.sends(0_us);
  EXPECT_EQ(source->next_deadline(), at(4'194'304_ns));
  Destination destination{protocol("rdma-edn")};
  destination.gets(1, 0_us);
  EXPECT_EQ(destination.gets(0, 1_us).at(0).ack, 2000u);
}

TEST(Cnp, OneFramePerIntervalOrAFlagOfEachAnswer) {
  Destination paper{protocol("dcqcn-paper")};
  EXPECT_EQ(paper.gets(0, 0_us, true).at(0).kind, FrameKind::kCnp);
  EXPECT_EQ(paper.gets(1, 49_us, true).size(), 1u);
  EXPECT_EQ(paper.gets(2, 50_us, false).size(), 1u);
  EXPECT_EQ(paper.gets(3, 50_us, true).at(0).kind, FrameKind::kCnp);
  Destination flags{protocol("dcqcn")};
  EXPECT_TRUE(flags.gets(0, 0_us, true).at(0).ece);
  EXPECT_FALSE(flags.gets(1, 0_us, false).at(0).ece);
}

TEST(Cnp, ANackCarriesOneOnlyWhereItIsAskedFor) {
  rdma::Settings settings = rdma_of("dcqcn");
  for (const bool with : {false, true}) {
    settings.receiver.cnp_on_nack = with;
    Destination destination{settings};
    EXPECT_EQ(destination.gets(1, 0_us).at(0).ece, with);
  }
}

TEST(RdmaSource, LeavesAGapBetweenPacketsBelowTheLinksRate) {
  Source source{protocol("dcqcn"), 10};
  source.gets(FrameKind::kCnp, 0_us, 0, 0_us);
  EXPECT_THAT(source.sends(0_us), ElementsAre(0));
  EXPECT_EQ(source->ready_at(), at(170_ns));  // 1062 B at 50 Gbit/s: 169.92 ns
  EXPECT_FALSE(source->next_frame(at(169_ns)).has_value());
  EXPECT_THAT(source.sends(170_ns), ElementsAre(1));
}

TEST(ProtocolNames, EachIsFoundAndOthersAreNot) {
  const Path path{Bandwidth::from_bps(100'000'000'000), 12'240_ns};
  for (const std::string_view name : kProtocolNames) {
    const auto found = find_protocol(name, path, 4096);
    ASSERT_TRUE(found.has_value()) << name;
    EXPECT_NE(make_sender(*found, 1), nullptr);
    EXPECT_NE(make_receiver(*found, 1), nullptr);
  }
  EXPECT_FALSE(find_protocol("irn2", path, 4096).has_value());
  EXPECT_FALSE(find_protocol("", path, 4096).has_value());
}

}  // namespace
}  // namespace brdma::models::by_hand
