// A receiver's knowledge of its peer's paths: which packets are evidence that a gap is lost, and which are not.
// tests design BR-17, BR-30, BR-31
#include <gtest/gtest.h>

#include "bitmap/gap_table.h"
#include "qp/paths/paths_receive.h"

namespace brdma::qp {
namespace {

constexpr Psn kBase{1000};
constexpr Instant at(Duration since_start) { return Instant::from_ns(1'000'000'000) + since_start; }

// 1001 and 1002 are missing; later ones come by path(s) that the test names.
class PathsOfAPeer : public testing::Test {
 protected:
  explicit PathsOfAPeer(std::uint32_t count = 3) : paths(config, count, pool, at(0_us)) {
    gaps.open(Psn{1000}, Psn{1003}, 1, at(0_us), at(0_us));
  }
  // Packets [first, last] come by `path`.
  void come(std::uint8_t path, std::uint32_t first, std::uint32_t last, Duration when = 0_us) {
    paths.on_packet(path, at(when));
    paths.received(path, kBase, Psn{first}, last - first + 1);
  }
  // A packet that states: `run` PSNs that end `distance` before it left on its path right before it.
  bool names(std::uint8_t path, std::uint32_t psn, std::uint16_t distance, std::uint16_t run, bool again = false) {
    wire::Bxth header;
    header.path = path;
    header.before = {distance, run};
    header.retransmitted = again;
    return paths.attribute(header, Psn{psn}, gaps);
  }
  [[nodiscard]] bool passed(std::size_t gap = 0, Duration when = 0_us) const {
    return paths.passed(gaps[gap], at(when));
  }

  RecoveryConfig config;
  bitmap::SegmentPool pool;
  ReceivePaths paths;
  bitmap::GapTable gaps;
};

TEST_F(PathsOfAPeer, OnlyPacketsOfTheGapsOwnPathSpeakAgainstIt) {
  EXPECT_TRUE(names(1, 1005, 3, 2)) << "1001 and 1002 left on path 1, before 1005";
  ASSERT_EQ(gaps.size(), 1u);
  EXPECT_TRUE(gaps[0].path_known);
  EXPECT_EQ(gaps[0].path, 1);
  come(0, 1003, 1004);
  come(2, 1006, 1400);
  EXPECT_FALSE(passed()) << "others' packets, however many, say nothing";
  come(1, 1005, 1005);
  EXPECT_TRUE(passed());
}

TEST_F(PathsOfAPeer, WhatIsNamedIsTakenOutOfALongerGap) {
  EXPECT_TRUE(names(2, 1006, 4, 1));
  ASSERT_EQ(gaps.size(), 2u);
  EXPECT_FALSE(gaps[0].path_known);
  EXPECT_EQ(gaps[1].start, Psn{1002});
  EXPECT_TRUE(gaps[1].path_known);
  come(2, 1006, 1006);
  EXPECT_FALSE(passed(0)) << "of 1001 nothing is known: the other paths have not come so far";
  EXPECT_TRUE(passed(1));
}

TEST_F(PathsOfAPeer, NothingIsNamedByACopyOrByAnUndistinguishedPath) {
  EXPECT_FALSE(names(1, 1005, 3, 2, /*again=*/true));
  EXPECT_FALSE(names(3, 1005, 3, 2));
  EXPECT_FALSE(names(1, 1005, 0, 1));
  EXPECT_FALSE(gaps[0].path_known);
}

TEST_F(PathsOfAPeer, AGapOfAKnownPathIsLookedAtAgainUntilItIsJudged) {
  ASSERT_TRUE(names(1, 1005, 3, 2));
  EXPECT_TRUE(names(1, 1006, 1, 1)) << "names nothing that is missing, but the gap of its path waits";
  EXPECT_FALSE(names(2, 1007, 1, 1));
  gaps[0].state = bitmap::GapState::kPromoted;
  EXPECT_FALSE(names(1, 1008, 1, 1));
}

TEST_F(PathsOfAPeer, WithoutAKnownPathAllInUseMustHavePassed) {
  come(0, 1003, 1003);
  come(1, 1004, 1004);
  EXPECT_FALSE(passed());
  EXPECT_FALSE(paths.laggard_passed(1, gaps[0], at(0_us)));
  come(2, 1005, 1005);
  EXPECT_TRUE(passed());
  EXPECT_TRUE(paths.laggard_passed(2, gaps[0], at(0_us)));
}

TEST_F(PathsOfAPeer, APathThatHasBeenSilentForLongHoldsNothingBack) {
  for (Duration when = 0_us; when <= 11_ms; when = when + 500_us) paths.on_packet(0, at(when));
  come(0, 1003, 1003, 11_ms);
  come(1, 1004, 1004, 11_ms);
  EXPECT_TRUE(passed(0, 11_ms)) << "nothing came on path 2 for more than 10 ms";
  paths.on_packet(2, at(11_ms));
  EXPECT_FALSE(passed(0, 11_ms));
}

TEST_F(PathsOfAPeer, AfterAPauseOfAllNoneCountsAsSilent) {
  come(0, 1003, 1003, 50_ms);
  come(1, 1004, 1004, 50_ms);
  EXPECT_FALSE(passed(0, 50_ms));
}

TEST_F(PathsOfAPeer, WithPacketsOfOtherPathsAllCannotBeKnown) {
  paths.on_packet(7, at(0_us));
  for (std::uint8_t path = 0; path < 3; ++path) come(path, 1003u + path, 1003u + path);
  EXPECT_FALSE(passed());
  EXPECT_FALSE(paths.laggard_passed(2, gaps[0], at(0_us)));
  ASSERT_TRUE(names(1, 1004, 2, 2));
  EXPECT_TRUE(passed()) << "of a path that is known, it can";
}

TEST_F(PathsOfAPeer, HowFarPacketsOfOnePathOvertakeEachOtherIsLearnt) {
  ASSERT_TRUE(names(1, 1005, 3, 2));
  come(1, 1003, 1005);
  EXPECT_TRUE(passed());
  EXPECT_TRUE(paths.came_late(1, Psn{1002}, 10_us, at(10_us))) << "three of its path were there before it";
  EXPECT_FALSE(passed()) << "three say nothing any more";
  come(1, 1006, 1006);
  EXPECT_FALSE(passed()) << "nor does a quarter more";
  come(1, 1007, 1007);
  EXPECT_TRUE(passed());
}

TEST_F(PathsOfAPeer, WhatThePathsDifferByIsLearntInTime) {
  const Duration before = paths.limits().age_max;
  EXPECT_EQ(before, config.age_max * 4);
  EXPECT_FALSE(paths.came_late(0, Psn{1001}, before / 2, at(10_us)));
  EXPECT_TRUE(paths.came_late(0, Psn{1001}, before, at(20_us)));
  EXPECT_EQ(paths.limits().age_max, before + before / 4);
}

TEST_F(PathsOfAPeer, WhatTheBaseHasPassedIsForgotten) {
  ASSERT_TRUE(names(1, 1005, 3, 2));
  come(1, 1005, 1005);
  paths.forget(kBase, 6);
  EXPECT_FALSE(passed());
  come(1, 1008, 1008);
  paths.clear();
  EXPECT_FALSE(passed());
}

}  // namespace
}  // namespace brdma::qp
