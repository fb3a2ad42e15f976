// qp/timers/receiver_not_ready.h: the wait, the retry count, and the few packets that leave after an RNR NAK.
#include <gtest/gtest.h>

#include "qp/timers/receiver_not_ready.h"

namespace brdma::qp {
namespace {

constexpr Instant at(Duration since) { return Instant{} + since; }

TEST(ReceiverNotReady, WaitsAreThoseOfTheSpecification) {
  EXPECT_EQ(rnr_wait(0x20 | 1), 10_us);
  EXPECT_EQ(rnr_wait(0x20 | 5), 60_us);
  EXPECT_EQ(rnr_wait(0x20 | 31), 491'520_us);
  EXPECT_EQ(rnr_wait(0x20 | 0), 655'360_us) << "code 0 is the longest";
}

TEST(ReceiverNotReady, NothingLeavesBeforeTheWaitIsOver) {
  ReceiverNotReady state;
  EXPECT_FALSE(state.waiting());
  ASSERT_TRUE(state.on_nak(100, 3, true, at(50_us)));
  EXPECT_EQ(state.until(), at(50_us));
  EXPECT_FALSE(state.wait_is_over(at(49_us)));
  EXPECT_TRUE(state.wait_is_over(at(50_us)));
  state.on_wait_over();
  EXPECT_FALSE(state.waiting());
  EXPECT_FALSE(state.wait_is_over(at(1_s)));
}

TEST(ReceiverNotReady, RefusalsInARowAreCounted) {
  ReceiverNotReady state;
  const auto refuse = [&](std::uint8_t retries) {
    const bool goes_on = state.on_nak(7, retries, false, at(10_us));
    state.on_wait_over();
    return goes_on;
  };
  EXPECT_TRUE(refuse(2));
  EXPECT_TRUE(refuse(2));
  state.on_executed(7);
  EXPECT_TRUE(refuse(2)) << "a packet was executed in between";
  EXPECT_TRUE(refuse(2));
  EXPECT_FALSE(refuse(2));
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(refuse(ReceiverNotReady::kRetriesForever));
  ReceiverNotReady none;
  EXPECT_FALSE(none.on_nak(7, 0, true, at(10_us)));
  EXPECT_FALSE(none.waiting()) << "a refusal that fails the work request starts no wait";
}

TEST(ReceiverNotReady, TheRefusedPacketLeavesAloneThenTwiceAsMany) {
  ReceiverNotReady state;
  ASSERT_TRUE(state.on_nak(100, 3, true, at(10_us)));
  EXPECT_TRUE(state.may_leave(100));
  EXPECT_FALSE(state.may_leave(101));
  EXPECT_TRUE(state.ends_with(100));
  EXPECT_FALSE(state.ends_with(99));
  state.on_executed(100);
  EXPECT_EQ(state.end(), 101u) << "the refused packet itself was not executed";
  state.on_executed(101);
  EXPECT_EQ(state.end(), 103u);
  state.on_executed(102);
  EXPECT_EQ(state.end(), 103u);
  for (Sequence end = 103; state.is_recovering(); end = state.end()) {
    EXPECT_LE(end, 101u + 2 * ReceiverNotReady::kFewMax);
    state.on_executed(end);
  }
  EXPECT_TRUE(state.may_leave(1'000'000)) << "64 were executed: it is ready";
  EXPECT_FALSE(state.ends_with(100));
}

TEST(ReceiverNotReady, ASilenceOrAReportGoesOnToo) {
  ReceiverNotReady state;
  state.on_timeout(5);
  EXPECT_FALSE(state.is_recovering());
  ASSERT_TRUE(state.on_nak(100, 3, true, at(10_us)));
  state.on_timeout(90);
  EXPECT_EQ(state.end(), 103u);
  state.on_taken();
  EXPECT_FALSE(state.is_recovering());
}

TEST(ReceiverNotReady, AStandardPeerIsSentAllAtOnce) {
  ReceiverNotReady state;
  ASSERT_TRUE(state.on_nak(100, 3, false, at(10_us)));
  EXPECT_TRUE(state.waiting());
  EXPECT_FALSE(state.is_recovering());
  EXPECT_TRUE(state.may_leave(500));
}

}  // namespace
}  // namespace brdma::qp
