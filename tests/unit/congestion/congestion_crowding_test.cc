// congestion/window/crowding.h: when a flow is one of many, when it no longer is, and what holds for it meanwhile.
#include <gtest/gtest.h>

#include <cstdint>

#include "congestion/delay_window.h"
#include "congestion/window/crowding.h"

namespace brdma::congestion {
namespace {

constexpr std::uint64_t kLeast = CrowdingConfig{}.least_bytes, kMin = DelayWindowConfig{}.min_bytes,
                        kPaced = CrowdingConfig{}.paced_bytes, kLarge = CrowdingConfig{}.large_bytes;
constexpr Instant kStart = Instant{} + 1_s;

Crowding crowded() {
  Crowding flow;
  flow.on_loss(kStart);
  flow.on_full_queue();
  return flow;
}
Crowding shared() {
  Crowding flow;
  flow.on_round(100_us, true, kMin - 1, kStart);
  flow.on_drained(true);
  return flow;
}
// So many rounds, that would allow `next`.
void rounds(Crowding& flow, int count, std::uint64_t next, bool saw_queue = true, Instant now = kStart) {
  for (int i = 0; i < count; ++i) flow.on_round(100_us, saw_queue, next, now);
}

TEST(Crowding, AFlowIsNotOneOfManyAtFirst) {
  const Crowding flow;
  EXPECT_FALSE(flow.is_crowded());
  EXPECT_TRUE(flow.may_find_longer_path());
  EXPECT_EQ(flow.least(), kMin);
  EXPECT_EQ(flow.target(100_us, 1024), 100_us);
  EXPECT_FALSE(flow.is_paced(1));
  EXPECT_EQ(flow.bound(100'000, 50'000, 1), 100'000u);
}

TEST(Crowding, BeginsWithAFullQueue) {
  const Crowding flow = crowded();
  EXPECT_TRUE(flow.is_crowded());
  EXPECT_TRUE(flow.may_find_longer_path()) << "no drain has shown that the queue is others'";
  EXPECT_TRUE(flow.is_paced(kPaced - 1));
  EXPECT_FALSE(flow.is_paced(kPaced));
}

TEST(Crowding, BeginsWithADrainThatEmptiesAQueueAfterRoundsBelowTheMinimum) {
  Crowding flow;
  flow.on_drained(true);
  EXPECT_FALSE(flow.is_crowded()) << "no rounds";
  rounds(flow, 3, kMin - 1);
  rounds(flow, 10, kMin);
  flow.on_drained(true);
  EXPECT_FALSE(flow.is_crowded()) << "fewer than a quarter";
  rounds(flow, 13, kMin - 1);
  flow.on_drained(false);
  EXPECT_FALSE(flow.is_crowded()) << "a queue stands";
  rounds(flow, 3, kMin - 1);
  rounds(flow, 9, kMin);
  flow.on_drained(true);
  EXPECT_TRUE(flow.is_crowded());
  EXPECT_FALSE(flow.may_find_longer_path());
}

TEST(Crowding, NoSilenceCountsAndNoneIsBridgedSoonAfterALoss) {
  EXPECT_TRUE(Crowding{}.may_find_silence());
  EXPECT_TRUE(Crowding{}.may_bridge());
  Crowding flow = crowded();
  EXPECT_FALSE(flow.may_find_silence());
  rounds(flow, CrowdingConfig{}.bridge_rounds - 1, kMin);
  EXPECT_FALSE(flow.may_bridge());
  rounds(flow, 1, kMin);
  EXPECT_TRUE(flow.may_bridge());
  EXPECT_FALSE(flow.may_find_silence());
  flow.on_loss(kStart);
  EXPECT_FALSE(flow.may_bridge());
}

TEST(Crowding, ItsWindowMayBe256BytesAndChangesByAsManyARound) {
  const Crowding flow = crowded();
  EXPECT_EQ(flow.least(), 256u);
  EXPECT_EQ(flow.bound(8192, 1024, kLarge), 1280u);
  EXPECT_EQ(flow.bound(1100, 1024, kLarge), 1100u);
  EXPECT_EQ(flow.bound(512, 1024, kLarge), 768u);
  EXPECT_EQ(flow.bound(0, 100, kLarge), 0u) << "no less than nothing";
}

TEST(Crowding, ALargeWindowChangesByAQuarterToo) {
  const Crowding flow = crowded();
  EXPECT_EQ(flow.bound(kLarge, kMin + 4000, kLarge), kMin + 4000 + 256 + 1000);
  EXPECT_EQ(flow.bound(0, kMin + 4000, kLarge), kMin + 4000 - 256 - 1000);
  EXPECT_EQ(flow.bound(kLarge, kMin + 4000, 500), kMin + 4000 + 256 + 500) << "it grows by 500 at most";
  EXPECT_EQ(flow.bound(0, kMin + 4000, 500), kMin + 4000 - 256 - 1000);
}

// 1 + (sqrt(16 KiB / window) - 1) / 2
TEST(Crowding, TheTargetGrowsAsTheWindowShrinks) {
  const Crowding flow = crowded();
  EXPECT_EQ(flow.target(100_us, 64 * 1024), 100_us);
  EXPECT_EQ(flow.target(100_us, 16 * 1024), 100_us);
  EXPECT_EQ(flow.target(100_us, 4 * 1024), 150_us);
  EXPECT_EQ(flow.target(100_us, 1024), 250_us);
  EXPECT_EQ(flow.target(100_us, 256), 450_us);
  EXPECT_EQ(flow.target(100_us, 1), 450_us);
  EXPECT_EQ(flow.target(100_us, 12 * 1024), Duration::from_ns(109'375)) << "the root is a multiple of 1/16, rounded up";
}

TEST(Crowding, EndsWithALargeWindowAfterRoundsAndTimeWithoutALoss) {
  constexpr CrowdingConfig kConfig;
  const Instant later = kStart + kConfig.calm_time + kTick;
  Crowding flow = crowded();
  rounds(flow, kConfig.calm_rounds - 1, kLarge, true, later);
  EXPECT_TRUE(flow.is_crowded()) << "a round less";
  rounds(flow, 1, kLarge - 1, true, later);
  EXPECT_TRUE(flow.is_crowded()) << "a byte less";
  rounds(flow, 1, kLarge, true, kStart + kConfig.calm_time);
  EXPECT_TRUE(flow.is_crowded()) << "a moment less";
  rounds(flow, 1, kLarge, true, later);
  EXPECT_FALSE(flow.is_crowded());
  flow = crowded();
  rounds(flow, kConfig.calm_rounds - 1, kLarge, true, later);
  flow.on_loss(kStart);
  rounds(flow, kConfig.calm_rounds - 1, kLarge, true, later);
  EXPECT_TRUE(flow.is_crowded());
}

TEST(Crowding, EndsByAVerdictOnItsLosses) {
  Crowding flow = shared();
  flow.end();
  EXPECT_FALSE(flow.is_crowded());
  EXPECT_TRUE(flow.may_find_longer_path());
}

TEST(Crowding, EndsAfterRoundsInARowWithoutAQueue) {
  Crowding flow = shared();
  rounds(flow, CrowdingConfig{}.free_rounds - 1, kLeast, false);
  rounds(flow, 1, kLeast);
  rounds(flow, CrowdingConfig{}.free_rounds - 1, kLeast, false);
  EXPECT_TRUE(flow.is_crowded());
  rounds(flow, 1, kLeast, false);
  EXPECT_FALSE(flow.is_crowded());
  EXPECT_TRUE(flow.may_find_longer_path());
}

TEST(Crowding, AFullQueueRestartsThoseRounds) {
  Crowding flow = crowded();
  rounds(flow, CrowdingConfig{}.free_rounds - 1, kLeast, false);
  flow.on_full_queue();
  rounds(flow, 1, kLeast, false);
  EXPECT_TRUE(flow.is_crowded());
}

// Other flows' packets would make them vary. A 64th is too much.
TEST(Crowding, ConstantRoundTripsMayBeALongerPath) {
  Crowding flow = shared();
  const int constant = CrowdingConfig{}.constant_rounds;
  flow.on_round(6'300_us, true, kLeast, kStart);
  for (int i = 0; i < constant - 1; ++i) flow.on_round(6'300_us, true, kLeast, kStart);
  flow.on_round(6'400_us, true, kLeast, kStart);
  for (int i = 0; i < constant - 1; ++i) flow.on_round(i % 2 == 0 ? 6'310_us : 6'400_us, true, kLeast, kStart);
  EXPECT_FALSE(flow.may_find_longer_path());
  flow.on_round(6'400_us, true, kLeast, kStart);
  EXPECT_TRUE(flow.may_find_longer_path());
  EXPECT_TRUE(flow.is_crowded());
}

TEST(Crowding, AfterAReportTheWindowMayBeAPacket) {
  Crowding flow;
  flow.on_report(1024);
  EXPECT_EQ(flow.least(), 1024u);
  EXPECT_FALSE(flow.is_crowded());
  rounds(flow, 1, kMin - 1);
  EXPECT_EQ(flow.least(), 1024u);
  flow.on_full_queue();
  EXPECT_EQ(flow.least(), kLeast);
  flow.end();
  EXPECT_EQ(flow.least(), 1024u);
  rounds(flow, 1, kMin);
  EXPECT_EQ(flow.least(), kMin) << "forgotten, once the window is as long";
}

}  // namespace
}  // namespace brdma::congestion
