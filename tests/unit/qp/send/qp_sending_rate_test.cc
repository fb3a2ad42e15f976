// qp/send/sending_rate.h: which control bounds what, when a window leaves over a round trip, and how fast.
#include <gtest/gtest.h>

#include <cstdint>

#include "qp/send/sending_rate.h"
#include "support/sender_parts.h"

namespace brdma::qp {
namespace {

constexpr std::uint64_t kWindow = 64 * 1024;                                      // as it is at first
constexpr std::uint64_t kFastest = std::uint64_t{1} << 40, kSlowest = 1'000'000;  // bit/s

struct Sender : test::SenderParts {
  explicit Sender(CongestionControl control = CongestionControl::kWindow) { choose(control); }
  void choose(CongestionControl control) {
    recovery.congestion.control = control;
    rate().configure();
  }

  // The path's round trip without queues.
  void path(Duration base) {
    if (congestion.base_rtt() == Duration{}) return congestion.on_acknowledgement(kMtu, {base}, false, now);
    congestion.shift_base(base - congestion.base_rtt());
  }
  // The window's first round: so many bytes are acknowledged in a round trip, no queue is seen.
  void deliver(std::uint64_t bytes, Duration trip) {
    congestion.on_acknowledgement(kMtu, {trip}, true, now);
    pass(trip);
    congestion.on_acknowledgement(bytes, {trip}, true, now);
  }
  // The window no longer doubles.
  void end_start() { congestion.on_timeout(); }
  // One of many flows behind a queue: a quarter of the first window, and a loss while acknowledgements see 900 us of
  // queue.
  void crowd() {
    path(100_us);
    end_start();
    end_start();
    for (int i = 0; i < 8; ++i) congestion.on_acknowledgement(0, {1_ms}, false, now);
    congestion.on_loss(kMtu, kMtu, now);
  }
  void round_trip(Duration trip) { rtt.sample(trip, now); }
  void spread(std::uint64_t window = kWindow) {
    if (rate().may_spread()) rate().spread(window, now);
  }

