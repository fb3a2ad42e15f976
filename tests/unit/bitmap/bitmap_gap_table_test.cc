// tests design BR-9, BR-10.
#include <gtest/gtest.h>

#include "bitmap/gap_table.h"
#include "support/checks.h"

namespace brdma::bitmap {
namespace {

SegmentPool pool;

TEST(GapTable, OpensARecordForWhatWasSkipped) {
  GapTable gaps;
  EXPECT_TRUE(gaps.open(Psn{1002}, Psn{1003}, 0, Instant{}, Instant{}));
  EXPECT_TRUE(gaps.empty()) << "nothing was skipped";
  EXPECT_TRUE(gaps.open(Psn{0xFFFFFF}, Psn{2}, 3, Instant{} + 7_us, Instant{} + 2_us));
  ASSERT_EQ(gaps.size(), 1u);
  EXPECT_EQ(gaps[0].start, Psn{0});
  EXPECT_EQ(gaps[0].length, 2u);
  EXPECT_EQ(gaps[0].first_seen, Instant{} + 7_us);
  EXPECT_EQ(gaps[0].base_stuck_since, Instant{} + 2_us);
  EXPECT_EQ(gaps[0].path, 3);
  EXPECT_EQ(gaps[0].state, GapState::kWaiting);
}

TEST(GapTable, AnArrivalShrinksSplitsOrClosesAGap) {
  GapTable gaps;
  gaps.open(Psn{9}, Psn{15}, 0, Instant{}, Instant{});  // 10 .. 14
  gaps[0].state = GapState::kPromoted;
  EXPECT_FALSE(gaps.fill(Psn{9}).found);
  EXPECT_FALSE(gaps.fill(Psn{15}).found);
  auto filled = gaps.fill(Psn{10});
  EXPECT_TRUE(filled.found);
  EXPECT_FALSE(filled.closed);
  EXPECT_EQ(filled.state, GapState::kPromoted);
  EXPECT_FALSE(gaps.fill(Psn{14}).closed);
  EXPECT_FALSE(gaps.fill(Psn{12}).closed);  // 11 | 13
  ASSERT_EQ(gaps.size(), 2u);
  EXPECT_EQ(gaps[0].start, Psn{11});
  EXPECT_EQ(gaps[1].start, Psn{13});
  EXPECT_EQ(gaps[1].state, GapState::kPromoted) << "both parts keep the gap's history";
  EXPECT_TRUE(gaps.fill(Psn{11}).closed);
  EXPECT_TRUE(gaps.fill(Psn{13}).closed);
  EXPECT_TRUE(gaps.empty());
}

TEST(GapTable, ForgetsWhatLiesBeforeTheBase) {
  GapTable gaps;
  gaps.open(Psn{9}, Psn{15}, 0, Instant{}, Instant{});   // 10 .. 14
  gaps.open(Psn{15}, Psn{18}, 0, Instant{}, Instant{});  // 16, 17
  gaps.drop_before(Psn{10});
  EXPECT_EQ(gaps[0].length, 5u);
  gaps.drop_before(Psn{13});
  EXPECT_EQ(gaps[0].start, Psn{13});
  EXPECT_EQ(gaps[0].length, 2u);
  gaps.drop_before(Psn{16});
  ASSERT_EQ(gaps.size(), 1u);
  EXPECT_EQ(gaps[0].start, Psn{16});
  gaps.drop_before(Psn{100});
  EXPECT_TRUE(gaps.empty());
}

TEST(GapTable, AFullTableLeavesTheNewestOut) {
  GapTable gaps;
  ReceiveWindow window{Psn{0}, WindowShape{.window = 8192}, pool};
  const auto arrives = [&](std::uint32_t psn) {
    const Psn highest = window.highest();
    window.receive(Psn{psn});
    if (distance(Psn{psn}, highest) > 0) return gaps.open(highest, Psn{psn}, 0, Instant{}, Instant{});
    return gaps.fill(Psn{psn}).found;
  };
  for (std::uint32_t i = 1; i <= kGapsMax; ++i) EXPECT_TRUE(arrives(i * 4));  // gaps of three
  EXPECT_FALSE(gaps.incomplete());
  EXPECT_FALSE(arrives(4000));
  EXPECT_TRUE(gaps.incomplete());
  EXPECT_TRUE(arrives(2));  // splits the first: the last record is evicted
  EXPECT_EQ(gaps.size(), kGapsMax);
  EXPECT_EQ(gaps[0].length, 2u);
  EXPECT_EQ(gaps[1].start, Psn{3});
  EXPECT_EQ(gaps[kGapsMax - 1].start, Psn{(kGapsMax - 2) * 4 + 1});
  for (const std::uint32_t psn : {0u, 1u, 3u}) EXPECT_TRUE(arrives(psn));
  EXPECT_EQ(gaps.refill(window, Instant{} + 1_us, Instant{}), 2u);
  EXPECT_EQ(gaps[kGapsMax - 2].start, Psn{(kGapsMax - 1) * 4 + 1});
  EXPECT_EQ(gaps[kGapsMax - 1].start, Psn{kGapsMax * 4 + 1});
  EXPECT_EQ(gaps[kGapsMax - 1].length, 4000 - kGapsMax * 4 - 1);
  EXPECT_TRUE(gaps.incomplete()) << "full again: whether more lie behind is not known";
  gaps.drop_before(Psn{9});
  EXPECT_EQ(gaps.refill(window, Instant{} + 1_us, Instant{}), 0u);
  EXPECT_FALSE(gaps.incomplete());
}

TEST(GapTable, ALongWindowHasMoreRecords) {
  EXPECT_EQ(gaps_max(4096), kGapsMax);
  EXPECT_EQ(gaps_max(16384), 4096u);
  EXPECT_EQ(gaps_max(1u << 20), kGapsMaxLong);
  GapTable gaps;
  gaps.begin(1024);
  for (std::uint32_t i = 0; i < 1024; ++i) EXPECT_TRUE(gaps.open(Psn{i * 2}, Psn{i * 2 + 2}, 0, Instant{}, Instant{}));
  EXPECT_FALSE(gaps.open(Psn{2048}, Psn{2050}, 0, Instant{}, Instant{}));
}

TEST(GapTable, OverlappingRecordsAreOurBug) {
  const test::ThrowingChecks checks;
  GapTable gaps;
  gaps.open(Psn{9}, Psn{15}, 0, Instant{}, Instant{});
  EXPECT_THROW(gaps.open(Psn{11}, Psn{14}, 0, Instant{}, Instant{}), test::CheckFailed);
}

// A path that holds 300,000 packets, of which 1 % is missing: the query at each acknowledgement must not scan all gaps.
TEST(GapTable, WhatIsPromotedIsPassedOverOnce) {
  constexpr std::uint32_t kGaps = 4000;
  GapTable gaps;
  gaps.begin(kGapsMaxLong);
  for (std::uint32_t i = 0; i < kGaps; ++i) {
    gaps.open(Psn{100 * i}, Psn{100 * i + 2}, 0, Instant{}, Instant{});
    gaps[i].state = GapState::kPromoted;
    EXPECT_EQ(gaps.first_waiting(), i + 1);
  }
  EXPECT_LE(gaps.visited(), kGaps);
  for (std::uint32_t i = 0; i < kGaps; ++i) {  // each is filled, and one opens behind all
    EXPECT_TRUE(gaps.fill(Psn{100 * i + 1}).closed);
    gaps.open(Psn{100 * (kGaps + i)}, Psn{100 * (kGaps + i) + 2}, 0, Instant{}, Instant{});
    EXPECT_EQ(gaps.first_waiting(), kGaps - 1);
    gaps[kGaps - 1].state = GapState::kPromoted;
  }
  EXPECT_LE(gaps.visited(), 2 * kGaps);
}

}  // namespace
}  // namespace brdma::bitmap
