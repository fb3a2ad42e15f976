// The scoreboard of RFC 6675: pipe, losses by SACK, what is sent next. Segments of 1000 bytes.
#include <gtest/gtest.h>

#include "models/tcp/scoreboard.h"

namespace brdma::models::tcp {
namespace {

Instant at(int ns) { return Instant::from_ns(ns); }

Frame ack(std::uint64_t segment, std::initializer_list<ByteRange> sacked = {}) {
  Frame frame;
  frame.kind = FrameKind::kAck;
  frame.ack = segment * 1000;
  for (const ByteRange& range : sacked) frame.sack[frame.sack_count++] = {range.first * 1000, range.end * 1000};
  return frame;
}

Scoreboard with_sent(int segments, std::uint64_t bytes = 100'000) {
  Scoreboard board{1000};
  board.start(bytes);
  for (int i = 0; i < segments; ++i) board.send_new(at(i + 1));
  return board;
}

TEST(Scoreboard, CountsWhatIsInTheNetwork) {
  Scoreboard board = with_sent(10);
  EXPECT_EQ(board.pipe(), 10'000u);
  board.acknowledge(ack(2, {{4, 6}}));
  EXPECT_EQ(board.una(), 2u);
  EXPECT_EQ(board.flight(), 8000u);
  EXPECT_EQ(board.pipe(), 6000u);
  EXPECT_EQ(board.sacked(), 2u);
}

TEST(Scoreboard, ReportsEachSegmentOnce) {
  Scoreboard board = with_sent(10);
  EXPECT_EQ(board.acknowledge(ack(1, {{4, 6}})).size(), 3u);
  EXPECT_TRUE(board.acknowledge(ack(1, {{4, 6}})).empty());
  EXPECT_EQ(board.acknowledge(ack(6)).size(), 3u);  // 1, 2, 3; not 4 and 5 again
}

TEST(Scoreboard, ThreeSackedSegmentsAboveAreALoss) {
  Scoreboard board = with_sent(10);
  board.acknowledge(ack(2, {{3, 5}}));
  EXPECT_FALSE(board.mark_lost_by_sack());
  board.acknowledge(ack(2, {{3, 6}}));
  EXPECT_TRUE(board.mark_lost_by_sack());
  EXPECT_EQ(board.first_lost(), 2u);
  EXPECT_EQ(board.pipe(), 4000u);  // 6 to 9
  EXPECT_FALSE(board.mark_lost_by_sack());
}

TEST(Scoreboard, TheyNeedNotBeAdjacent) {
  Scoreboard board = with_sent(10);
  board.acknowledge(ack(0, {{8, 9}, {4, 5}, {1, 2}}));
  EXPECT_TRUE(board.mark_lost_by_sack());
  EXPECT_EQ(board.first_lost(), 0u);
  board.send_again(0, at(20));
  EXPECT_EQ(board.first_lost(), std::nullopt);  // 2 and 3 have two above
}

TEST(Scoreboard, ARetransmissionIsNotLostBySackAgain) {
  Scoreboard board = with_sent(10);
  board.acknowledge(ack(0, {{1, 4}}));
  board.mark_lost_by_sack();
  board.send_again(0, at(20));
  EXPECT_EQ(board.pipe(), 7000u);
  board.acknowledge(ack(0, {{1, 10}}));
  EXPECT_FALSE(board.mark_lost_by_sack());
  EXPECT_EQ(board.pipe(), 1000u);
}

TEST(Scoreboard, RuleThreeNamesDoubtfulSegmentsBelowTheHighestSack) {
  Scoreboard board = with_sent(6);
  board.acknowledge(ack(0, {{1, 3}, {4, 5}}));
  board.begin_recovery();
  board.mark_lost_by_sack();
  board.send_again(0, at(20));
  EXPECT_EQ(board.first_doubtful(), 3u);  // one SACKed above; 5 is above the highest
  const std::uint64_t before = board.pipe();
  board.send_again(3, at(21));
  EXPECT_EQ(board.pipe(), before + 1000);  // both copies may be in the network
  EXPECT_EQ(board.first_doubtful(), std::nullopt);
  board.acknowledge(ack(0, {{1, 5}}));
  EXPECT_EQ(board.pipe(), before - 1000);
}

TEST(Scoreboard, ATimeoutMarksAllThatIsNotSacked) {
  Scoreboard board = with_sent(5);
  board.acknowledge(ack(0, {{2, 3}}));
  board.mark_all_lost(Cause::kTimeout);
  EXPECT_EQ(board.pipe(), 0u);
  for (const SegmentIndex expected : {0u, 1u, 3u, 4u}) {
    ASSERT_EQ(board.first_lost(), expected);
    EXPECT_EQ(board.at(expected).cause, Cause::kTimeout);
    board.send_again(expected, at(30));
  }
  EXPECT_EQ(board.first_lost(), std::nullopt);
}

TEST(Scoreboard, TheLastSegmentMayBeShort) {
  Scoreboard board = with_sent(3, 2300);
  EXPECT_FALSE(board.has_new());
  EXPECT_EQ(board.pipe(), 2300u);
  EXPECT_EQ(board.size_of(2), 300u);
  Frame all = ack(0);
  all.ack = 2300;
  board.acknowledge(all);
  EXPECT_TRUE(board.all_acknowledged());
  EXPECT_EQ(board.pipe(), 0u);
}

TEST(Scoreboard, OrderOfTransmissionFollowsRetransmissions) {
  Scoreboard board = with_sent(4);
  board.mark_lost(0, Cause::kNotified);
  board.send_again(0, at(20));
  board.acknowledge(ack(0, {{2, 3}}));
  std::vector<SegmentIndex> order;
  for (SegmentIndex i = board.earliest_sent(); i != kNoSegment; i = board.at(i).later) order.push_back(i);
  EXPECT_EQ(order, (std::vector<SegmentIndex>{1, 3, 0}));
}

}  // namespace
}  // namespace brdma::models::tcp
