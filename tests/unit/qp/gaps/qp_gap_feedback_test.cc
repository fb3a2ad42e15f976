// tests design BR-21: which lost gaps are to be named, and when again (qp/gaps/gap_feedback.h).
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "qp/gaps/gap_feedback.h"

namespace brdma::qp {
namespace {

// Gaps of one packet each, at 1000, 1010, 1020 ...
struct Feedback {
  bitmap::GapRecord& gap(std::size_t i) { return state.gaps[i]; }
  void open() {
    const Psn start = Psn{1000} + 10 * static_cast<std::uint32_t>(state.gaps.size());
    state.gaps.open(start - 1, start + 1, /*path=*/0, now, now);
  }
  // A gap is lost. `named`: so many times by now, the last one just now.
  bitmap::GapRecord& lose(std::uint16_t named = 0) {
    open();
    bitmap::GapRecord& lost = gap(state.gaps.size() - 1);
    lost.state = bitmap::GapState::kPromoted;
    lost.feedbacks = named;
    if (named == 0) {
      feedback.on_promoted(state.feedback, lost.start);
    } else {
      lost.last_feedback = now;
      bring_forward(state.feedback.oldest[FeedbackWatch::class_of(named)], now);
    }
    return lost;
  }
  void plan() { feedback.plan(state, config, now); }
  void pass(Duration time) { now = now + time; }
  [[nodiscard]] Duration interval(std::uint16_t named) const { return feedback.repeat_interval(named, config); }
  // A packet comes that so many FFMs requested, the last one `took` ago.
  void response(std::uint16_t named, Duration took, Duration since_seen) {
    bitmap::GapRecord record;
    record.feedbacks = named;
    record.last_feedback = now - took;
    record.first_seen = now - since_seen;
    feedback.on_response(record, now);
  }

  RecoveryConfig config;
  OutOfOrderState state;
  GapFeedback feedback;
  Instant now = Instant{} + 16_s;

