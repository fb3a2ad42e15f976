// tests design BR-13 to BR-20.
#include <gtest/gtest.h>

#include "recovery/gap_judge.h"

namespace brdma::recovery {
namespace {

constexpr Instant kStart = Instant::from_ns(1'000'000);

struct Case {
  const char* name;
  std::uint32_t depth;
  Duration age;
  Duration stall;
  GapVerdict verdict;
};

GapVerdict wait_until(Duration after_start) { return WaitUntil{kStart + after_start}; }

// All cases are judged at the same instant; the gap was seen `age` and the base stuck `stall` before it.
TEST(GapJudge, WaitsWithinTheLimitsAndPromotesBeyondAny) {
  constexpr Instant kNow = kStart + 200_us;
  const Case cases[] = {
      // The reference cases of design BR-16.
      {"3 later packets, 20 us, 20 us: wait", 3, 20_us, 20_us, wait_until(230_us + kTick)},
      {"9 later packets: loss", 9, 20_us, 20_us, Lost{LossCause::kDepth}},
      {"more than 50 us: loss", 3, 50_us + kTick, 20_us, Lost{LossCause::kAge}},
      {"more than 80 us stall: loss", 3, 20_us, 80_us + kTick, Lost{LossCause::kStall}},
      // Both sides of each limit.
      {"at the depth limit", 8, 0_us, 0_us, wait_until(250_us + kTick)},
      {"at the age limit", 1, 50_us, 50_us, wait_until(200_us + kTick)},
      {"at the stall limit", 1, 10_us, 80_us, wait_until(200_us + kTick)},
      {"stall ends first", 1, 10_us, 60_us, wait_until(220_us + kTick)},
      {"age ends first", 1, 30_us, 30_us, wait_until(220_us + kTick)},
      {"depth names the cause before time does", 9, 90_us, 90_us, Lost{LossCause::kDepth}},
      {"age names the cause before the stall does", 8, 90_us, 90_us, Lost{LossCause::kAge}},
      {"just seen", 1, 0_us, 0_us, wait_until(250_us + kTick)},
  };
  for (const Case& c : cases) {
    const GapFacts facts{c.depth, false, kNow - c.age, kNow - c.stall};
    EXPECT_EQ(judge(facts, GapLimits{}, kNow), c.verdict) << c.name;
  }
}

TEST(GapJudge, PathEvidencePromotesEarly) {
  const GapFacts facts{1, true, kStart, kStart};
  EXPECT_EQ(judge(facts, GapLimits{}, kStart), GapVerdict{Lost{LossCause::kSamePath}});
}

TEST(GapJudge, TheNamedInstantIsTheFirstAtWhichTheVerdictChanges) {
  const GapFacts facts{2, false, kStart + 3_us, kStart};
  for (const GapLimits limits : {GapLimits{}, GapLimits{8, 0_us, 0_us}, GapLimits{8, 5_us, 100_us}}) {
    const Instant seen = kStart + 3_us;
    const auto verdict = judge(facts, limits, seen);
    if (std::holds_alternative<Lost>(verdict)) continue;  // limits of zero: the stall is older than the gap
    const Instant at = std::get<WaitUntil>(verdict).retry_at;
    EXPECT_GT(at, seen);
    EXPECT_TRUE(std::holds_alternative<WaitUntil>(judge(facts, limits, at - kTick)));
    EXPECT_TRUE(std::holds_alternative<Lost>(judge(facts, limits, at)));
  }
}

TEST(GapJudge, LimitsAreConfigurable) {
  const GapFacts facts{9, false, kStart, kStart};
  EXPECT_EQ(judge(facts, GapLimits{9, 1_ms, 2_ms}, kStart), (GapVerdict{WaitUntil{kStart + 1_ms + kTick}}));
  EXPECT_EQ(judge({1, false, kStart, kStart}, GapLimits{0, 1_ms, 1_ms}, kStart), GapVerdict{Lost{LossCause::kDepth}});
}

TEST(GapJudge, AStallCountsInPacketsWhereThereIsALimit) {
  const GapLimits limits{.stall_packets = 4};
  GapFacts facts{.depth = 5, .first_seen = kStart, .base_stuck_since = kStart, .later_packets = 4};
  EXPECT_EQ(judge(facts, limits, kStart), (GapVerdict{WaitUntil{kStart + 50_us + kTick}})) << "at the limit";
  facts.later_packets = 5;
  EXPECT_EQ(judge(facts, limits, kStart), GapVerdict{Lost{LossCause::kStall}});
  EXPECT_EQ(judge(facts, GapLimits{}, kStart), (GapVerdict{WaitUntil{kStart + 50_us + kTick}}));
}

TEST(GapJudge, AStallBeginsWithTheBasesLastMoveWithinABound) {
  EXPECT_EQ(stall_begin(kStart + 20_us, kStart, 50_us), kStart + 20_us) << "it moved after the gap was seen";
  EXPECT_EQ(stall_begin(kStart - 20_us, kStart, 50_us), kStart - 20_us);
  EXPECT_EQ(stall_begin(kStart - 50_us, kStart, 50_us), kStart - 50_us);
  EXPECT_EQ(stall_begin(kStart - 1_s, kStart, 50_us), kStart - 50_us);
}

TEST(GapJudge, CausesHaveNames) {
  EXPECT_EQ(name(LossCause::kDepth), "depth");
  EXPECT_EQ(name(LossCause::kImmediate), "immediate");
  EXPECT_EQ(name(LossCause{99}), "unknown");
}

}  // namespace
}  // namespace brdma::recovery
