// When an acknowledgement waits for the reply: the score that learns whether replies follow.
#include <gtest/gtest.h>

#include "io/poll/ack_deferral.h"

namespace brdma::io {
namespace {

constexpr Duration kHoldMax = 100_us;
constexpr Instant at(std::int64_t us) { return Instant{} + 1_us * us; }

// An acknowledgement falls due, and the application replies a microsecond later.
void reply(AckDeferral& deferral, std::int64_t us, bool held, Duration hold_max = kHoldMax) {
  EXPECT_EQ(deferral.hold_back(at(us), hold_max), held) << us;
  deferral.posted(at(us + 1));
  EXPECT_FALSE(deferral.holding());
}

TEST(AckDeferral, HoldsOnceRepliesAreSeenToFollow) {
  AckDeferral deferral;
  reply(deferral, 0, false);
  reply(deferral, 10, false);
  for (int i = 2; i < 100; ++i) {
    EXPECT_TRUE(deferral.hold_back(at(i * 10), kHoldMax));
    EXPECT_TRUE(deferral.hold_back(at(i * 10 + 8), kHoldMax));  // asked again: the same result
    EXPECT_EQ(deferral.deadline(), at(i * 10 + 100));
    deferral.posted(at(i * 10 + 9));
  }
}

TEST(AckDeferral, NeverHoldsWhatIsNotReplied) {
  AckDeferral deferral;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(deferral.hold_back(at(i), kHoldMax));
  deferral.posted(at(101));                                          // -7
  for (int i = 0; i < 9; ++i) reply(deferral, 200 + i * 10, false);  // 2
  reply(deferral, 300, true);
}

TEST(AckDeferral, LateRepliesAreNone) {
  AckDeferral deferral;
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(deferral.hold_back(at(i * 1000), kHoldMax));
    deferral.posted(at(i * 1000 + 100));
  }
}

// A poll may rely on this before it has read the deadlines.
TEST(AckDeferral, ExpectsAReplyWhereItWouldBeginToHold) {
  AckDeferral deferral;
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(deferral.expects_reply()) << i;
    reply(deferral, i * 10, false);
  }
  EXPECT_TRUE(deferral.expects_reply());
  EXPECT_TRUE(deferral.hold_back(at(20), kHoldMax));
  EXPECT_FALSE(deferral.expects_reply()) << "it holds already";
  deferral.posted(at(21));
  EXPECT_TRUE(deferral.expects_reply());
  AckDeferral never;
  for (int i = 0; i < 8; ++i) reply(never, i * 10, false, Duration{});
  EXPECT_FALSE(never.expects_reply());
}

TEST(AckDeferral, OneMishapDoesNotStopIt) {
  AckDeferral deferral;
  for (int i = 0; i < 8; ++i) reply(deferral, i * 10, i >= 2);  // 8
  EXPECT_TRUE(deferral.hold_back(at(200), kHoldMax));
  EXPECT_FALSE(deferral.hold_back(at(300), kHoldMax));  // ran out
  deferral.sent(/*joined=*/false);                      // 4
  deferral.posted(at(4000));                            // 3
  reply(deferral, 4001, true);
}

TEST(AckDeferral, HoldingWithoutAReplyStopsIt) {
  AckDeferral deferral;
  reply(deferral, 0, false);
  reply(deferral, 10, false);
  EXPECT_TRUE(deferral.hold_back(at(20), kHoldMax));
  EXPECT_FALSE(deferral.hold_back(at(120), kHoldMax));
  deferral.sent(/*joined=*/false);                      // -2
  EXPECT_FALSE(deferral.hold_back(at(200), kHoldMax));  // -3, for the last one was never replied
  deferral.posted(at(201));                             // -2
  for (int i = 0; i < 4; ++i) reply(deferral, 300 + i * 10, false);
  reply(deferral, 400, true);
}

TEST(AckDeferral, JoiningOtherOutputIsNoLoss) {
  AckDeferral deferral;
  reply(deferral, 0, false);
  reply(deferral, 10, false);
  EXPECT_TRUE(deferral.hold_back(at(20), kHoldMax));
  deferral.sent(/*joined=*/true);
  EXPECT_FALSE(deferral.holding());
  deferral.posted(at(21));
  reply(deferral, 30, true);
}

TEST(AckDeferral, ZeroTurnsItOff) {
  AckDeferral deferral;
  for (int i = 0; i < 100; ++i) reply(deferral, i * 10, false, Duration{});
}

}  // namespace
}  // namespace brdma::io