  [[nodiscard]] bool is_spread() const { return signals && signals->spread; }
  [[nodiscard]] bool is_whole() const { return is_spread() && signals->whole; }
  [[nodiscard]] bool bounds_bursts() const { return is_spread() && !signals->whole; }
  [[nodiscard]] std::uint64_t bits() const { return signals->spread->rate().bps(); }
  [[nodiscard]] std::uint64_t burst() { return signals->spread->allowance(now); }
};

// --- the control ---

TEST(SendingRate, EachControlBoundsItsOwn) {
  struct Case {
    CongestionControl control;
    bool window, responses, rate, response_rate, spread;
  };
  for (const Case& c : {
           Case{CongestionControl::kWindow, true, true, false, false, false},
           Case{CongestionControl::kPaced, true, true, false, false, true},
           Case{CongestionControl::kTimely, false, false, true, true, false},
           Case{CongestionControl::kBoth, false, false, true, true, false},
           Case{CongestionControl::kDcqcn, false, true, true, false, false},
           Case{CongestionControl::kNone, false, true, false, false, false},
       }) {
    SCOPED_TRACE(static_cast<int>(c.control));
    Sender sender(c.control);
    EXPECT_EQ(sender.congestion.bounded(), c.window);
    EXPECT_EQ(sender.responses.congestion().bounded(), c.responses);
    EXPECT_EQ(sender.signals != nullptr, c.rate || c.spread) << "most queue pairs have no such state";
    EXPECT_EQ(sender.signals && sender.signals->rate, c.rate);
    EXPECT_EQ(sender.signals && sender.signals->responses, c.response_rate);
    EXPECT_EQ(sender.is_spread(), c.spread);
  }
}

TEST(SendingRate, ARateBeginsAtItsShareOfThePort) {
  Sender sender;
  sender.environment.active_qps = 3;
  sender.choose(CongestionControl::kTimely);
  EXPECT_EQ(sender.signals->rate->rate().bps(), 10'000'000'000U / 4) << "C / (N + 1)";
}

// TIMELY: a round trip of 2 ms, far above its 500 us, takes 0.8 * (1 - 500 us / 2 ms) = 0.6 of the rate.
TEST(SendingRate, TheSameSettingsDoNotRestartARate) {
  Sender sender(CongestionControl::kTimely);
  EXPECT_EQ(sender.signals->rate->rate().bps(), 10'000'000'000U);
  sender.rate().on_round_trip(2_ms, 20_us, sender.now);
  const std::uint64_t slower = sender.signals->rate->rate().bps();
  EXPECT_NEAR(static_cast<double>(slower), 4e9, 1e6);
  sender.signals->responses->came = 5;
  sender.rate().configure();
  EXPECT_EQ(sender.signals->rate->rate().bps(), slower);
  EXPECT_EQ(sender.signals->responses->came, 5U) << "nor that of the responses";
}

TEST(SendingRate, OtherNumbersRestartIt) {
  Sender sender(CongestionControl::kTimely);
  sender.rate().on_round_trip(2_ms, 20_us, sender.now);
  sender.signals->responses->came = 5;
  sender.recovery.congestion.rate_first_mbps = 5'000;
  sender.rate().configure();
  EXPECT_EQ(sender.signals->rate->rate().bps(), 5'000'000'000U);
  EXPECT_EQ(sender.signals->responses->came, 0U);
}

// How long waiting output sleeps, where that is less than half a burst.
TEST(SendingRate, ASpreadWindowTakesAnotherIntervalOver) {
  Sender sender(CongestionControl::kPaced);
  for (const Duration interval : {20_us, 200_us}) {
    sender.recovery.congestion.pace_interval = interval;
    sender.rate().configure();
    congestion::Pacer& pacer = *sender.signals->spread;
    pacer.set_rate(Bandwidth::from_bps(1'000'000'000), sender.now);
    pacer.spend(pacer.allowance(sender.now));
    EXPECT_EQ(pacer.ready_at() - sender.now, interval);
  }
}

TEST(SendingRate, AnotherControlTakesOver) {
  Sender sender(CongestionControl::kPaced);
  sender.choose(CongestionControl::kTimely);
  EXPECT_TRUE(sender.signals->rate);
  EXPECT_FALSE(sender.is_spread());
  sender.choose(CongestionControl::kDcqcn);
  ASSERT_TRUE(sender.signals->rate);
  EXPECT_EQ(sender.signals->rate->config().control, CongestionControl::kDcqcn);
  EXPECT_FALSE(sender.signals->responses);
  sender.choose(CongestionControl::kWindow);
  EXPECT_FALSE(sender.signals->rate);
  EXPECT_TRUE(sender.congestion.bounded());
}

TEST(SendingRate, ARoundTripIsOfNoUseWithoutARate) {
  Sender without;
  without.rate().on_round_trip(2_ms, 20_us, without.now);
  EXPECT_FALSE(without.signals);
  Sender paced(CongestionControl::kPaced);
  paced.rate().on_round_trip(2_ms, 20_us, paced.now);
  EXPECT_FALSE(paced.signals->rate);
}

// --- is the window spread? ---

TEST(SendingRate, OnAShortPathNothingIsMade) {
  Sender sender;
  sender.spread();
  EXPECT_FALSE(sender.signals) << "no path is known";
  sender.path(1_ms - kTick);
  sender.round_trip(1_ms);
  sender.spread();
  EXPECT_FALSE(sender.signals);
}

TEST(SendingRate, From8MsTheWholeWindowIsSpreadAndStaysSoDownTo4) {
  Sender sender;
  sender.path(8_ms - kTick);
  sender.spread();
  EXPECT_FALSE(sender.is_whole());
  sender.path(8_ms);
  sender.spread();
  EXPECT_TRUE(sender.is_whole());
  sender.path(4_ms);
  sender.spread();
  EXPECT_TRUE(sender.is_whole());
  sender.path(4_ms - kTick);
  sender.spread();
  EXPECT_TRUE(sender.bounds_bursts());
  sender.path(7_ms);
  sender.spread();
  EXPECT_TRUE(sender.bounds_bursts()) << "it begins at 8 ms again";
}

TEST(SendingRate, From1MsBurstsAreBoundedAndStaySoDownToHalfOfIt) {
  Sender sender;
  sender.path(1_ms);
  sender.spread();
  EXPECT_TRUE(sender.bounds_bursts());
  sender.path(500_us);
  sender.spread();
  EXPECT_TRUE(sender.bounds_bursts());
  sender.path(500_us - kTick);
  sender.spread();
  EXPECT_FALSE(sender.is_spread());
  sender.path(1_ms - kTick);
  sender.spread();
  EXPECT_FALSE(sender.is_spread()) << "it begins at 1 ms again";
}

TEST(SendingRate, APathThatBecomesShortEndsIt) {
  Sender sender;
  sender.path(20_ms);
  sender.spread();
  ASSERT_TRUE(sender.is_whole());
  sender.path(300_us);
  sender.spread();
  EXPECT_FALSE(sender.is_spread());
  EXPECT_FALSE(sender.signals->whole);
}

TEST(SendingRate, WhereDelaysJudgeLossesAWindowIsAlwaysSpread) {
  for (const RecoveryMode mode : {RecoveryMode::kWan, RecoveryMode::kWanFeedback}) {
    Sender sender;
    sender.recovery.mode = mode;
    sender.rate().configure();
    EXPECT_TRUE(sender.is_whole());
    sender.path(20_us);
    sender.round_trip(20_us);
    sender.spread();
    EXPECT_TRUE(sender.is_whole());
  }
}

TEST(SendingRate, OnlyAWindowIsSpreadHoweverLongThePath) {
  for (const CongestionControl control :
       {CongestionControl::kNone, CongestionControl::kDcqcn, CongestionControl::kTimely}) {
    SCOPED_TRACE(static_cast<int>(control));
    Sender sender(control);
    sender.recovery.mode = RecoveryMode::kWan;
    sender.path(20_ms);
    sender.round_trip(20_ms);
    sender.spread();
    EXPECT_FALSE(sender.is_spread());
  }
}

// What a queue of 1 ms shows: a window that leaves in bursts makes up to a quarter of the path, 2 ms, by itself; one
// that is spread should see no more than half of its target, 250 us.
TEST(SendingRate, TheWindowIsToldThatItIsSpread) {
  const auto after_a_queue = [](Sender& sender, Duration trip) {
    sender.pass(1_ms);
    sender.congestion.on_acknowledgement(1'000, {trip}, true, sender.now);
    return sender.congestion.bytes();
  };
  Sender bursts;
  bursts.deliver(64'000, 8_ms);
  EXPECT_EQ(after_a_queue(bursts, 9_ms), kWindow + 1'000) << "it grows";
  Sender spread;
  spread.deliver(64'000, 8_ms);
  spread.spread();
  EXPECT_EQ(after_a_queue(spread, 9_ms), kWindow);
  Sender paced(CongestionControl::kPaced);  // there was no acknowledgement yet: the window has forgotten it
  paced.deliver(64'000, 8_ms);
  paced.round_trip(8_ms);
  paced.spread();
  EXPECT_EQ(after_a_queue(paced, 9_ms), kWindow);
  Sender shorter;  // the quarter is 750 us then, half of the target 94 us
  shorter.deliver(64'000, 8_ms);
  shorter.spread();
  shorter.path(3_ms);
  shorter.spread();
  EXPECT_EQ(after_a_queue(shorter, 3_ms + 500_us), kWindow + 1'000);
}

// --- how fast ---

TEST(SendingRate, TheFirstWindowLeavesAtOnce) {
  Sender sender(CongestionControl::kPaced);
  EXPECT_TRUE(sender.is_whole());
  EXPECT_EQ(sender.bits(), kFastest) << "the path is not known yet";
  sender.spread();
  EXPECT_EQ(sender.bits(), kFastest) << "nor now: no round trip was measured";
}

// 64 KiB in 8 ms: 8'192'000 bytes a second.
TEST(SendingRate, WhileTheWindowDoublesTwiceTheWindowARoundTrip) {
  Sender sender;
  sender.path(8_ms);
  sender.round_trip(8_ms);
  sender.spread();
  EXPECT_EQ(sender.bits(), 2 * 8'192'000U * 8);
  sender.end_start();
  sender.spread();
  EXPECT_EQ(sender.bits(), 2 * 8'192'000U * 8) << "no delivered rate is known";
}

// 64'000 bytes in 10 ms: 6'400'000 a second.
TEST(SendingRate, ThenASixteenthMoreThanIsDeliveredAndAMillisecondsWorth) {
  Sender sender;
  sender.deliver(64'000, 10_ms);
  sender.round_trip(10_ms);
  ASSERT_EQ(sender.congestion.delivered(), 6'400'000U);
  sender.end_start();
  sender.spread();
  EXPECT_EQ(sender.bits(), (6'400'000U + 400'000 + 640'000) * 8);
}

// The target is 625 us, a sixteenth of the path. The queue is smoothed by eighths: the first time 2.5 ms count as half
// of the target.
TEST(SendingRate, WhileAQueueShowsASixteenthOnly) {
  for (const bool shows : {true, false}) {
    Sender sender;
    sender.deliver(64'000, 10_ms);
    sender.round_trip(10_ms);
    sender.end_start();
    const Duration queue = shows ? 2'500_us : 2'500_us - 8_ns;
    sender.congestion.on_acknowledgement(0, {10_ms + queue}, false, sender.now);
    sender.spread();
    EXPECT_EQ(sender.bits(), (6'400'000U + 400'000 + (shows ? 0 : 640'000)) * 8) << shows;
  }
}

// 64'000 bytes in 2 ms: 32'000'000 a second, and a millisecond's worth would be half of that.
TEST(SendingRate, AQuarterMoreAtMost) {
  Sender sender(CongestionControl::kPaced);
  sender.deliver(64'000, 2_ms);
  sender.round_trip(2_ms);
  ASSERT_EQ(sender.congestion.delivered(), 32'000'000U);
  sender.end_start();
  sender.spread();
  EXPECT_EQ(sender.bits(), 40'000'000U * 8);
}

TEST(SendingRate, WhereOnlyBurstsAreBoundedTwiceTheWindowARoundTrip) {
  Sender sender;
  sender.deliver(64'000, 2_ms);
  sender.round_trip(2_ms);
  sender.end_start();
  sender.spread(64'000);
  EXPECT_TRUE(sender.bounds_bursts());
  EXPECT_EQ(sender.bits(), 2 * 32'000'000U * 8);
}

TEST(SendingRate, HasLimits) {
  Sender sender;
  sender.path(8_ms);
  sender.round_trip(8_ms);
  sender.spread(1);
  EXPECT_EQ(sender.bits(), kSlowest);
  sender.spread(std::uint64_t{1} << 60);
  EXPECT_EQ(sender.bits(), kFastest);
}

TEST(SendingRate, ABurstIsAPartOfTheWindow) {
  const auto burst_of = [](Duration path, std::uint32_t configured) {
    Sender sender;
    sender.recovery.congestion.burst_bytes = configured;
    sender.path(path);
    sender.round_trip(path);
    sender.spread();
    return sender.burst();
  };
  EXPECT_EQ(burst_of(8_ms, 1'000), kWindow / 16);
  EXPECT_EQ(burst_of(2_ms, 1'000), kWindow / 4);
  EXPECT_EQ(burst_of(8_ms, 20'000), 20'000U) << "or as configured";
  EXPECT_EQ(burst_of(2_ms, 20'000), 20'000U);
}

// --- one of many flows (congestion/window/crowding.h) ---

// 32 KiB in a latest round trip of 1 ms: 262'144'000 bit/s.
TEST(SendingRate, ACrowdedWindowLeavesPacketByPacketInTheLatestRoundTrip) {
  Sender sender;
  sender.round_trip(100_us);
  sender.spread();
  ASSERT_FALSE(sender.signals);
  sender.crowd();
  ASSERT_TRUE(sender.congestion.is_paced());
  sender.spread(32 * 1024);
  ASSERT_TRUE(sender.is_spread());
  EXPECT_FALSE(sender.is_whole());
  EXPECT_EQ(sender.bits(), 262'144'000U);
  EXPECT_EQ(sender.burst(), 1U) << "one packet may be longer";
  sender.signals->spread->spend(kWindow / 64);
  EXPECT_EQ(sender.burst(), 0U);
  sender.pass(31_us);  // 1024 bytes take 31.25 us
  EXPECT_EQ(sender.burst(), 0U);
  sender.pass(1_us);
  EXPECT_EQ(sender.burst(), 1U);
  sender.spread(256);
  EXPECT_EQ(sender.bits(), 2'048'000U) << "the smallest window";
  sender.spread(1);
  EXPECT_EQ(sender.bits(), 8'000U) << "less than another rate's limit";
}

TEST(SendingRate, ACrowdedWindowOfALongPathIsSpacedTooAndSpreadAgainAfterIt) {
  Sender sender;
  sender.path(8_ms);
  sender.round_trip(8_ms);
  sender.spread();
  ASSERT_TRUE(sender.is_whole());
  sender.end_start();
  sender.end_start();
  for (int i = 0; i < 8; ++i) sender.congestion.on_acknowledgement(0, {16_ms}, false, sender.now);
  sender.congestion.on_loss(sender.kMtu, sender.kMtu, sender.now);
  ASSERT_TRUE(sender.congestion.is_paced());
  sender.spread(32 * 1024);
  EXPECT_TRUE(sender.is_whole());
  EXPECT_EQ(sender.bits(), 32 * 1024 * 8 * 1000U / 16);
}

TEST(SendingRate, ItEndsWhenTheFlowIsNoLongerOneOfMany) {
  Sender sender;
  sender.round_trip(100_us);
  sender.crowd();
  sender.spread();
  ASSERT_TRUE(sender.is_spread());
  for (int round = 0; round < 200 && sender.congestion.is_paced(); ++round) {
    sender.pass(110_us);
    sender.congestion.on_acknowledgement(sender.congestion.bytes(), {100_us}, true, sender.now);
  }
  ASSERT_FALSE(sender.congestion.is_paced());
  sender.spread();
  EXPECT_FALSE(sender.is_spread());
}

TEST(SendingRate, AWindowThatBoundsNothingIsNotSpaced) {
  for (const CongestionControl control : {CongestionControl::kNone, CongestionControl::kTimely}) {
    SCOPED_TRACE(static_cast<int>(control));
    Sender sender;
    sender.round_trip(100_us);
    sender.crowd();
    ASSERT_TRUE(sender.congestion.is_paced());
    sender.choose(control);
    EXPECT_FALSE(sender.congestion.is_paced());
    sender.congestion.on_acknowledgement(0, {1_ms}, false, sender.now);
    EXPECT_FALSE(sender.congestion.is_paced());
    sender.spread();
    EXPECT_FALSE(sender.is_spread());
    sender.choose(CongestionControl::kWindow);
    EXPECT_TRUE(sender.congestion.is_paced()) << "it goes on measuring";
  }
}

TEST(SendingRate, TheSameSettingsLeaveAPacedWindowAsItIs) {
  Sender sender(CongestionControl::kPaced);
  sender.path(8_ms);
  sender.round_trip(8_ms);
  sender.spread();
  sender.rate().configure();
  EXPECT_EQ(sender.bits(), 2 * 8'192'000U * 8);
}

}  // namespace
}  // namespace brdma::qp
