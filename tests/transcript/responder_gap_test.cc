// Gaps: tolerated within the limits, then reported to the sender (tests design BR-9 to BR-22: fast feedback
// message).
#include "support/responder_script.h"

namespace brdma {
namespace {

using testing::ElementsAre;
using Script = test::ResponderScript;

// Lines of the trace that begin with one of these words.
std::vector<std::string> story_of(const Script& rx, std::initializer_list<std::string_view> words) {
  std::vector<std::string> lines;
  for (const std::string& line : rx.story) {
    for (const auto word : words) {
      if (line.starts_with(word)) lines.push_back(line);
    }
  }
  return lines;
}

test::ScriptOptions with_limits(std::uint32_t depth, Duration age, Duration stall) {
  test::ScriptOptions options;
  options.recovery.depth_max = depth;
  options.recovery.age_max = age;
  options.recovery.stall_max = stall;
  return options;
}

// --- limits that learn (recovery/tolerance.h) ---

TEST(GapLimits, WhatWasMisjudgedOnceIsWaitedForTheNextTime) {
  test::ScriptOptions options;
  options.recovery.adaptive = true;
  Script rx{options};
  for (std::uint32_t psn = 1001; psn <= 1009; ++psn) rx.at(0_us).gets(rx.data(psn));
  rx.reports({"ffm 1000+1 base=1000 highest=1009 repeat=0"});
  rx.gets(rx.data(1000)).counts(Counter::kMisjudgementCorrections, 1).counts(Counter::kToleranceRaised, 1).forget();
  // Depth 9 raised the limit to 12.
  for (std::uint32_t psn = 1011; psn <= 1022; ++psn) rx.gets(rx.data(psn));
  rx.counts(Counter::kFfmSent, 1).forget();
  rx.gets(rx.data(1023)).reports({"ffm 1010+1 base=1010 highest=1023 repeat=0"});
}

TEST(GapLimits, ARetransmissionTeachesNothing) {
  test::ScriptOptions options;
  options.recovery.adaptive = true;
  Script rx{options};
  for (std::uint32_t psn = 1001; psn <= 1009; ++psn) rx.at(0_us).gets(rx.data(psn));
  rx.forget();
  auto again = rx.data(1000);
  again.bxth.retransmitted = true;
  rx.gets(again).counts(Counter::kToleranceRaised, 0);
}

// --- the three limits, both sides of each (design BR-11 to BR-20) ---

TEST(GapLimits, NineLaterPackets) {
  Script rx;
  for (std::uint32_t psn = 1001; psn <= 1008; ++psn) rx.at(0_us).gets(rx.data(psn));
  rx.is_silent();
  rx.gets(rx.data(1009)).reports({"ffm 1000+1 base=1000 highest=1009 repeat=0"});
  EXPECT_EQ(rx.last_ffm.cause, 1);
  EXPECT_EQ(rx.last_ffm.depth, 9);
  rx.counts(Counter::kGapsPromotedDepth, 1).counts(Counter::kFfmSent, 1);
}

TEST(GapLimits, MoreThanFiftyMicroseconds) {
  Script rx;
  rx.at(0_us).gets(rx.data(1000)).gets(rx.data(1002));
  rx.at(50_us).is_silent();
  EXPECT_EQ(rx.responder->next_timeout(), Instant{} + 50_us + kTick);
  rx.at(50_us + kTick).reports({"ffm 1001+1 base=1001 highest=1002 repeat=0"});
  EXPECT_EQ(rx.last_ffm.cause, 2);
  rx.counts(Counter::kGapsPromotedAge, 1);
  rx.at(70_us).gets(rx.data(1001)).counts(Counter::kMisjudgementCorrections, 1).is_silent();
  EXPECT_EQ(rx.responder->next_timeout(), std::nullopt);
}

TEST(GapLimits, BaseStuckForMoreThanEightyMicroseconds) {
  Script rx{with_limits(8, 1000_us, 80_us)};
  rx.at(0_us).gets(rx.data(1001)).gets(rx.data(1003));
  // The base moves to the second gap at 30 us: from then on that one holds it.
  rx.at(30_us).gets(rx.data(1000));
  rx.at(110_us).is_silent();
  rx.at(110_us + kTick).reports({"ffm 1002+1 base=1002 highest=1003 repeat=0"});
  EXPECT_EQ(rx.last_ffm.cause, 3);
  rx.counts(Counter::kGapsPromotedStall, 1).counts(Counter::kGapsClosed, 1);
}

TEST(GapLimits, OnlyTheFirstGapStopsTheBase) {
  Script rx{with_limits(8, 1000_us, 80_us)};
  rx.at(0_us).gets(rx.data(1001)).gets(rx.data(1003));
  rx.at(80_us + kTick).reports({"ffm 1000+1 base=1000 highest=1003 repeat=0"});
  rx.at(90_us).gets(Script::again(rx.data(1000))).at(170_us).is_silent();
  rx.at(170_us + kTick).reports({"ffm 1002+1 base=1002 highest=1003 repeat=0"});
}

TEST(GapLimits, ReorderingWithinThemIsNoLoss) {
  Script rx;
  rx.at(0_us).gets(rx.data(1003)).gets(rx.data(1001)).gets(rx.data(1002));  // 3 later packets, 20 us, 20 us: wait
  rx.at(20_us).is_silent();
  rx.gets(rx.data(1000)).at(1000_us).is_silent();
  rx.counts(Counter::kGapsSeen, 2).counts(Counter::kGapsClosed, 2).counts(Counter::kFfmSent, 0);  // one was split
  rx.counts(Counter::kMisjudgementCorrections, 0);
}

// "By themselves" means by the original. A gap that a retransmission closes was no reordering, whether the gap still
// waited (a tail loss probe, a stall) or was promoted.
TEST(GapLimits, AGapThatARetransmissionClosesIsRecovered) {
  Script rx;
  rx.at(0_us).gets(rx.data(1001)).gets(Script::again(rx.data(1000)));
  rx.counts(Counter::kGapsSeen, 1).counts(Counter::kGapsRecovered, 1).counts(Counter::kGapsClosed, 0);
  rx.at(10_us).gets(rx.data(1003)).at(60_us + kTick).reports({"ffm 1002+1 base=1002 highest=1003 repeat=0"});
  rx.gets(Script::again(rx.data(1002)));
  rx.counts(Counter::kGapsSeen, 2).counts(Counter::kGapsRecovered, 2).counts(Counter::kGapsClosed, 0);
  // One of two packets comes late, the other is retransmitted: closed by the second.
  rx.at(100_us).gets(rx.data(1006)).gets(rx.data(1004)).gets(Script::again(rx.data(1005)));
  rx.counts(Counter::kGapsSeen, 3).counts(Counter::kGapsRecovered, 3).counts(Counter::kGapsClosed, 0);
}

TEST(GapLimits, IdleTimeBeforeAGapIsNotItsStall) {
  Script rx{with_limits(8, 1000_us, 80_us)};
  rx.at(0_us).gets(rx.data(1000));
  rx.at(900_us).gets(rx.data(1002));
  rx.at(980_us).is_silent();
  rx.at(980_us + kTick).reports({"ffm 1001+1 base=1001 highest=1002 repeat=0"});
}

// The stall decides at default settings: packets of one message come every 60 us, and the missing one was due 60 us
// before the gap is seen, of which 50 us count.
TEST(GapLimits, InTheMiddleOfAMessageAStallBeginsBeforeTheGapIsSeen) {
  Script rx;
  const auto part = [&rx](std::uint32_t index) { return rx.write(1000 + index, index, 8 * test::kScriptMtu); };
  rx.at(0_us).gets(part(0));
  rx.at(60_us).gets(part(1));
  rx.at(180_us).gets(part(3));
  rx.at(210_us).is_silent();
  EXPECT_EQ(rx.responder->next_timeout(), Instant{} + 210_us + kTick);
  EXPECT_EQ(rx.responder->open_gaps(Instant{} + 210_us).at(0).stalled, 80_us);
  rx.at(210_us + kTick).reports({"ffm 1002+1 base=1002 highest=1003 repeat=0"});
  EXPECT_EQ(rx.last_ffm.cause, 3);
  rx.counts(Counter::kGapsPromotedStall, 1).counts(Counter::kGapsPromotedAge, 0);
}

TEST(GapLimits, AStallThatWasMisjudgedIsWaitedForTheNextTime) {
  test::ScriptOptions options;
  options.recovery.adaptive = true;
  Script rx{options};
  const auto part = [&rx](std::uint32_t index) { return rx.write(1000 + index, index, 8 * test::kScriptMtu); };
  rx.at(0_us).gets(part(0)).at(100_us).gets(part(2));
  rx.at(130_us + kTick).reports({"ffm 1001+1 base=1001 highest=1002 repeat=0"});
  rx.at(135_us).gets(part(1)).counts(Counter::kMisjudgementCorrections, 1).counts(Counter::kToleranceRaised, 1);
  rx.forget();
  // It was 85 us late: 106.25 us now, of which 50 are before the gap is seen. The age limit is unchanged.
  rx.at(240_us).gets(part(4)).at(290_us).is_silent();
  rx.at(290_us + kTick).reports({"ffm 1003+1 base=1003 highest=1004 repeat=0"});
  EXPECT_EQ(rx.last_ffm.cause, 2);
}

TEST(GapLimits, AStallInPackets) {
  test::ScriptOptions options;
  options.recovery.stall_packets = 3;
  Script rx{options};
  rx.at(0_us).gets(rx.data(1001)).gets(rx.data(1003)).gets(rx.data(1004)).is_silent();
  rx.gets(rx.data(1000)).is_silent();  // the base moves to 1002: counted from there
  rx.gets(rx.data(1005)).gets(rx.data(1006)).gets(rx.data(1007)).is_silent();
  rx.gets(rx.data(1008)).reports({"ffm 1002+1 base=1002 highest=1008 repeat=0"});
  EXPECT_EQ(rx.last_ffm.cause, 3);
}

TEST(GapLimits, DepthNought) {
  Script rx{with_limits(0, 50_us, 80_us)};
  rx.at(0_us).gets(rx.data(1001)).reports({"ffm 1000+1 base=1000 highest=1001 repeat=0"});
}

// --- reports ---

TEST(Feedback, WorkedExampleReceiverSide) {
  Script rx;
  for (const std::uint32_t psn : {1000, 1001, 1002, 1004, 1005}) rx.at(0_us).gets(rx.data(psn));
  rx.is_silent();
  for (std::uint32_t psn = 1006; psn <= 1012; ++psn) rx.gets(rx.data(psn));
  rx.reports({"ffm 1003+1 base=1003 highest=1012 repeat=0"});
  for (std::uint32_t psn = 1013; psn <= 1015; ++psn) rx.gets(rx.data(psn));
  rx.at(10_us).is_silent();
  rx.gets(Script::again(rx.data(1003))).sends({"back base=1016 msn=16"});
  EXPECT_THAT(story_of(rx, {"gap", "ffm"}),
              ElementsAre("gap_seen start=1003 length=1", "gap_promoted start=1003 length=1 cause=depth",
                          "ffm_sent start=1003 length=1 highest=1012 gaps=1", "gap_closed start=1003 base=1016"));
  rx.counts(Counter::kMisjudgementCorrections, 0).counts(Counter::kGapsClosed, 0);
}

TEST(Feedback, SeveralGapsInOneMessage) {
  Script rx;
  rx.at(0_us).gets(rx.data(1002)).gets(rx.data(1004)).gets(rx.data(1008));
  rx.at(50_us + kTick).reports({"ffm 1000+2 1003+1 1005+3 base=1000 highest=1008 repeat=0"});
  rx.counts(Counter::kGapsSeen, 3).counts(Counter::kFfmSent, 1).counts(Counter::kGapsPromotedAge, 3);
}

// Fewer gaps than the threshold wait for age_max; as many leave at once.
TEST(Feedback, ThresholdOfGapsCountedAsLost) {
  test::ScriptOptions options;
  options.recovery.ffm_threshold = 2;
  Script rx{options};
  rx.at(0_us).gets(rx.data(1001)).at(20_us).gets(rx.data(1003));
  rx.at(50_us + kTick).is_silent().counts(Counter::kGapsPromotedAge, 1);
  rx.at(70_us + kTick).reports({"ffm 1000+1 1002+1 base=1000 highest=1003 repeat=0"});
  rx.at(80_us).gets(Script::again(rx.data(1000))).gets(Script::again(rx.data(1002))).forget();
  rx.at(1000_us).gets(rx.data(1005));
  rx.at(1050_us + kTick).is_silent().counts(Counter::kGapsPromotedAge, 3);
  rx.at(1100_us).is_silent();
  rx.at(1100_us + kTick).reports({"ffm 1004+1 base=1004 highest=1005 repeat=0"});
  rx.counts(Counter::kFfmSent, 2);
}

TEST(Feedback, OnlyNewlyPromotedGapsAreNamed) {
  Script rx;
  for (std::uint32_t psn = 1001; psn <= 1009; ++psn) rx.at(0_us).gets(rx.data(psn));
  rx.reports({"ffm 1000+1 base=1000 highest=1009 repeat=0"});
  rx.at(10_us).gets(rx.data(1011));
  rx.at(60_us).is_silent();
  rx.at(60_us + kTick).reports({"ffm 1010+1 base=1000 highest=1011 repeat=0"});
  EXPECT_EQ(rx.last_ffm.serial, 1u);
}

TEST(Feedback, PartOfAGapArrives) {
  Script rx;
  rx.at(0_us).gets(rx.data(1005)).gets(rx.data(1002));  // 1000..1004 becomes 1000..1001 and 1003..1004
  rx.at(50_us + kTick).reports({"ffm 1000+2 1003+2 base=1000 highest=1005 repeat=0"});
}

TEST(Feedback, RepeatedWhileOpenWithDoublingPauses) {
  Script rx;
  rx.at(0_us).gets(rx.data(1001));
  rx.at(20'000_us);
  rx.reports(
      {"50001ns ffm 1000+1 base=1000 highest=1001 repeat=0", "550001ns ffm 1000+1 base=1000 highest=1001 repeat=1",
       "1550001ns ffm 1000+1 base=1000 highest=1001 repeat=2", "3550001ns ffm 1000+1 base=1000 highest=1001 repeat=3",
       "7550001ns ffm 1000+1 base=1000 highest=1001 repeat=4",
       "15550001ns ffm 1000+1 base=1000 highest=1001 repeat=5"});
}

TEST(Feedback, RepeatedNoSoonerThanTwoMeasuredRoundTrips) {
  Script rx;
  rx.at(0_us).gets(rx.data(1001)).at(50_us + kTick).reports({"ffm 1000+1 base=1000 highest=1001 repeat=0"});
  rx.at(2050_us + kTick)
      .reports({"550001ns ffm 1000+1 base=1000 highest=1001 repeat=1",
                "1550001ns ffm 1000+1 base=1000 highest=1001 repeat=2"});
  rx.gets(Script::again(rx.data(1000)));  // it is unknown which of three it follows
  rx.gets(rx.data(1003)).at(2100_us + kTick * 2).reports({"ffm 1002+1 base=1002 highest=1003 repeat=0"});
  rx.at(2500_us).gets(Script::again(rx.data(1002)));  // 399,998 ns after the only one
  rx.gets(rx.data(1005))
      .at(3500_us)
      .reports({"2550001ns ffm 1004+1 base=1004 highest=1005 repeat=0",
                "3349997ns ffm 1004+1 base=1004 highest=1005 repeat=1"});
}

// Longer than the longest pause: with the pause bounded by 8 ms each FFM would be repeated, so that no single one would
// ever give a sample.
TEST(Feedback, LearnsARoundTripOfTwentyMilliseconds) {
  Script rx;
  rx.at(0_us).gets(rx.data(1001)).at(20'050_us).forget();
  rx.gets(Script::again(rx.data(1000)));
  rx.gets(rx.data(1003)).at(40'100_us).reports({"20100001ns ffm 1002+1 base=1002 highest=1003 repeat=0"});
  rx.gets(Script::again(rx.data(1002)));  // 19,999,999 ns after the only one
  rx.gets(rx.data(1005)).at(65'149_us).reports({"40150001ns ffm 1004+1 base=1004 highest=1005 repeat=0"});
  rx.at(66'000_us).reports({"65149999ns ffm 1004+1 base=1004 highest=1005 repeat=1"});
}

// As many gaps as slow start leaves when it overflows a long path's queue: all are requested, and an arriving packet
// costs only the gaps that it is evidence for.
TEST(Feedback, RequestedGapsAreNotExaminedWithEachPacket) {
  constexpr std::uint32_t kGaps = 10'000;
  test::ScriptOptions options;
  options.recovery.window_packets = 1u << 17;
  Script rx{options};
  rx.at(0_us);
  for (std::uint32_t i = 0; i < kGaps; ++i) rx.gets(rx.data(1001 + 2 * i));
  rx.at(100_us).forget();
  const std::uint64_t before = rx.responder->snapshot().gaps_looked_at;
  EXPECT_EQ(rx.responder->snapshot().gaps, kGaps);
  for (std::uint32_t i = 0; i < kGaps / 2; ++i) {
    rx.gets(Script::again(rx.data(1000 + 2 * i)));
    rx.gets(rx.data(1001 + 2 * (kGaps + i)));
  }
  EXPECT_LE(rx.responder->snapshot().gaps_looked_at - before, kGaps * 20) << "with each packet all: 50,000,000";
}

TEST(Feedback, NamesAtMostSixtyFourGapsAndWhatTheMtuCarries) {
  Script rx{with_limits(8, 50_us, 80_us)};
  for (std::uint32_t i = 0; i < 40; ++i) rx.at(0_us).gets(rx.data(1001 + 2 * i));
  rx.at(0_us).sends({[] {
                       // MTU 256: 32 gaps; the last five wait.
                       std::string line = "ffm";
                       for (int i = 0; i < 32; ++i) line += " " + std::to_string(1000 + 2 * i) + "+1";
                       return line + " base=1000 highest=1079 repeat=0";
                     }(),
                     "ffm 1064+1 1066+1 1068+1 1070+1 base=1000 highest=1079 repeat=0",
                     "back base=1000 msn=0 bits=" +
                         [] {
                           std::string bits;
                           for (int i = 0; i < 80; ++i) bits += i % 2 == 0 ? '0' : '1';
                           return bits;
                         }()});
}

TEST(Feedback, MoreGapsThanRecordsAreFoundAgain) {
  Script rx;
  for (std::uint32_t i = 0; i < 300; ++i) rx.at(0_us).gets(rx.data(1001 + 2 * i));
  rx.at(100_us).forget();
  for (std::uint32_t i = 0; i < 300; ++i) rx.gets(Script::again(rx.data(1000 + 2 * i)));
  rx.at(105_us).reports({});
  rx.counts(Counter::kGapsSeen, 300).gets(Script::asking(rx.data(1600))).sends({"back base=1601 msn=601"});
}

TEST(Feedback, NothingIsRequestedWhileTheReceiverIsNotReady) {
  Script rx;
  rx.at(0_us).gets(rx.data(1001)).gets(rx.data(1003));
  rx.gets(rx.send(1000, 0, 8)).reports({"brnr(12) base=1000 msn=0 bits=0101"});
  rx.at(5000_us).is_silent();
  rx.posts_receive(8).gets(Script::again(rx.send(1000, 0, 8))).completes({"1 ok 8"});
  rx.at(5000_us).reports({"ffm 1002+1 base=1002 highest=1003 repeat=0"});
}

TEST(Feedback, LostReadRequestIsNamedLikeAnyGap) {
  Script rx;
  rx.at(0_us).gets(rx.data(1000)).gets(rx.data(1004));  // a READ of three responses is missing
  rx.at(60_us).reports({"50001ns ffm 1001+3 base=1001 highest=1004 repeat=0"});
  rx.gets(Script::again(rx.read(1001, 700)))
      .reports({"bitmap read_first 1001 256B index=0", "bitmap read_middle 1002 256B index=1",
                "bitmap read_last 1003 188B index=2"});
  rx.gets(Script::asking(rx.data(1005))).sends({"back base=1006 msn=4"});
}

TEST(Feedback, EarlyPacketsAreAcknowledgedByBits) {
  Script rx;
  rx.at(0_us).gets(rx.data(1000)).gets(rx.data(1002)).gets(Script::asking(rx.data(1003)));
  rx.sends({"back base=1001 msn=1 bits=011"});
}

// --- a standard peer: only a NAK, and only when the gap is judged lost ---

test::ScriptOptions standard(RecoveryMode mode = RecoveryMode::kBitmap) {
  return {.mode = mode, .bitmap_agreed = false};
}

TEST(StandardGap, ReorderingIsNotAnswered) {
  for (const auto mode : {RecoveryMode::kBitmap, RecoveryMode::kStandard}) {
    Script rx{standard(mode)};
    rx.at(0_us).gets(rx.data(1001)).gets(rx.data(1002));
    rx.at(40_us).gets(Script::asking(rx.data(1000))).sends({"ack 1002 msn=3"});
    rx.at(1000_us).sends({}).counts(Counter::kGapsClosed, 1);
  }
}

// After a sequence NAK a standard peer retransmits all from there, though no packet is marked so.
TEST(StandardGap, WhatGoingBackBringsIsNoReordering) {
  Script rx{standard()};
  rx.at(0_us).gets(rx.data(1000)).gets(rx.data(1002)).gets(rx.data(1004));
  rx.at(50_us + kTick).sends({"nak_sequence 1001 msn=1"});
  for (std::uint32_t psn = 1001; psn <= 1004; ++psn) rx.gets(rx.data(psn));
  rx.counts(Counter::kGapsSeen, 2).counts(Counter::kGapsRecovered, 2).counts(Counter::kGapsClosed, 0);
}

TEST(StandardGap, LossIsAnsweredOnceByAgeOrDepth) {
  Script rx{standard()};
  rx.at(0_us).gets(rx.data(1000)).gets(rx.data(1002));
  rx.at(50_us).sends({});
  rx.at(50_us + kTick).sends({"nak_sequence 1001 msn=1"});
  for (std::uint32_t psn = 1003; psn < 1040; ++psn) rx.gets(rx.data(psn));
  rx.at(10'000_us).sends({}).counts(Counter::kSentSeqNak, 1);
  Script deep{standard()};
  for (std::uint32_t psn = 1001; psn <= 1008; ++psn) deep.at(0_us).gets(deep.data(psn));
  deep.sends({}).gets(deep.data(1009)).sends({"nak_sequence 1000 msn=0"});
}

TEST(StandardGap, GoingBackIsNotTakenForAnotherLoss) {
  Script rx{standard()};
  // 1000 and 1005 are lost; 1020 is the newest when the NAK leaves.
  for (std::uint32_t psn = 1001; psn <= 1020; ++psn) {
    if (psn != 1005) rx.at(0_us).gets(rx.data(psn));
  }
  rx.sends({"nak_sequence 1000 msn=0"});
  // The peer retransmits all of it; the second gap is filled without a NAK of its own.
  rx.at(200_us).gets(rx.data(1000)).sends({"ack 1004 msn=5"});
  for (std::uint32_t psn = 1001; psn <= 1004; ++psn) rx.gets(rx.data(psn));
  rx.at(400_us).sends({"200000ns ack 1004 msn=5"});
  rx.gets(rx.data(1005)).sends({"ack 1020 msn=21"});
  rx.at(10'000_us).sends({});
}

TEST(StandardGap, WhatLeftBeforeThePeerWentBackIsSentAgainToo) {
  Script rx{standard()};
  for (std::uint32_t psn = 1001; psn <= 1010; ++psn) rx.at(0_us).gets(rx.data(psn));
  rx.sends({"nak_sequence 1000 msn=0"});
  // Still the first time: 1015 is lost among the packets in flight.
  for (std::uint32_t psn = 1011; psn <= 1030; ++psn) {
    if (psn != 1015) rx.at(100_us).gets(rx.data(psn));
  }
  rx.at(200_us).gets(rx.data(1000)).sends({"ack 1014 msn=15"});
  rx.at(400_us).sends({});
  rx.gets(rx.data(1015)).sends({"ack 1030 msn=31"}).counts(Counter::kMisjudgementCorrections, 0);
  rx.counts(Counter::kSentSeqNak, 1);
}

TEST(StandardGap, LostAgainWhileGoingBack) {
  Script rx{standard()};
  for (std::uint32_t psn = 1001; psn <= 1020; ++psn) rx.at(0_us).gets(rx.data(psn));
  rx.sends({"nak_sequence 1000 msn=0"});
  // 1000 is lost a second time: the packets behind it come again, which reveals it.
  for (std::uint32_t psn = 1001; psn <= 1008; ++psn) rx.at(300_us).gets(rx.data(psn));
  rx.sends({}).gets(rx.data(1009)).sends({"nak_sequence 1000 msn=0"});
  Script few{standard()};
  few.at(0_us).gets(few.data(1001)).at(51_us).sends({"50001ns nak_sequence 1000 msn=0"});
  few.at(300_us).gets(few.data(1001)).at(350_us).sends({});
  few.at(350_us + kTick).sends({"nak_sequence 1000 msn=0"});
}

TEST(StandardGap, LateOriginalTakesBackANakThatHasNotLeft) {
  Script rx{standard()};
  for (std::uint32_t psn = 1001; psn <= 1009; ++psn) rx.at(0_us).gets(rx.data(psn));
  rx.gets(rx.data(1000)).sends({"ack 1009 msn=10"}).counts(Counter::kMisjudgementCorrections, 1);
  rx.counts(Counter::kSentSeqNak, 0);
}

TEST(StandardGap, PacketBeyondTheWindowIsNakedAtOnce) {
  auto options = standard();
  options.recovery.window_packets = 64;
  Script rx{options};
  rx.at(0_us).gets(rx.read(1100, 8)).sends({"nak_sequence 1000 msn=0"}).drops(DropReason::kOutOfWindow, 1);
}

}  // namespace
}  // namespace brdma
