// qp/timers/timer_actions.h: what an acknowledgement after a timeout shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "qp/timers/timer_actions.h"
#include "support/sender_parts.h"

namespace brdma::qp {
namespace {

using test::SenderParts;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kWindow = 64 * 1024;  // of congestion, at first

// The first and the last of eight packets have left again after a timeout.
struct InDoubt : SenderParts {
  explicit InDoubt(Duration offset = {}) {
    pass(offset);
    write(8);
    again();
  }
  void again() {
    pass(5_ms);
    actions().fire_retransmission(now);
    leaves_again(0);
    leaves_again(7);
    timed_out_at = now;
    pass(1_ms);
  }
  void on_evidence(Instant sent) { actions().on_evidence(sent, now); }

  Instant timed_out_at;
};

TEST(Evidence, OfAnEarlierPacketShowsThatTheTimeoutWasSpurious) {
  InDoubt parts;
  parts.on_evidence(parts.timed_out_at - kTick);
  EXPECT_THAT(parts.all_pending(), IsEmpty());
  EXPECT_EQ(parts.congestion.bytes(), kWindow);
  EXPECT_EQ(parts.responses.congestion().bytes(), kWindow);
  EXPECT_FALSE(parts.timers.has_undecided());
  parts.on_evidence(parts.timed_out_at);
  EXPECT_THAT(parts.all_pending(), IsEmpty()) << "it is decided";
  EXPECT_EQ(parts.congestion.bytes(), kWindow);
}

TEST(Evidence, OfALaterPacketShowsThatTheOthersAreLost) {
  InDoubt parts;
  parts.on_evidence(parts.timed_out_at);
  EXPECT_THAT(parts.all_pending(), ElementsAre(1, 2, 3, 4, 5, 6)) << "0 and 7 left after the timeout";
  EXPECT_EQ(parts.count(Counter::kRetransmittedTimeout), 2U + 6U);
  EXPECT_EQ(parts.congestion.bytes(), kWindow / 2);
  EXPECT_EQ(parts.responses.congestion().bytes(), kWindow / 2);
  parts.on_evidence(parts.timed_out_at);
  EXPECT_EQ(parts.congestion.bytes(), kWindow / 2) << "once";
}

// The send window keeps times in units of 64 ns, rounded down: what left at the timeout seems to be a little older.
TEST(Evidence, OfWhatTheTimerSentIsOfALaterPacketAtAnyTimeOfTheClock) {
  for (const std::int64_t ns : {1, 33, 63}) {
    InDoubt parts{Duration::from_ns(ns)};
    parts.on_evidence(parts.scoreboard.sent_at(0, parts.now));
    EXPECT_THAT(parts.all_pending(), ElementsAre(1, 2, 3, 4, 5, 6)) << ns << ": 0 and 7 left at the timeout";
    EXPECT_EQ(parts.congestion.bytes(), kWindow / 2) << ns;
  }
}

TEST(Evidence, EachTimeoutReducesTheWindow) {
  InDoubt parts;
  parts.again();
  parts.on_evidence(parts.timed_out_at);
  EXPECT_EQ(parts.congestion.bytes(), kWindow / 4);
  EXPECT_EQ(parts.responses.congestion().bytes(), kWindow / 4);
}

TEST(Evidence, OfMostPacketsShowsThatTheTimeoutWasSpurious) {
  InDoubt half;
  half.acknowledge(1);
  half.acknowledge(2);
  half.on_evidence(half.timed_out_at);
  EXPECT_THAT(half.all_pending(), ElementsAre(3, 4, 5, 6)) << "lost all the same";
  EXPECT_EQ(half.congestion.bytes(), kWindow) << "four of eight";

  InDoubt most;
  most.acknowledge(1);
  most.on_evidence(most.timed_out_at);
  EXPECT_THAT(most.all_pending(), ElementsAre(2, 3, 4, 5, 6));
  EXPECT_EQ(most.congestion.bytes(), kWindow / 2) << "five of eight";
}

TEST(Evidence, WithoutATimeoutShowsNothing) {
  SenderParts parts;
  parts.write(8);
  parts.pass(1_ms);
  parts.actions().on_evidence(parts.now, parts.now);
  EXPECT_THAT(parts.all_pending(), IsEmpty());
  EXPECT_EQ(parts.congestion.bytes(), kWindow);
}

}  // namespace
}  // namespace brdma::qp
