// tests design BR-16, BR-19: the limits that are in force for requests (qp/gaps/gap_tolerance.h).
#include <gtest/gtest.h>

#include "qp/gaps/gap_tolerance.h"

namespace brdma::qp {
namespace {

struct Tolerant {
  Tolerant() {
    identity.recovery = &recovery;
    identity.receiving_paths = 2;
  }
  // A packet was overtaken by 20: it would have needed a depth of 25.
  void came_late() {
    tolerance.single().came_late(tolerance_config(recovery), {.depth = 20, .age = {}, .stall = {}}, now, {});
  }
  void on_path(std::uint8_t path) { tolerance.on_path(path, environment, identity, now); }
  [[nodiscard]] recovery::GapLimits limits() const { return tolerance.limits(recovery); }

  EngineConfig config;
  memory::MemoryTable memory{SecretRandom{1, "keys"}};
  Statistics statistics;
  Environment environment{.config = config, .memory = memory, .telemetry = {.statistics = statistics}};
  RecoveryConfig recovery;
  Identity identity;
  GapTolerance tolerance;
  Instant now = Instant{} + 16_s;
};

TEST(GapTolerance, OfASinglePathBeginsWithTheConfiguredLimits) {
  Tolerant receiver;
  EXPECT_EQ(receiver.tolerance.paths(), nullptr);
  EXPECT_EQ(receiver.limits(), (recovery::GapLimits{8, 50_us, 80_us, 0}));
  EXPECT_EQ(receiver.tolerance.limits_at(receiver.recovery, receiver.now), receiver.limits());
}

TEST(GapTolerance, OfASinglePathLearns) {
  Tolerant receiver;
  receiver.came_late();
  EXPECT_EQ(receiver.limits().depth_max, 25u);
}

TEST(GapTolerance, OfSeveralPathsAllowsForTheirDifference) {
  Tolerant receiver;
  receiver.on_path(1);
  EXPECT_EQ(receiver.limits().age_max, 200_us) << "four times that of a single path";
  EXPECT_EQ(receiver.limits().stall_max, 320_us);
  EXPECT_EQ(receiver.tolerance.limits_at(receiver.recovery, receiver.now), receiver.limits());
}

TEST(GapTolerance, WhatIsKnownOfPathsStays) {
  Tolerant receiver;
  receiver.on_path(1);
  receiver.on_path(1);
  ASSERT_NE(receiver.tolerance.paths(), nullptr);
  const auto report = receiver.tolerance.paths()->report(receiver.now);
  ASSERT_EQ(report.size(), 2u);
  EXPECT_EQ(report[0].packets, 0u);
  EXPECT_EQ(report[1].packets, 2u);
}

TEST(GapTolerance, ChangedSettingsApply) {
  Tolerant receiver;
  receiver.came_late();
  receiver.recovery.adaptive = false;
  receiver.tolerance.configure(receiver.recovery);
  EXPECT_EQ(receiver.limits().depth_max, 8u) << "what was learnt counts no more";
  receiver.on_path(0);
  receiver.recovery.age_max = 100_us;
  receiver.tolerance.configure(receiver.recovery);
  EXPECT_EQ(receiver.limits().age_max, 400_us);
}

TEST(GapTolerance, ANewConnectionKnowsNothing) {
  Tolerant receiver;
  receiver.came_late();
  receiver.on_path(1);
  receiver.tolerance.restart();
  EXPECT_EQ(receiver.tolerance.paths(), nullptr);
  EXPECT_EQ(receiver.limits().depth_max, 8u);
}

}  // namespace
}  // namespace brdma::qp
