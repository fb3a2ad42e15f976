// A TCP source, its network played by hand. RTT 10 us, segments of 1000 bytes, initial window 10, RTO of 200 ms or 4
// ms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "by_hand.h"
#include "models/tcp/probe.h"
#include "models/tcp/rack.h"

namespace brdma::models::by_hand {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::uint64_t> range(std::uint64_t first, std::uint64_t end) {
  std::vector<std::uint64_t> numbers;
  for (; first < end; ++first) numbers.push_back(first);
  return numbers;
}

tcp::Settings with_rto(tcp::Settings settings, Duration minimum) {
  settings.rto.minimum = minimum;
  return settings;
}

TEST(TcpSource, InitialWindowIsTenSegments) {
  Source source{protocol("tcp"), 50};
  EXPECT_EQ(source.sends(0_us), range(0, 10));
  EXPECT_EQ(source->ready_at(), std::nullopt);
  source.gets_ack(10_us, 1, 0_us);
  EXPECT_EQ(source.sends(10_us), range(10, 12));  // slow start: one acknowledged, one more
}

TEST(TcpSource, EndsWithItsLastByte) {
  Source source{protocol("tcp"), 2};
  EXPECT_EQ(source.sends(0_us), range(0, 2));
  EXPECT_TRUE(source.last().last);
  source.gets_ack(10_us, 1, 0_us);
  EXPECT_FALSE(source->done());
  source.gets_ack(10_us, 2, 0_us);
  EXPECT_TRUE(source->done());
  EXPECT_EQ(source->next_deadline(), std::nullopt);
}

TEST(TcpSackRecovery, EntersWithTheThirdSackAndHalvesTheWindow) {
  Source source{protocol("tcp"), 50};
  source.sends(0_us);
  source.gets_ack(10_us, 0, 0_us, {{1, 2}});
  EXPECT_THAT(source.sends(10_us), ElementsAre(10));  // limited transmit
  source.gets_ack(11_us, 0, 0_us, {{1, 3}});
  EXPECT_THAT(source.sends(11_us), ElementsAre(11));
  source.gets_ack(12_us, 0, 0_us, {{1, 4}});
  EXPECT_THAT(source.sends(12_us), ElementsAre(0));
  EXPECT_EQ(source->window(), 5000u);
  source.gets_ack(13_us, 0, 0_us, {{1, 9}});
  EXPECT_THAT(source.sends(13_us), ElementsAre(12));  // pipe: 9, 10, 11, and 0 again
  source.gets_ack(22_us, 10, 12_us);
  EXPECT_EQ(source->window(), 5000u);  // until 12 is acknowledged: no growth
  source.gets_ack(23_us, 12, 13_us);
  source.gets_ack(24_us, 13, 13_us);
  EXPECT_GT(source->window(), 5000u);
  EXPECT_EQ(again(*source, Cause::kFeedback), 1u);
  EXPECT_EQ(source->counters().reductions, 1u);
  EXPECT_EQ(source->counters().timeouts, 0u);
}

TEST(TcpSackRecovery, SeveralHolesAreOneReduction) {
  Source source{protocol("tcp"), 10};
  source.sends(0_us);
  source.gets_ack(10_us, 0, 0_us, {{3, 5}, {1, 2}});
  EXPECT_THAT(source.sends(10_us), ElementsAre(0));
  source.gets_ack(11_us, 0, 0_us, {{3, 10}, {1, 2}});
  EXPECT_THAT(source.sends(11_us), ElementsAre(2));
  EXPECT_EQ(source->counters().reductions, 1u);
}

TEST(TcpNewReno, ThirdDuplicateAckResendsAndInflates) {
  Source source{protocol("tcp-newreno"), 50};
  source.sends(0_us);
  for (const std::uint64_t extra : {10u, 11u}) {
    source.gets_ack(10_us, 0, 0_us);
    EXPECT_THAT(source.sends(10_us), ElementsAre(extra));
  }
  source.gets_ack(10_us, 0, 0_us);
  EXPECT_THAT(source.sends(10_us), ElementsAre(0));
  EXPECT_EQ(source->window(), 8000u);  // 5 and 3
  for (int i = 0; i < 4; ++i) source.gets_ack(11_us, 0, 0_us);
  EXPECT_EQ(source->window(), 12'000u);
  EXPECT_THAT(source.sends(11_us), IsEmpty());
  source.gets_ack(12_us, 0, 0_us);
  EXPECT_THAT(source.sends(12_us), ElementsAre(12));
}

TEST(TcpNewReno, APartialAckResendsTheNextHoleAndDeflates) {
  Source source{protocol("tcp-newreno"), 50};
  source.sends(0_us);
  for (int i = 0; i < 3; ++i) {
    source.gets_ack(10_us, 0, 0_us);
    source.sends(10_us);
  }
  for (int i = 0; i < 5; ++i) source.gets_ack(11_us, 0, 0_us);
  EXPECT_EQ(source->window(), 13'000u);
  source.sends(11_us);
  source.gets_ack(20_us, 5, 10_us);
  EXPECT_EQ(source->window(), 9000u);  // 13 - 5 + 1
  EXPECT_EQ(source.sends(20_us).front(), 5u);
  source.gets_ack(30_us, 12, 20_us);  // all that was sent at entry
  EXPECT_EQ(source->window(), 5000u);
  EXPECT_EQ(source->counters().reductions, 1u);
}

TEST(TcpTimeout, LeavesOneSegmentAndBacksOff) {
  Source source{protocol("tcp"), 50};
  source.sends(0_us);
  ASSERT_EQ(source->next_deadline(), at(200_ms));
  source->on_deadline(at(199_ms));
  EXPECT_THAT(source.sends(199_ms), IsEmpty());
  source->on_deadline(at(200_ms));
  EXPECT_THAT(source.sends(200_ms), ElementsAre(0));
  EXPECT_EQ(source->next_deadline(), at(600_ms));
  EXPECT_EQ(source->window(), 1000u);
  EXPECT_EQ(source->counters().timeouts, 1u);
  source.gets_ack(201_ms, 1, 200_ms);
  EXPECT_THAT(source.sends(201_ms), ElementsAre(1, 2));
  EXPECT_EQ(again(*source, Cause::kTimeout), 3u);
}

TEST(TcpTimeout, MinimumOf4Milliseconds) {
  Source source{with_rto(tcp_of("tcp"), 4_ms), 50};
  source.sends(0_us);
  EXPECT_EQ(source->next_deadline(), at(4_ms));
  source.gets_ack(10_us, 1, 0_us);
  EXPECT_EQ(source->next_deadline(), at(4_ms + 10_us));  // restarted by the advance
  source.gets_ack(20_us, 1, 0_us, {{2, 3}});
  EXPECT_EQ(source->next_deadline(), at(4_ms + 10_us));  // and not by a duplicate
}

TEST(TcpTimeout, ALostRetransmissionWaitsForItWithoutRack) {
  Source source{with_rto(tcp_of("tcp"), 4_ms), 20};
  source.sends(0_us);
  source.gets_ack(10_us, 0, 0_us, {{1, 4}});
  ASSERT_EQ(source.sends(10_us).front(), 0u);
  source.gets_ack(30_us, 0, 10_us, {{1, 14}});
  EXPECT_EQ(again(*source, Cause::kFeedback), 1u);
  EXPECT_EQ(source->next_deadline(), at(4_ms + 10_us));
}

TEST(TcpTailLossProbe, OfASingleSegmentIsTheRto) {
  Source source{with_rto(tcp_of("tcp-tlp"), 4_ms), 1};
  source.sends(0_us);
  ASSERT_EQ(source->next_deadline(), at(4_ms));  // 2 SRTT + 200 ms would be later
  source->on_deadline(at(4_ms));
  EXPECT_THAT(source.sends(4_ms), ElementsAre(0));
  EXPECT_EQ(source->counters().probes, 1u);
  EXPECT_EQ(again(*source, Cause::kProbe), 1u);
  EXPECT_EQ(source->counters().timeouts, 0u);
  EXPECT_EQ(source->next_deadline(), at(8_ms));  // the RTO begins again
  source->on_deadline(at(8_ms));
  EXPECT_EQ(source->counters().timeouts, 1u);
}

TEST(TcpTailLossProbe, WaitsTwoRoundTripsWithoutDelayedAcks) {
  tcp::Settings settings = with_rto(tcp_of("tcp-tlp"), 4_ms);
  settings.worst_ack_delay = Duration{};
  Source one{settings, 1};
  one.sends(0_us);
  EXPECT_EQ(one->next_deadline(), at(20_us));
  Source three{protocol("tcp-tlp"), 3};
  three.sends(0_us);
  ASSERT_EQ(three->next_deadline(), at(20_us));
  three->on_deadline(at(20_us));
  EXPECT_THAT(three.sends(20_us), ElementsAre(2));
  EXPECT_EQ(three->next_deadline(), at(200_ms + 20_us));  // the RTO begins again; no second probe
  EXPECT_EQ(three->window(), 10'000u);
}

TEST(TcpTailLossProbe, PrefersNewDataOverTheWindow) {
  Source source{protocol("tcp-tlp"), 20};
  source.sends(0_us);
  source->on_deadline(at(20_us));
  EXPECT_THAT(source.sends(20_us), ElementsAre(10));
  EXPECT_EQ(again(*source, Cause::kProbe), 0u);
  EXPECT_EQ(source->counters().probes, 1u);
}

// What the acknowledgement of a probe that ended at byte 5000 says.
tcp::ProbeOutcome outcome(bool repeats, std::uint64_t ack, ByteRange duplicate) {
  tcp::Probe probe;
  probe.on_sent(5000, repeats);
  Frame frame;
  frame.ack = ack;
  frame.duplicate = duplicate;
  return probe.on_ack(frame, true);
}

TEST(TcpTailLossProbe, ARepeatedSegmentWithoutDuplicateReportRepairedALoss) {
  using tcp::ProbeOutcome;
  EXPECT_EQ(outcome(true, 6000, {}), ProbeOutcome::kLossRepaired);
  EXPECT_EQ(outcome(true, 6000, {4000, 5000}), ProbeOutcome::kNone);
  EXPECT_EQ(outcome(false, 6000, {}), ProbeOutcome::kNone);
  EXPECT_EQ(outcome(true, 4000, {}), ProbeOutcome::kNone);
}

TEST(TcpRack, WaitsAQuarterOfTheRoundTripForAReorderedSegment) {
  Source source{protocol("tcp-tlp"), 10};
  source.sends(0_us);
  source.gets_ack(10_us, 0, 0_us, {{1, 2}});
  EXPECT_THAT(source.sends(10_us), IsEmpty());
  ASSERT_EQ(source->next_deadline(), at(12'500_ns));
  source->on_deadline(at(12'500_ns));
  EXPECT_THAT(source.sends(12'500_ns), ElementsAre(0));
  EXPECT_EQ(source->counters().reductions, 1u);
}

TEST(TcpRack, ThreeSacksAreALossAtOnceUntilReorderingWasSeen) {
  Source fresh{protocol("tcp-tlp"), 10};
  fresh.sends(0_us);
  fresh.gets_ack(10_us, 0, 0_us, {{1, 4}});
  EXPECT_THAT(fresh.sends(10_us), ElementsAre(0));

  Source reordered{protocol("tcp-tlp"), 30};
  reordered.sends(0_us);
  reordered.gets_ack(10_us, 0, 0_us, {{1, 2}});
  reordered.gets_ack(11_us, 2, 0_us);  // 0 came after 1
  EXPECT_EQ(reordered->counters().reductions, 0u);
  reordered.sends(11_us);
  reordered.gets_ack(12_us, 2, 0_us, {{3, 6}});
  EXPECT_EQ(again(*reordered, Cause::kFeedback), 0u);
  ASSERT_TRUE(reordered->next_deadline().has_value());
  EXPECT_GT(*reordered->next_deadline(), at(12_us));
}

TEST(TcpRack, FindsALostRetransmission) {
  Source source{protocol("tcp-tlp"), 40};
  source.sends(0_us);
  source.gets_ack(10_us, 0, 0_us, {{1, 4}});
  ASSERT_EQ(source.sends(10_us).front(), 0u);
  source.gets_ack(11_us, 0, 0_us, {{1, 10}});
  ASSERT_EQ(source.sends(11_us).front(), 10u);  // after the retransmission
  source.gets_ack(21_us, 0, 11_us, {{1, 11}});
  EXPECT_EQ(source.sends(21_us).front(), 0u);
  EXPECT_EQ(again(*source, Cause::kFeedback), 2u);
  EXPECT_EQ(source->counters().reductions, 1u);
}

TEST(TcpRack, IgnoresTheAckOfAnEarlierCopy) {
  for (const Duration echo : {0_us, 5_us}) {
    tcp::Scoreboard board{kPayload};
    board.start(10 * kPayload);
    for (int i = 0; i < 3; ++i) board.send_new(at(0_us));
    board.mark_lost(0, Cause::kFeedback);
    board.send_again(0, at(5_us));
    tcp::Rack rack;
    rack.on_rtt(8_us);
    Frame ack;
    ack.echo = at(echo);
    rack.on_delivered({0, at(5_us), true}, ack, at(20_us));
    EXPECT_EQ(rack.detect(board, 2_us, at(20_us)), echo == 5_us);  // of the second copy: 1 and 2 left before it
  }
}

TEST(TcpRack, ARetransmissionThatArrivesLateIsNoReordering) {
  tcp::Rack rack;
  rack.on_delivered({5, at(1_us), false}, Frame{}, at(10_us));
  rack.on_delivered({3, at(2_us), true}, Frame{}, at(12_us));
  EXPECT_FALSE(rack.reordering_seen());
  rack.on_delivered({2, at(1_us), false}, Frame{}, at(13_us));
  EXPECT_TRUE(rack.reordering_seen());
}

TEST(TcpRack, ADuplicateReportWidensTheWindow) {
  tcp::Rack rack;
  rack.on_rtt(8_us);
  EXPECT_EQ(rack.window(false, 0, 8_us), 2_us);
  EXPECT_EQ(rack.window(true, 0, 8_us), 0_us);
  rack.on_duplicate(1000, 5000);
  rack.on_duplicate(2000, 6000);  // in the same round
  EXPECT_EQ(rack.window(false, 0, 8_us), 4_us);
  rack.on_duplicate(5000, 9000);
  EXPECT_EQ(rack.window(false, 0, 8_us), 6_us);
  EXPECT_EQ(rack.window(false, 0, 5_us), 5_us);  // SRTT at most
  for (unsigned i = 0; i < tcp::Rack::kPersistMax - 1; ++i) rack.on_recovery_end();
  EXPECT_EQ(rack.multiplier(), 3u);
  rack.on_recovery_end();
  EXPECT_EQ(rack.multiplier(), 1u);
}

TEST(TcpEdn, ResendsWhatIsNamedAtOnceAndReducesOnce) {
  Source source{protocol("tcp-edn"), 50};
  source.sends(0_us);
  source.gets_notice(2_us, 3, 0_us);
  EXPECT_THAT(source.sends(2_us), ElementsAre(3));
  EXPECT_EQ(source->window(), 5000u);
  source.gets_notice(3_us, 4, 0_us);
  EXPECT_THAT(source.sends(3_us), ElementsAre(4));
  EXPECT_EQ(source->counters().reductions, 1u);
  source.gets_notice(4_us, 3, 0_us);  // of the first copy again
  EXPECT_THAT(source.sends(4_us), IsEmpty());
  source.gets_notice(5_us, 3, 2_us);  // of the second
  EXPECT_THAT(source.sends(5_us), ElementsAre(3));
  EXPECT_EQ(again(*source, Cause::kNotified), 3u);
}

TEST(TcpEdn, MayWaitForTheWindow) {
  tcp::Settings settings = tcp_of("tcp-edn");
  settings.edn_paced = true;
  Source source{settings, 50};
  source.sends(0_us);
  source.gets_notice(2_us, 3, 0_us);
  EXPECT_THAT(source.sends(2_us), ElementsAre(3));
  source.gets_notice(3_us, 4, 0_us);
  EXPECT_THAT(source.sends(3_us), IsEmpty());
  source.gets_ack(10_us, 3, 0_us);
  source.gets_ack(11_us, 3, 0_us, {{5, 8}});
  EXPECT_EQ(source.sends(11_us).front(), 4u);
}

TEST(TcpEdn, OthersIgnoreNotifications) {
  Source source{protocol("tcp"), 50};
  source.sends(0_us);
  source.gets_notice(2_us, 3, 0_us);
  EXPECT_THAT(source.sends(2_us), IsEmpty());
}

TEST(TcpDestination, DelaysAcksOfSegmentsInOrder) {
  tcp::Settings settings = tcp_of("tcp");
  settings.ack_every = 2;
  Destination destination{settings};
  EXPECT_THAT(destination.gets(0, 1_us), IsEmpty());
  EXPECT_EQ(destination->next_deadline(), at(1_us + 40_ms));
  const auto second = destination.gets(1, 2_us);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].ack, 2000u);
  EXPECT_EQ(second[0].echo, at(1_us));
  EXPECT_EQ(destination->next_deadline(), std::nullopt);
  EXPECT_EQ(destination.gets(3, 3_us).size(), 1u);  // out of order: at once
  EXPECT_EQ(destination.gets(2, 4_us).size(), 1u);  // closes a hole: at once
  destination.gets(4, 5_us);
  std::vector<Frame> late;
  destination->on_deadline(at(5_us + 40_ms), late);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].ack, 5000u);
}

TEST(TcpDestination, ReportsRangesNewestFirstAndDuplicates) {
  Destination destination{protocol("tcp")};
  destination.gets(2, 1_us);
  destination.gets(4, 2_us);
  destination.gets(8, 3_us);
  destination.gets(6, 4_us);
  const Frame ack = destination.gets(3, 5_us).at(0);
  EXPECT_EQ(ack.ack, 0u);
  EXPECT_THAT(ack.sacked(), ElementsAre(ByteRange{2000, 5000}, ByteRange{6000, 7000}, ByteRange{8000, 9000}));
  EXPECT_TRUE(ack.duplicate.empty());
  EXPECT_EQ(destination.gets(3, 6_us).at(0).duplicate, (ByteRange{3000, 4000}));
  EXPECT_EQ(destination->discarded(), 1u);
  EXPECT_EQ(destination.gets(0, 7_us).at(0).ack, 1000u);
  EXPECT_EQ(destination.gets(1, 8_us).at(0).ack, 5000u);
}

}  // namespace
}  // namespace brdma::models::by_hand
