// qp/timers/timer_lengths.h: worked examples of each timer's length.
#include <gtest/gtest.h>

#include <memory>

#include "qp/state/environment.h"
#include "qp/timers/timer_lengths.h"

namespace brdma::qp {
namespace {

struct Waiting {
  Waiting() {
    identity.recovery = &recovery;
    identity.attributes.timeout = 14;  // 67 ms
    identity.attributes.retry_count = 7;
    identity.bitmap_agreed = true;
    scoreboard.begin_from(Psn{0});
    timers.on_flight_begun(now);
  }
  [[nodiscard]] TimerLengths lengths() const {
    return TimerLengths{{identity, scoreboard, rtt, congestion, responses, timers, judge.get()}};
  }
  void round_trip(Duration trip) {
    for (int i = 0; i < 100; ++i) rtt.sample(trip, now);  // until nothing varies any more
  }

  RecoveryConfig recovery;
  Identity identity;
  bitmap::SegmentPool segments;
  Scoreboard scoreboard{window_shape(recovery), segments};
  recovery::RttEstimator rtt;
  congestion::DelayWindow congestion;
  ResponseAdmission responses;
  RetransmissionTimers timers;
  std::unique_ptr<SenderJudge> judge;
  Instant now = Instant{} + 1_s;
};

constexpr Duration kAttribute = Duration::from_ns(std::int64_t{4096} << 14);

TEST(TimerLengths, BeforeTheFirstSampleThePathIsUnknown) {
  const Waiting waiting;
  EXPECT_EQ(waiting.lengths().retransmission(), 5_ms);
  EXPECT_EQ(waiting.lengths().probe(), 2_ms);
}

TEST(TimerLengths, OfAShortPathAreTheConfiguredShortest) {
  Waiting waiting;
  waiting.round_trip(20_us);
  EXPECT_EQ(waiting.lengths().retransmission(), 1_ms);
  EXPECT_EQ(waiting.lengths().probe(), 250_us);
}

// D, the time in which the last packet in flight is acknowledged, is a round trip here: nothing is in flight.
TEST(TimerLengths, OfALongPathFollowItsRoundTrips) {
  Waiting waiting;
  waiting.round_trip(10_ms);
  EXPECT_EQ(waiting.lengths().retransmission(), 20_ms) << "two D";
  EXPECT_EQ(waiting.lengths().probe(), 20_ms) << "two SRTT";
  EXPECT_EQ(waiting.lengths().stall(), 40_ms) << "four SRTT";
}

// Round trips of 40 ms lately, in a queue or an outage, on a path of 20 us.
TEST(TimerLengths, RepliesToAnInquiryAreAwaitedNoLongerThanATimeout) {
  Waiting waiting;
  EXPECT_EQ(waiting.lengths().replies(), 10_ms) << "at least";
  waiting.identity.attributes.timeout = 12;
  waiting.rtt.sample(20_us, waiting.now);
  for (int i = 0; i < 100; ++i) waiting.rtt.sample(40_ms, waiting.now);
  EXPECT_GT(waiting.lengths().probe(), 79_ms);
  EXPECT_EQ(waiting.lengths().replies(), Duration::from_ns(std::int64_t{4096} << 12));
}

TEST(TimerLengths, BackoffDoublesUpTo200Ms) {
  Waiting waiting;
  waiting.identity.attributes.timeout = 20;  // 4.3 s
  waiting.round_trip(20_us);
  Duration expected = 1_ms;
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(waiting.lengths().retransmission(), std::min(expected, 200_ms)) << i;
    waiting.timers.on_timeout(waiting.now);
    expected = expected * 2;
  }
}

TEST(TimerLengths, NoLongerThanTheQueuePairsTimeoutUnlessThePathIs) {
  Waiting waiting;
  waiting.round_trip(20_us);
  for (int i = 0; i < 12; ++i) waiting.timers.on_timeout(waiting.now);
  EXPECT_EQ(waiting.lengths().retransmission(), kAttribute);

  Waiting longer;
  longer.identity.attributes.timeout = 1;  // 8 us: less than a round trip
  longer.round_trip(30_ms);
  for (int i = 0; i < 12; ++i) longer.timers.on_timeout(longer.now);
  EXPECT_EQ(longer.lengths().retransmission(), 60_ms) << "two round trips";
}

TEST(TimerLengths, FirstDueIsTheEarlierOfProbeAndTimeout) {
  Waiting waiting;
  waiting.round_trip(20_us);
  EXPECT_EQ(waiting.lengths().first_due(), waiting.timers.activity() + 250_us);
  waiting.timers.on_probe(waiting.now + 250_us);
  EXPECT_EQ(waiting.lengths().first_due(), waiting.now + 1_ms);
}

// Four times the attribute, up to a second, as the standard allows; a longer one is chosen deliberately.
TEST(TimerLengths, TheRetryLimit) {
  Waiting waiting;
  EXPECT_EQ(waiting.lengths().retry(), kAttribute * 4);
  EXPECT_EQ(waiting.lengths().retries(), kAttribute * 4 * 8);
  waiting.identity.attributes.timeout = 17;  // 537 ms
  EXPECT_EQ(waiting.lengths().retry(), 1_s);
  waiting.identity.attributes.timeout = 19;  // 2.1 s
  EXPECT_EQ(waiting.lengths().retry(), waiting.lengths().attribute());
  waiting.identity.bitmap_agreed = false;
  waiting.identity.attributes.timeout = 14;
  EXPECT_EQ(waiting.lengths().retries(), kAttribute * 8) << "to the standard's letter";
  EXPECT_EQ(waiting.lengths().stopped(), kAttribute * 2) << "a quarter of all";
  waiting.identity.bitmap_agreed = true;
  EXPECT_EQ(waiting.lengths().stopped(), 200_ms);
}

TEST(TimerLengths, IrnHasTwoAndNeitherBacksOff) {
  Waiting waiting;
  waiting.recovery.mode = RecoveryMode::kSelective;
  waiting.judge = std::make_unique<SenderJudge>(waiting.recovery);
  EXPECT_FALSE(waiting.lengths().follows_irn());
  waiting.judge->follow_irn({.low = 100_us, .high = 320_us});
  EXPECT_TRUE(waiting.lengths().follows_irn());
  EXPECT_EQ(waiting.lengths().retransmission(), 100_us);
  waiting.timers.on_timeout(waiting.now);
  for (int i = 0; i < 3; ++i) waiting.scoreboard.sent(1024, 0, waiting.now);
  EXPECT_EQ(waiting.lengths().retransmission(), 100_us);
  waiting.scoreboard.sent(1024, 0, waiting.now);
  EXPECT_EQ(waiting.lengths().retransmission(), 320_us);
}

}  // namespace
}  // namespace brdma::qp
