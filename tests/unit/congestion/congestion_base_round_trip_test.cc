// The length of a path, and when it is doubted: rounds of a path of 20 ms, where drains are 2 s apart; and the drains
// of short paths.
#include <gtest/gtest.h>

#include <vector>

#include "congestion/window/base_round_trip.h"

namespace brdma::congestion {
namespace {

using Verdict = BaseRoundTrip::Verdict;
constexpr Instant kNow = Instant{} + 1_s;
constexpr Duration kTarget = 1250_us;

BaseRoundTrip of_20_ms() {
  BaseRoundTrip base;
  base.note(20_ms, kNow);
  return base;
}
bool wants_drain(BaseRoundTrip& base, Duration rtt, bool spread, Instant now = kNow) {
  return base.wants_drain({.rtt = rtt, .queueing = kTarget, .window = 1000, .limited = true, .spread = spread}, now);
}

TEST(BaseRoundTrip, ADrainIsDueOnceAPeriod) {
  BaseRoundTrip base = of_20_ms();
  EXPECT_FALSE(wants_drain(base, 20_ms, true)) << "the first period has been under way";
  const Duration period = Duration::from_ns(std::int64_t{1} << 31);
  EXPECT_TRUE(wants_drain(base, 20_ms, true, kNow + period));
  EXPECT_FALSE(wants_drain(base, 20_ms, true, kNow + period));
}

TEST(BaseRoundTrip, ARoundFarBeyondTheTargetBringsOneForward) {
  BaseRoundTrip base = of_20_ms();
  EXPECT_FALSE(wants_drain(base, 22'500_us, true));
  EXPECT_TRUE(wants_drain(base, 22'501_us, true));
  BaseRoundTrip bursts = of_20_ms();
  EXPECT_FALSE(wants_drain(bursts, 26_ms, false)) << "bursts make queues by themselves";
  EXPECT_TRUE(wants_drain(bursts, 26_ms, false));
  EXPECT_EQ(bursts.undoubted(), 1000u);
  BaseRoundTrip idle = of_20_ms();
  EXPECT_FALSE(idle.wants_drain({.rtt = 26_ms, .queueing = kTarget, .spread = true}, kNow));
  BaseRoundTrip often;
  often.note(1_ms, kNow);
  EXPECT_FALSE(wants_drain(often, 9_ms, true)) << "the next one is soon";
}

TEST(BaseRoundTrip, WhatHalfTheFlightDoesNotMakeShorterIsThePath) {
  BaseRoundTrip base = of_20_ms();
  base.begin_drain(25'600_us, 25'600_us, kTarget);
  EXPECT_EQ(base.judge({24'801_us, 24'801_us, kTarget}, kNow), Verdict::kLonger) << "within a thirty-second";
  EXPECT_EQ(base.value(), 24'801_us);
}

TEST(BaseRoundTrip, WhatItMakesShorterIsAQueue) {
  BaseRoundTrip base = of_20_ms();
  base.begin_drain(25'600_us, 25'600_us, kTarget);
  EXPECT_EQ(base.judge({22'500_us, 22'500_us, kTarget}, kNow), Verdict::kKept);
  EXPECT_EQ(base.value(), 20_ms);
}

// A path that is 5 ms longer, and a queue of 3 ms on it.
TEST(BaseRoundTrip, ALongerPathUnderAQueueIsSeenByASecondDrain) {
  BaseRoundTrip base = of_20_ms();
  ASSERT_TRUE(wants_drain(base, 28_ms, true));
  base.begin_drain(28_ms, 28_ms, kTarget);
  EXPECT_EQ(base.judge({25_ms, 25_ms, kTarget}, kNow), Verdict::kOnceMore);
  base.begin_drain(25_ms, 25_ms, kTarget);
  EXPECT_EQ(base.judge({25_ms, 25_ms, kTarget}, kNow), Verdict::kLonger);
  EXPECT_EQ(base.value(), 25_ms);
}

// It grows from 11 ms to 218 in the round before the drain, and falls from 218 to 117 in the drain.
TEST(BaseRoundTrip, AQueueThatGrewInTheRoundBeforeIsNoLongerPath) {
  BaseRoundTrip base = of_20_ms();
  ASSERT_TRUE(wants_drain(base, 63_ms, true));
  base.begin_drain(63_ms, 218_ms, kTarget);
  EXPECT_EQ(base.judge({117_ms, 125_ms, kTarget}, kNow), Verdict::kOnceMore);
  EXPECT_EQ(base.value(), 20_ms);
  base.begin_drain(117_ms, 125_ms, kTarget);
  EXPECT_EQ(base.judge({117_ms, 110_ms, kTarget}, kNow), Verdict::kLonger) << "an eighth is no collapse";
}
TEST(BaseRoundTrip, WhatFallsInTheDrainIsAQueueThoughItBeganShorter) {
  BaseRoundTrip base = of_20_ms();
  ASSERT_TRUE(wants_drain(base, 100_ms, true));
  base.begin_drain(100_ms, 124_ms, kTarget);
  EXPECT_EQ(base.judge({100_ms, 105_ms, kTarget}, kNow), Verdict::kOnceMore);
}

// A queue kept by other flows: this flow's part of it drains each time.
TEST(BaseRoundTrip, ASecondDrainIsTheLast) {
  BaseRoundTrip base = of_20_ms();
  ASSERT_TRUE(wants_drain(base, 40_ms, true));
  base.begin_drain(40_ms, 40_ms, kTarget);
  EXPECT_EQ(base.judge({38_ms, 38_ms, kTarget}, kNow), Verdict::kOnceMore);
  base.begin_drain(38_ms, 38_ms, kTarget);
  EXPECT_EQ(base.judge({36_ms, 36_ms, kTarget}, kNow), Verdict::kKept);
  EXPECT_EQ(base.value(), 20_ms);
}

TEST(BaseRoundTrip, DrainsThatFindAQueueBecomeRare) {
  BaseRoundTrip base = of_20_ms();
  std::vector<int> drains;
  for (int round = 1; round <= 100; ++round) {
    if (!wants_drain(base, 26_ms, true)) continue;
    drains.push_back(round);
    base.begin_drain(26_ms, 26_ms, kTarget);
    EXPECT_EQ(base.judge({20_ms, 20_ms, kTarget}, kNow), Verdict::kKept);
  }
  EXPECT_EQ(drains, (std::vector{1, 4, 9, 18, 35, 52, 69, 86}));
  for (int round = 0; round < 30; ++round) EXPECT_FALSE(wants_drain(base, 20_ms, true));
  drains.clear();
  for (int round = 1; round <= 4; ++round) {
    if (wants_drain(base, 26_ms, true)) drains.push_back(round);
  }
  EXPECT_EQ(drains, (std::vector{1, 4})) << "what went well for long is trusted again";
}

// --- short paths: early drains, until when a drain lasts, which verdicts it may have ---

constexpr Duration kPeriod = Duration::from_ns(1 << 28), kSixteenth = kPeriod / 16;

// Rounds of that length over two periods from `from` on. Returns when a drain was due, in sixteenths of a period.
std::vector<std::int64_t> drains(Duration rtt, std::int64_t from, bool lost = true) {
  BaseRoundTrip base;
  if (lost) base.note_full_queue();
  std::vector<std::int64_t> due;
  const Instant start = Instant{} + kPeriod * 8, end = start + kPeriod * 2 + kSixteenth;
  for (Instant now = start + kSixteenth * from + rtt / 2; now < end; now = now + rtt) {
    base.note(rtt, now);
    if (wants_drain(base, rtt, false, now)) due.push_back((now - start).ns() / kSixteenth.ns());
  }
  return due;
}

TEST(BaseRoundTrip, EarlyDrainsComeWhileThePeriodGrowsToItsLength) {
  EXPECT_EQ(drains(100_us, 0), (std::vector<std::int64_t>{1, 2, 4, 8, 16, 32}));
  EXPECT_EQ(drains(100_us, 5), (std::vector<std::int64_t>{6, 8, 12, 16, 32}));
}

TEST(BaseRoundTrip, WithoutALossThereAreNoEarlyDrains) {
  EXPECT_EQ(drains(100_us, 0, false), (std::vector<std::int64_t>{16, 32}));
}

TEST(BaseRoundTrip, EarlyPeriodsAreAtLeast64RoundTrips) {
  EXPECT_EQ(drains(1_ms, 0), (std::vector<std::int64_t>{4, 8, 16, 32}));
  EXPECT_EQ(drains(4_ms, 0), (std::vector<std::int64_t>{16, 32}));
}

TEST(BaseRoundTrip, AnEarlyDrainFindsNoLongerPath) {
  BaseRoundTrip base;
  base.note_full_queue();
  const Instant start = Instant{} + kPeriod * 8;
  base.note(100_us, start);
  for (const std::int64_t at : {0, 1, 2, 4, 8, 16}) {
    const Instant now = start + kSixteenth * at;
    ASSERT_EQ(wants_drain(base, 400_us, false, now), at != 0);
    base.begin_drain(400_us, 400_us, 100_us);
    const Verdict expected = at == 16 ? Verdict::kLonger : Verdict::kKept;
    if (at != 0) {
      EXPECT_EQ(base.judge({400_us, 400_us, 100_us}, now), expected) << at;
    }
  }
  EXPECT_EQ(base.value(), 400_us);
}

TEST(BaseRoundTrip, ADrainFindsNoLongerPathWhereOtherFlowsQueueLooksTheSame) {
  BaseRoundTrip base = of_20_ms();
  for (const bool may_be_longer : {false, true}) {
    base.begin_drain(22'400_us, 22'400_us, kTarget);
    EXPECT_EQ(base.judge({22'400_us, 22'400_us, kTarget, may_be_longer}, kNow),
              may_be_longer ? Verdict::kLonger : Verdict::kKept);
  }
}

TEST(BaseRoundTrip, ADrainEmptiesAQueueIfTheRoundTripFallsByMoreThanAThirtySecond) {
  BaseRoundTrip base = of_20_ms();
  EXPECT_FALSE(base.is_emptied_by(20_ms)) << "no queue before it";
  base.begin_drain(25'600_us, 25'600_us, kTarget);
  EXPECT_FALSE(base.is_emptied_by(24'800_us));
  EXPECT_TRUE(base.is_emptied_by(24'799_us));
}

// Flows whose clock is the same all drain until then.
TEST(BaseRoundTrip, ADrainLastsFromTheMultipleOfItsPeriod) {
  BaseRoundTrip base;
  base.note_full_queue();
  const Instant start = Instant{} + kPeriod * 8;
  base.note(100_us, start);
  const Duration lasts = BaseRoundTripConfig{}.drain_lasts;
  for (const std::int64_t at : {0, 1, 2, 4, 8, 16, 32}) {
    const Instant now = start + kSixteenth * at;
    ASSERT_EQ(wants_drain(base, 100_us, false, now + 300_us), at != 0);
    if (at != 0) {
      EXPECT_EQ(base.drain_end(), now + lasts) << at;
    }
  }
}

}  // namespace
}  // namespace brdma::congestion