  Feedback() { state.last_arrival = now; }
};

// --- when ---

TEST(GapFeedback, ALostGapIsNamedAtOnce) {
  Feedback all;
  all.lose();
  all.plan();
  EXPECT_TRUE(all.feedback.due());
}

TEST(GapFeedback, AWaitingGapIsNotNamed) {
  Feedback all;
  all.open();
  all.plan();
  EXPECT_FALSE(all.feedback.due());
  EXPECT_EQ(all.state.watch.repeat_at, std::nullopt);
}

TEST(GapFeedback, FewerThanTheThresholdWaitForFiftyMicroseconds) {
  Feedback all;
  all.config.ffm_threshold = 2;
  all.lose();
  all.plan();
  EXPECT_FALSE(all.feedback.due());
  EXPECT_EQ(all.state.watch.repeat_at, all.now + 50_us);
  all.pass(50_us - kTick);
  all.plan();
  EXPECT_FALSE(all.feedback.due());
  all.pass(kTick);
  all.plan();
  EXPECT_TRUE(all.feedback.due());
  EXPECT_EQ(all.state.watch.repeat_at, std::nullopt) << "the message leaves anyway";
}

TEST(GapFeedback, AsManyAsTheThresholdAreNamedAtOnce) {
  Feedback all;
  all.config.ffm_threshold = 2;
  all.lose();
  all.plan();
  all.lose();
  all.plan();
  EXPECT_TRUE(all.feedback.due());
}

TEST(GapFeedback, ANamedGapIsDueAgainAfterItsInterval) {
  Feedback all;
  all.lose(1);
  all.plan();
  EXPECT_EQ(all.state.watch.repeat_at, all.now + 500_us);
  all.pass(500_us - kTick);
  all.plan();
  EXPECT_FALSE(all.feedback.due());
  all.pass(kTick);
  all.plan();
  EXPECT_TRUE(all.feedback.due());
  EXPECT_TRUE(all.state.feedback.look) << "until it has been named";
}

TEST(GapFeedback, NamedGapsAreOnlyLookedAtWhenTheOldestIsDue) {
  Feedback all;
  all.lose(1);
  all.pass(500_us - kTick);
  all.plan();
  EXPECT_EQ(all.state.gaps_looked_at, 0u);
  all.pass(kTick);
  all.plan();
  EXPECT_EQ(all.state.gaps_looked_at, 1u);
}

TEST(GapFeedback, TheEarliestRepetitionIsTheNext) {
  Feedback all;
  all.lose(2);  // due 1 ms from now
  all.pass(300_us);
  all.lose(1);  // due 800 us from the start
  all.plan();
  EXPECT_EQ(all.state.watch.repeat_at, all.now + 500_us);
}

TEST(GapFeedback, AGapThatHasClosedIsForgottenWhenItIsDue) {
  Feedback all;
  all.lose(1);
  all.pass(100_us);
  all.lose(1);
  all.state.gaps.fill(Psn{1000});
  all.pass(400_us);
  all.plan();
  EXPECT_FALSE(all.feedback.due());
  EXPECT_EQ(all.state.watch.repeat_at, all.now + 100_us);
}

// The fifth message of a gap leaves after 7.5 ms of silence, and is repeated after 8 ms, as the interval says. From
// then on the silence doubles: 16, 32, 63, 127 ms.
TEST(GapFeedback, ASilentPeerIsAskedEverMoreSeldom) {
  Feedback all;
  all.pass(7'500_us);
  bitmap::GapRecord& gap = all.lose(5);
  for (const Duration wait : {8_ms, 15'500_us, 31_ms, 62_ms, 124_ms}) {
    all.plan();
    EXPECT_EQ(all.state.watch.repeat_at, all.now + wait);
    all.pass(wait - kTick);
    EXPECT_FALSE(all.feedback.is_repetition_due(gap, all.state.last_arrival, all.config, all.now));
    all.pass(kTick);
    EXPECT_TRUE(all.feedback.is_repetition_due(gap, all.state.last_arrival, all.config, all.now));
    gap.last_feedback = all.now;
    all.state.feedback.oldest[FeedbackWatch::kClasses - 1] = all.now;
  }
}

TEST(GapFeedback, APeerThatSendsIsAskedAsTheIntervalSays) {
  Feedback all;
  all.pass(1_s);
  all.state.last_arrival = all.now - 8_ms;
  all.lose(5);
  all.plan();
  EXPECT_EQ(all.state.watch.repeat_at, all.now + 8_ms);
}

TEST(GapFeedback, TheFirstFourMessagesDoNotWaitForASilentPeer) {
  Feedback all;
  all.pass(1_s);
  all.lose(4);
  all.plan();
  EXPECT_EQ(all.state.watch.repeat_at, all.now + 4_ms);
}

TEST(GapFeedback, WaitingAndUnnamedGapsAreNoRepetitions) {
  Feedback all;
  all.config.ffm_threshold = 10;
  all.open();
  all.gap(0).feedbacks = 1;
  all.lose();
  all.state.feedback.look = true;
  all.plan();
  EXPECT_FALSE(all.feedback.due());
  EXPECT_FALSE(all.state.feedback.look);
}

// --- how long a repetition waits ---

TEST(GapFeedback, WithoutAMeasurementTheIntervalDoublesToEightMilliseconds) {
  Feedback all;
  const Duration intervals[] = {500_us, 1_ms, 2_ms, 4_ms, 8_ms, 8_ms, 8_ms};
  std::uint16_t named = 0;
  for (const Duration interval : intervals) EXPECT_EQ(all.interval(++named), interval) << named;
}

TEST(GapFeedback, TheIntervalIsTwoRoundTripsOnceOneIsMeasured) {
  Feedback all;
  all.response(1, 1_ms, 2_ms);
  EXPECT_EQ(all.feedback.round_trip(), 1_ms);
  EXPECT_EQ(all.interval(1), 2_ms);
  EXPECT_EQ(all.interval(2), 4_ms);
  EXPECT_EQ(all.interval(3), 8_ms);
  EXPECT_EQ(all.interval(5), 8_ms);
}

TEST(GapFeedback, TheIntervalIsTwiceTheResendIntervalAtLeast) {
  Feedback all;
  all.response(1, 10_us, 20_us);
  EXPECT_EQ(all.interval(1), 100_us);
}

TEST(GapFeedback, OnAPathLongerThanTheLongestIntervalItIsAQuarterMoreThanARoundTrip) {
  for (const auto& [trip, interval] : {std::pair{8_ms, 16_ms}, std::pair{16_ms, 20_ms}}) {
    Feedback all;
    all.response(1, trip, trip);
    EXPECT_EQ(all.interval(1), interval);
    EXPECT_EQ(all.interval(5), interval);
  }
}

TEST(GapFeedback, OnlyAfterOneFfmTheAnsweredOneIsKnown) {
  for (std::uint16_t named = 0; named <= 2; ++named) {
    Feedback all;
    all.response(named, 1_ms, 3_ms);
    EXPECT_EQ(all.feedback.round_trip(), named == 1 ? 1_ms : Duration{});
  }
}

TEST(GapFeedback, AfterSeveralTheRecoveryTookNoLongerThanSinceTheGapWasSeen) {
  Feedback all;
  all.response(2, 1_ms, 3_ms);
  EXPECT_EQ(all.interval(1), 3_ms);
  EXPECT_EQ(all.interval(2), 6_ms);
  all.response(2, 1_ms, 1_ms);
  EXPECT_EQ(all.interval(1), 3_ms) << "the slowest so far";
  all.response(2, 1_ms, 3_s);
  EXPECT_EQ(all.interval(1), 2_s) << "at most";
}

TEST(GapFeedback, AGapThatNoFfmNamedTeachesNothing) {
  Feedback all;
  all.response(0, 1_ms, 3_ms);
  EXPECT_EQ(all.interval(1), 500_us);
}

TEST(GapFeedback, ARetransmissionBehindItsOriginalIsARoundTripToo) {
  Feedback all;
  all.feedback.on_repetition(2_ms, all.now);
  EXPECT_EQ(all.feedback.round_trip(), 2_ms);
}

TEST(GapFeedback, MessagesAreNumberedAndStateAllLostGaps) {
  Feedback all;
  wire::Ffm first, second;
  all.lose();
  all.feedback.number(first);
  all.lose();
  all.lose();
  all.feedback.number(second);
  EXPECT_EQ(first.serial, 0u);
  EXPECT_EQ(first.promoted, 1u);
  EXPECT_EQ(second.serial, 1u);
  EXPECT_EQ(second.promoted, 3u);
}

// --- the next event (qp/gaps/out_of_order.h) ---

TEST(GapWatch, ItsNextEventIsTheFirstOfTheTwo) {
  const Instant start = Instant{} + 1_s;
  GapWatch watch;
  EXPECT_EQ(watch.next_event(false), std::nullopt);
  watch.repeat_at = start + 2_us;
  EXPECT_EQ(watch.next_event(false), start + 2_us);
  watch.judge_at = start + 3_us;
  EXPECT_EQ(watch.next_event(false), start + 2_us);
  watch.judge_at = start + 1_us;
  EXPECT_EQ(watch.next_event(false), start + 1_us);
}

TEST(GapWatch, NoRepetitionIsAwaitedWhileAMessageIsToLeave) {
  GapWatch watch;
  watch.repeat_at = Instant{} + 1_s;
  EXPECT_EQ(watch.next_event(/*naming=*/true), std::nullopt);
}

}  // namespace
}  // namespace brdma::qp
