// Which packets are retransmitted after a switch has reported their drop (design DN-13).
#include <gtest/gtest.h>

#include "recovery/drop_notice.h"

namespace brdma::recovery {
namespace {

using bitmap::EntryState;

constexpr Instant kSent = Instant::from_ns(1'000'000);
constexpr Instant kNow = kSent + 30_us;
constexpr Duration kQuiet = 100_us;

TEST(DropNotice, WhatWasSentOnceIsSentAgain) {
  for (const auto state : {EntryState::kSentUnacked, EntryState::kSuspectedLost}) {
    EXPECT_EQ(judge_drop({state, false, kSent}, kSent, kQuiet, kNow), RequestVerdict::kResend);
    EXPECT_EQ(judge_drop({state, false, kSent}, std::nullopt, kQuiet, kNow), RequestVerdict::kResend);
  }
}

TEST(DropNotice, WhatHasArrivedOrIsAboutToLeaveIsNot) {
  EXPECT_EQ(judge_drop({EntryState::kAcked, false, kSent}, kSent, kQuiet, kNow), RequestVerdict::kAcknowledged);
  EXPECT_EQ(judge_drop({EntryState::kRetransmitPending, true, kSent}, kSent, kQuiet, kNow), RequestVerdict::kPending);
}

// The timestamp in the dropped packet identifies the transmission, however soon after it the notification comes.
TEST(DropNotice, ARetransmissionThatWasDroppedIsSentAgainAtOnce) {
  const DroppedEntry again{EntryState::kRetransmittedUnacked, true, kSent};
  EXPECT_EQ(judge_drop(again, kSent, kQuiet, kSent + 1_us), RequestVerdict::kResend);
  const DroppedEntry later{EntryState::kRetransmittedUnacked, true, kSent, false};
  EXPECT_EQ(judge_drop(later, kSent - 10_us, kQuiet, kNow), RequestVerdict::kResend);
}

TEST(DropNotice, AnOldNotificationIsNotApplied) {
  const DroppedEntry again{EntryState::kRetransmittedUnacked, true, kSent};
  EXPECT_EQ(judge_drop(again, kSent - 1_us, kQuiet, kNow), RequestVerdict::kOutdated);
  const DroppedEntry later{EntryState::kRetransmittedUnacked, true, kSent, false};
  EXPECT_EQ(judge_drop(later, kSent - 21_us, kQuiet, kNow), RequestVerdict::kOutdated);
  EXPECT_EQ(judge_drop(again, kSent - 1_ms, kQuiet, kNow + 10_ms), RequestVerdict::kOutdated);
}

TEST(DropNotice, WithoutTimestampsNotTwiceWithinTheQuietTime) {
  const DroppedEntry again{EntryState::kRetransmittedUnacked, true, kSent};
  EXPECT_EQ(judge_drop(again, std::nullopt, kQuiet, kSent + 99_us), RequestVerdict::kRecent);
  EXPECT_EQ(judge_drop(again, std::nullopt, kQuiet, kSent + 100_us), RequestVerdict::kResend);
}

}  // namespace
}  // namespace brdma::recovery
