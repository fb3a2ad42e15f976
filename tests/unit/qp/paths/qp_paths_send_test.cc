// A requester's knowledge of its paths: the previous packets on a packet's path, silence, coming back.
// tests design BR-17
#include <gtest/gtest.h>

#include "qp/paths/paths_send.h"

namespace brdma::qp {
namespace {

constexpr Instant at(Duration since_start) { return Instant::from_ns(1'000'000'000) + since_start; }
constexpr Duration kSilence = 250_us;

bitmap::SendEntry on(std::uint8_t path) {
  bitmap::SendEntry entry;
  entry.path = path;
  entry.transmissions = 1;
  return entry;
}
SendPaths::Echo echo(std::uint8_t path, Duration sent, Duration round_trip) {
  return {.path = path, .back = 1, .sent = at(sent), .round_trip = round_trip, .one_way = round_trip / 2};
}

// The example of docs/reference/wire.md: four paths in turn, batches of 3.
TEST(SendPaths, APacketNamesWhatWentBeforeItOnItsPath) {
  SendPaths paths{4, Spraying::kRoundRobin};
  wire::BeforeOnPath before;
  for (std::uint32_t psn = 1000; psn <= 1017; ++psn) {
    before = paths.before(static_cast<std::uint8_t>((psn - 1000) / 3 % 4), Psn{psn}, 1);
    if (psn == 1003) {
      EXPECT_EQ(before.distance, 0);  // the first on its path
    }
    if (psn == 1015) {
      EXPECT_EQ(before.distance, 10);
      EXPECT_EQ(before.run, 3);
    }
  }
  EXPECT_EQ(before.distance, 1);
  EXPECT_EQ(before.run, 2);
}

TEST(SendPaths, NothingIsNamedThatIsTooFar) {
  SendPaths paths{2, Spraying::kRoundRobin};
  (void)paths.before(0, Psn{0xFFFFF0}, 1);
  EXPECT_EQ(paths.before(0, Psn{0x00000F}, 1).distance, 0x1F);  // over the wrap
  EXPECT_EQ(paths.before(0, Psn{0x00000F + 1024}, 1).distance, 0);
  EXPECT_EQ(paths.before(0, Psn{0x000010 + 1024}, 100).run, 1);  // a READ of 100 responses
  EXPECT_EQ(paths.before(0, Psn{0x000010 + 1124}, 1).run, 64);   // of a longer run the last 64
}

TEST(SendPaths, APathWithLossesAndWithoutAWordIsSetAside) {
  SendPaths paths{2, Spraying::kRoundRobin};
  for (int i = 0; i < 4; ++i) paths.sent(0, at(0_us));
  for (int i = 0; i < 4; ++i) paths.sent(1, at(0_us));
  paths.acknowledged(on(0), false, at(100_us));
  for (int i = 0; i < 2; ++i) paths.lost(on(1));
  paths.sent(0, at(200_us));
  (void)paths.echoed(echo(0, 200_us, 100_us), at(300_us));
  EXPECT_EQ(paths.set_aside_silent(kSilence, at(300_us)), std::nullopt);  // two losses
  paths.lost(on(1));
  EXPECT_EQ(paths.set_aside_silent(kSilence, at(249_us)), std::nullopt);  // not for long
  EXPECT_EQ(paths.set_aside_silent(kSilence, at(300_us)), 1);
  EXPECT_TRUE(paths.is_probe(1));
  EXPECT_FALSE(paths.status(1).in_use);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(paths.choose({}, at(300_us)), 0);
    paths.batch_left(0);
  }
  EXPECT_EQ(paths.control_path(0), 0);
  EXPECT_EQ(paths.control_path(1), 0);
}

TEST(SendPaths, TheLastPathIsKept) {
  SendPaths paths{2, Spraying::kRoundRobin};
  for (int path = 0; path < 2; ++path) {
    for (int i = 0; i < 4; ++i) paths.sent(static_cast<std::uint8_t>(path), at(0_us));
    for (int i = 0; i < 4; ++i) paths.lost(on(static_cast<std::uint8_t>(path)));
  }
  (void)paths.echoed(echo(0, 100_us, 100_us), at(200_us));
  EXPECT_EQ(paths.set_aside_silent(kSilence, at(1_ms)), 1);
  for (int i = 0; i < 4; ++i) paths.request_sent(0, at(1_ms));
  for (int i = 0; i < 4; ++i) paths.request_lost(0);
  EXPECT_EQ(paths.set_aside_silent(kSilence, at(5_ms)), std::nullopt);
}

TEST(SendPaths, ASilentPathIsTriedAgainAndTakenBack) {
  SendPaths paths{2, Spraying::kRoundRobin};
  for (int i = 0; i < 3; ++i) paths.sent(1, at(0_us));
  for (int i = 0; i < 3; ++i) paths.lost(on(1));
  (void)paths.echoed(echo(0, 100_us, 100_us), at(300_us));
  ASSERT_EQ(paths.set_aside_silent(kSilence, at(300_us)), 1);
  EXPECT_FALSE(paths.probe_due(at(4_ms)));
  EXPECT_TRUE(paths.probe_due(at(5_ms)));
  EXPECT_EQ(paths.choose({.may_probe = true}, at(5_ms)), 1);
  EXPECT_EQ(paths.choose({.may_probe = false}, at(5_ms)), 0);
  paths.probed(1, at(5_ms));
  EXPECT_FALSE(paths.probe_due(at(8_ms)));
  EXPECT_TRUE(paths.probe_due(at(9_ms)));  // 4 ms, then doubling
  paths.probed(1, at(9_ms));
  EXPECT_FALSE(paths.probe_due(at(16_ms)));
  EXPECT_TRUE(paths.probe_due(at(17_ms)));
  EXPECT_EQ(paths.status(1).probes, 2u);
  EXPECT_TRUE(paths.echoed(echo(1, 9_ms, 100_us), at(18_ms)).returned);
  EXPECT_TRUE(paths.status(1).in_use);
  EXPECT_FALSE(paths.probe_due(at(10_s)));
}

// READ requests alone: no acknowledgement comes, but responses do.
TEST(SendPaths, ResponsesRevealSilenceToo) {
  SendPaths paths{2, Spraying::kRoundRobin};
  for (int i = 0; i < 3; ++i) paths.request_sent(0, at(0_us));
  for (int i = 0; i < 3; ++i) paths.request_lost(0);
  paths.request_sent(1, at(100_us));
  EXPECT_FALSE(paths.request_answered(1, 7, at(100_us), at(300_us)).returned);
  EXPECT_EQ(paths.set_aside_silent(kSilence, at(300_us)), 0);
  EXPECT_EQ(paths.choose({.ordered = true}, at(300_us)), 1);
  EXPECT_EQ(paths.status(0).lost, 3u);
  EXPECT_EQ(paths.status(1).acknowledged, 1u);
}

// Only retransmissions are ever acknowledged: each timeout drops the earlier losses, and the acknowledged copy is
// unknown. So a copy tests the path that lost the first, and the path is silent only when that is not acknowledged.
TEST(SendPaths, ARetransmissionAcknowledgedElsewherePutsThePathInDoubt) {
  SendPaths paths{3, Spraying::kRoundRobin};
  paths.request_sent(0, at(0_us));
  paths.forget_silence();
  paths.request_lost(0);
  paths.request_sent(1, at(1_ms));
  EXPECT_EQ(paths.choose({.ordered = true}, at(1_ms)), 0);
  paths.repetition_answered(1, at(1100_us));
  EXPECT_EQ(paths.choose({.ordered = true}, at(1100_us)), 1);
  EXPECT_TRUE(paths.status(0).in_use);
  for (int i = 0; i < 6; ++i) {
    EXPECT_NE(paths.choose({}, at(1100_us)), 0);
    paths.batch_left(paths.choose({}, at(1100_us)));
  }
  EXPECT_TRUE(paths.probe_due(at(1100_us)));
  EXPECT_EQ(paths.choose({.may_probe = true}, at(1100_us)), 0);
  paths.probed(0, at(1100_us));

  SendPaths answered = paths;  // it was only late
  EXPECT_FALSE(answered.echoed(echo(0, 1100_us, 100_us), at(1200_us)).returned);
  EXPECT_EQ(answered.choose({.ordered = true}, at(1200_us)), 0);
  EXPECT_FALSE(answered.probe_due(at(10_s)));

  paths.request_sent(1, at(1200_us));
  (void)paths.request_answered(1, 7, at(1200_us), at(1300_us));
  EXPECT_EQ(paths.set_aside_silent(kSilence, at(1300_us)), std::nullopt);  // the copy may still be in flight
  EXPECT_EQ(paths.set_aside_silent(kSilence, at(1350_us)), 0);
  EXPECT_FALSE(paths.status(0).in_use);
  EXPECT_TRUE(paths.echoed(echo(0, 1100_us, 100_us), at(2_ms)).returned);
}

// Two that are tried in one burst would share one echo.
TEST(SendPaths, PathsInDoubtAreTriedOneAfterTheOther) {
  SendPaths paths{3, Spraying::kRoundRobin};
  for (std::uint8_t path = 0; path < 2; ++path) {
    paths.request_sent(path, at(0_us));
    paths.request_lost(path);
  }
  paths.repetition_answered(2, at(1_ms));
  EXPECT_EQ(paths.choose({.may_probe = true}, at(1_ms)), 0);
  paths.probed(0, at(1_ms));
  EXPECT_EQ(paths.choose({.may_probe = true}, at(1_ms)), 2);
  EXPECT_EQ(paths.choose({.may_probe = true}, at(1200_us)), 1);
  paths.probed(1, at(1200_us));
  // One is left in any case: its losses prove nothing if no other path is acknowledged.
  paths.request_sent(2, at(2_ms));
  paths.request_lost(2);
  paths.repetition_answered(0, at(3_ms));
  EXPECT_EQ(paths.control_path(0), 2);
  EXPECT_EQ(paths.control_path(1), 2);
}

TEST(SendPaths, TheWindowsRttSamplesExcludeSkew) {
  SendPaths paths{2, Spraying::kRoundRobin};
  Duration base;
  SendPaths::RoundTripSample taken;
  for (int i = 0; i < 1000; ++i) {
    for (std::uint8_t path = 0; path < 2; ++path) {
      taken = paths.echoed(echo(path, 0_us, path == 0 ? 100_us : 200_us), at(10_us * i));
      base = i == 0 && path == 0 ? taken.round_trip : base + taken.base_moved;
      ASSERT_EQ(taken.round_trip, base);  // nothing waits
    }
  }
  EXPECT_GT(base, 145_us);
  EXPECT_LT(base, 155_us);
  taken = paths.echoed(echo(1, 0_us, 230_us), at(20_ms));
  EXPECT_EQ(taken.round_trip - base - taken.base_moved, 30_us);
  EXPECT_EQ(paths.skew(), 100_us);
}

TEST(SendPaths, APathThatIsNoneIsHarmless) {
  SendPaths paths{2, Spraying::kRoundRobin};
  EXPECT_EQ(paths.echoed(echo(200, 0_us, 100_us), at(100_us)).round_trip, 100_us);
  paths.reopened(on(7));  // it left before the peer stated that it distinguishes two
  EXPECT_EQ(paths.status(0).in_flight, 1u);
  paths.lost(on(7));
  paths.reopened(on(7));
  paths.acknowledged(on(7), false, at(100_us));
  EXPECT_EQ(paths.status(0).in_flight, 0u);
  paths.request_lost(7);
  EXPECT_EQ(paths.status(0).lost, 2u);
  EXPECT_EQ(paths.request_answered(7, 1, at(0_us), at(100_us)).round_trip, 100_us);
}

}  // namespace
}  // namespace brdma::qp
