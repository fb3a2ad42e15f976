// A responder's knowledge of the paths of its responses: the previous packets on a response's path, silence, coming
// back. tests design BR-17
#include <gtest/gtest.h>

#include "qp/paths/response_paths.h"

namespace brdma::qp {
namespace {

constexpr Instant at(Duration since_start) { return Instant::from_ns(1'000'000'000) + since_start; }

// Sends a batch of `count` responses from `first` on; returns its path.
std::uint8_t send(ResponsePaths& paths, std::uint32_t first, std::uint32_t count, Instant now = at(0_us)) {
  const std::uint8_t path = paths.choose({}, std::nullopt, now);
  for (std::uint32_t i = 0; i < count; ++i) (void)paths.sent(path, Psn{first + i}, false);
  paths.batch_left(path, now);
  return path;
}

TEST(ResponsePaths, BatchesTakeTurnsAndNameWhatWentBefore) {
  ResponsePaths paths{4, Spraying::kRoundRobin};
  for (std::uint32_t batch = 0; batch < 4; ++batch) EXPECT_EQ(send(paths, batch * 3, 3), batch);
  const std::uint8_t path = paths.choose({}, std::nullopt, at(0_us));
  EXPECT_EQ(path, 0);
  const wire::BeforeOnPath before = paths.sent(path, Psn{12}, false);
  EXPECT_EQ(before.distance, 10);
  EXPECT_EQ(before.run, 3);
  EXPECT_EQ(paths.sent(path, Psn{13}, true).distance, 0);  // sent before: no evidence
}

TEST(ResponsePaths, WhatIsSentAgainTakesAnotherPathThanTheOneThatLostIt) {
  ResponsePaths paths{2, Spraying::kRoundRobin};
  EXPECT_EQ(send(paths, 0, 4), 0);
  EXPECT_EQ(paths.choose({}, std::nullopt, at(0_us)), 1);
  EXPECT_EQ(send(paths, 4, 4), 1);
  EXPECT_EQ(paths.choose({}, Psn{2}, at(0_us)), 1);
  EXPECT_EQ(paths.choose({}, Psn{5}, at(0_us)), 0);
  (void)paths.sent(1, Psn{2}, true);  // and lost once more
  paths.batch_left(1, at(0_us));
  EXPECT_EQ(paths.choose({}, Psn{2}, at(0_us)), 0);
}

TEST(ResponsePaths, APathThatLosesAllIsSetAsideTriedAndTakenBack) {
  ResponsePaths paths{2, Spraying::kRoundRobin};
  for (std::uint32_t batch = 0; batch < 6; ++batch) EXPECT_EQ(send(paths, batch * 2, 2), batch % 2);
  EXPECT_EQ(paths.on_rerequest(Psn{2}, 2, at(1_ms)), std::nullopt);
  EXPECT_EQ(paths.on_rerequest(Psn{6}, 2, at(1_ms)), std::nullopt);
  EXPECT_EQ(paths.on_rerequest(Psn{10}, 1, at(1_ms)), std::nullopt);  // half of the third
  EXPECT_EQ(paths.on_rerequest(Psn{11}, 1, at(1_ms)), 1);
  EXPECT_EQ(send(paths, 12, 4, at(1_ms)), 0);
  EXPECT_EQ(send(paths, 16, 4, at(2_ms)), 0);
  EXPECT_EQ(paths.batch_max(1), 1u);
  EXPECT_EQ(send(paths, 20, 1, at(5_ms)), 1);  // tried
  EXPECT_EQ(paths.take_back(at(6_ms)), std::nullopt);
  EXPECT_EQ(paths.on_rerequest(Psn{20}, 1, at(6_ms)), std::nullopt);  // nothing changes
  EXPECT_EQ(paths.take_back(at(9_ms)), std::nullopt);
  EXPECT_EQ(send(paths, 21, 1, at(9_ms)), 1);
  EXPECT_EQ(paths.take_back(at(17_ms)), 1);
  EXPECT_EQ(send(paths, 22, 1, at(17_ms)), 1);
  EXPECT_EQ(send(paths, 23, 1, at(17_ms)), 0);
}

// All lost everything: that is no evidence against any.
TEST(ResponsePaths, WhereAllLoseEverythingNoneIsSetAside) {
  ResponsePaths paths{2, Spraying::kRoundRobin};
  for (std::uint32_t batch = 0; batch < 8; ++batch) (void)send(paths, batch * 2, 2);
  for (std::uint32_t batch = 0; batch < 8; ++batch) {
    EXPECT_EQ(paths.on_rerequest(Psn{batch * 2}, 2, at(1_ms)), std::nullopt) << batch;
  }
}

// Single losses on both, over a long time.
TEST(ResponsePaths, LossesHereAndThereAreNoSilence) {
  ResponsePaths paths{2, Spraying::kRoundRobin};
  for (std::uint32_t psn = 0; psn < 4000; ++psn) {
    const std::uint8_t path = send(paths, psn, 1);
    if (psn % 10 == 3 || psn % 10 == 4) {
      EXPECT_EQ(paths.on_rerequest(Psn{psn}, 1, at(0_us)), std::nullopt) << psn << " on " << int{path};
    }
  }
  EXPECT_EQ(paths.batch_max(0), 4u);
  for (std::uint32_t psn = 4000; psn < 5000; ++psn) (void)send(paths, psn, 1);
  EXPECT_GT(paths.batch_max(0), 64u);
}

}  // namespace
}  // namespace brdma::qp
