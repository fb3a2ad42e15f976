// When a silent peer's host is queried whether the process is stopped, and which replies count.
#include <gtest/gtest.h>

#include "recovery/stopped_peer.h"

namespace brdma::recovery {
namespace {

constexpr Instant kSince = Instant::from_ns(1'000'000'000);
constexpr StoppedPeerLimits kLimits{.retries = 800_ms, .stopped_max = 5_s};
using Verdict = StoppedPeer::Verdict;

// Sends a query at `at`; returns its nonce.
std::uint64_t ask(StoppedPeer& peer, Instant at, std::uint64_t first_nonce = 100, Instant since = kSince) {
  peer.query_falls_due(since);
  EXPECT_TRUE(peer.is_due(since));
  return peer.asked(first_nonce, at);
}

TEST(StoppedPeer, IsAskedAfterAQuarterAndThenEachEighth) {
  StoppedPeer peer;
  EXPECT_EQ(peer.query_at(kSince, kLimits), kSince + 200_ms);
  peer.query_falls_due(kSince);
  EXPECT_FALSE(peer.query_at(kSince, kLimits)) << "one waits to leave";
  EXPECT_TRUE(peer.has_due());
  EXPECT_EQ(peer.asked(100, kSince + 203_ms), 100u);
  EXPECT_FALSE(peer.has_due());
  EXPECT_EQ(peer.query_at(kSince, kLimits), kSince + 303_ms);
  EXPECT_EQ(ask(peer, kSince + 303_ms, 77), 101u) << "the first nonce of a silence counts on";
  EXPECT_EQ(peer.queries(), 2u);
}

TEST(StoppedPeer, IntervalsHaveLimits) {
  for (const auto& [retries, interval] :
       {std::pair{7_ms, 1_ms}, {8_ms, 1_ms}, {16_ms, 2_ms}, {8_s, 1_s}, {80_s, 1_s}}) {
    StoppedPeer peer;
    ask(peer, kSince + 1_s);
    EXPECT_EQ(peer.query_at(kSince, {.retries = retries, .stopped_max = 3600_s}), kSince + 1_s + interval);
  }
}

TEST(StoppedPeer, NobodyIsAskedWhereNoReplyWouldCount) {
  StoppedPeer peer;
  EXPECT_FALSE(peer.query_at(kSince, {.retries = 800_ms, .stopped_max = Duration{}}));
  EXPECT_FALSE(peer.query_at(kSince, {.retries = 800_ms, .stopped_max = 200_ms}));
  EXPECT_TRUE(peer.query_at(kSince, {.retries = 800_ms, .stopped_max = 200_ms + kTick}));
  ask(peer, kSince + 5_s - 100_ms);
  EXPECT_FALSE(peer.query_at(kSince, kLimits));
}

TEST(StoppedPeer, AReplyMovesTheBeginningOfItsSilence) {
  StoppedPeer peer;
  EXPECT_EQ(peer.silent_from(kSince), kSince);
  const std::uint64_t first = ask(peer, kSince + 200_ms), second = ask(peer, kSince + 300_ms);
  EXPECT_FALSE(peer.is_stopped(kSince));
  EXPECT_EQ(peer.replied(second, kSince, kLimits, kSince + 310_ms), Verdict::kFirstTaken);
  EXPECT_TRUE(peer.is_stopped(kSince));
  EXPECT_EQ(peer.silent_from(kSince), kSince + 310_ms);
  EXPECT_EQ(peer.replied(first, kSince, kLimits, kSince + 320_ms), Verdict::kUnasked) << "an older one, overtaken";
  EXPECT_EQ(peer.replied(second, kSince, kLimits, kSince + 320_ms), Verdict::kUnasked) << "a copy";
  EXPECT_EQ(peer.silent_from(kSince), kSince + 310_ms);
  const std::uint64_t third = ask(peer, kSince + 400_ms);
  EXPECT_EQ(peer.replied(third, kSince, kLimits, kSince + 410_ms), Verdict::kTaken);
}

TEST(StoppedPeer, WhatAnswersNothingCountsForNothing) {
  StoppedPeer peer;
  EXPECT_EQ(peer.replied(0, Instant{}, kLimits, kSince), Verdict::kUnasked) << "nobody was asked";
  const std::uint64_t nonce = ask(peer, kSince + 200_ms, ~std::uint64_t{0});
  for (const std::uint64_t wrong : {nonce - 1, nonce + 1, std::uint64_t{0}, nonce ^ 1}) {
    EXPECT_EQ(peer.replied(wrong, kSince, kLimits, kSince + 210_ms), Verdict::kUnasked) << wrong;
  }
  EXPECT_EQ(peer.silent_from(kSince), kSince);
  EXPECT_EQ(ask(peer, kSince + 300_ms), 0u) << "nonces wrap";
  EXPECT_EQ(peer.replied(0, kSince, kLimits, kSince + 310_ms), Verdict::kFirstTaken);
}

TEST(StoppedPeer, RepliesCountUpToTheLimit) {
  StoppedPeer peer;
  const std::uint64_t first = ask(peer, kSince + 4_s), second = ask(peer, kSince + 4_s);
  EXPECT_EQ(peer.replied(first, kSince, kLimits, kSince + 5_s - kTick), Verdict::kFirstTaken);
  EXPECT_EQ(peer.replied(second, kSince, kLimits, kSince + 5_s), Verdict::kTooLate);
  EXPECT_EQ(peer.silent_from(kSince), kSince + 5_s - kTick);
}

// The peer was received from meanwhile.
TEST(StoppedPeer, ASilenceHasItsOwnQueries) {
  StoppedPeer peer;
  const std::uint64_t before = ask(peer, kSince + 200_ms);
  ASSERT_EQ(peer.replied(before, kSince, kLimits, kSince + 210_ms), Verdict::kFirstTaken);
  peer.query_falls_due(kSince);
  const Instant later = kSince + 1_s;
  EXPECT_FALSE(peer.is_due(later));
  EXPECT_TRUE(peer.has_due());
  EXPECT_FALSE(peer.is_stopped(later));
  EXPECT_EQ(peer.silent_from(later), later);
  EXPECT_EQ(peer.query_at(later, kLimits), later + 200_ms);
  EXPECT_EQ(ask(peer, later + 200_ms, 500, later), 500u);
  EXPECT_EQ(peer.replied(before, later, kLimits, later + 210_ms), Verdict::kUnasked);
}

}  // namespace
}  // namespace brdma::recovery
