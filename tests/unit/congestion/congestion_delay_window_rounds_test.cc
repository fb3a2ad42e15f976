// The delay window driven by rounds: the effect of a round of acknowledgements with a given round trip, above all on
// long paths and with a window that leaves spread.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "congestion/delay_window.h"

namespace brdma::congestion {
namespace {

// A host under load adds half a millisecond to each round trip of 20 ms: no reason not to grow.
TEST(DelayWindowRounds, OnALongPathTheHostsNoiseIsNoQueue) {
  DelayWindow window;
  Instant now = Instant{} + 1_s;
  window.on_acknowledgement(4096, 20_ms, true, now);  // an acknowledgement without noise
  for (int round = 0; round < 8; ++round) {
    for (std::uint64_t left = window.bytes(); left >= 4096; left -= 4096) {
      now = now + Duration::from_ns((20'500_us).ns() / static_cast<std::int64_t>(window.bytes() / 4096 + 1));
      window.on_acknowledgement(4096, 20'500_us, true, now);
    }
  }
  EXPECT_GT(window.bytes(), 1u << 20) << "64 KiB at first";
}

// Acknowledgements of one round after the other, each the window or `posted` bytes long.
class Rounds {
 public:
  explicit Rounds(DelayWindow& window) : window_(window) {}
  void run(int rounds, Duration rtt, std::uint64_t posted = std::uint64_t{1} << 40) {
    for (int round = 0; round < rounds; ++round) {
      const std::uint64_t bytes = std::min(window_.bytes(), posted);
      for (std::uint64_t done = 0; done < bytes; done += 4096) {
        now_ = now_ + rtt / static_cast<std::int64_t>(bytes / 4096 + 1);
        window_.on_acknowledgement(lose_half_ ? 2048 : 4096, rtt, posted >= bytes + 4096, now_);
      }
      lose_half_ = false;
    }
  }
  void lose_half() { lose_half_ = true; }  // of the next round
  [[nodiscard]] Instant now() const { return now_; }

 private:
  DelayWindow& window_;
  Instant now_ = Instant{} + 1_s;
  bool lose_half_ = false;
};

// Drains are rare there: their measurement is kept until the next one, 8.6 s later.
TEST(DelayWindowRounds, OnALongPathAQueueThatStandsDoesNotBecomeTheBase) {
  DelayWindow window;
  Rounds rounds{window};
  rounds.run(7, 100_ms);
  rounds.run(30, 105_ms);
  EXPECT_EQ(window.base_rtt(), 100_ms);
}

// A longer route is recognized earlier. The former window is restored.
TEST(DelayWindowRounds, OnALongPathADrainIsBroughtForwardWhereTheBaseIsInDoubt) {
  DelayWindow window;
  Rounds rounds{window};
  rounds.run(7, 100_ms);
  rounds.run(4, 105_ms);
  const std::uint64_t before = window.bytes();
  rounds.run(5, 150_ms);
  EXPECT_EQ(window.base_rtt(), 150_ms);
  rounds.run(3, 150_ms);
  EXPECT_GE(window.bytes(), before);
}

// Timeouts before the first RTT sample, or a random loss or two of the few packets of the first window.
TEST(DelayWindowRounds, OneBadRoundWithoutAQueueDoesNotEndTheStart) {
  DelayWindow window;
  Rounds rounds{window};
  rounds.run(2, 50_ms);
  rounds.lose_half();
  rounds.run(1, 50_ms);
  EXPECT_TRUE(window.starting());
  rounds.lose_half();
  rounds.run(1, 50_ms);
  rounds.lose_half();
  rounds.run(1, 50_ms);
  EXPECT_FALSE(window.starting()) << "a queue that is too short to be measured drops";
}

// An application that posts less than the window, but more than the path holds.
TEST(DelayWindowRounds, AQueueThatStandsWhileTheWindowIsNotFullShrinksItAndNothingElseDoes) {
  DelayWindow window;
  Rounds rounds{window};
  rounds.run(9, 20_ms);
  rounds.run(3, 26_ms);  // no longer at its start
  rounds.run(6, 20_ms, 2u << 20);
  const std::uint64_t before = window.bytes();
  ASSERT_GT(before, 4u << 20);
  rounds.run(8, 20_ms, 2u << 20);
  EXPECT_EQ(window.bytes(), before) << "what is not used says nothing of the path";
  rounds.run(8, 50_ms, 2u << 20);
  EXPECT_LT(window.bytes(), 2u << 20);
}

// It has never met a queue: slow start lasts until it does, and ends there.
TEST(DelayWindowRounds, AQueueThatStandsEndsTheStartOfWhoNeverFilledTheWindow) {
  DelayWindow window;
  Rounds rounds{window};
  rounds.run(9, 20_ms);
  rounds.run(8, 20_ms, 2u << 20);
  ASSERT_TRUE(window.starting());
  ASSERT_GT(window.bytes(), 4u << 20);
  rounds.run(8, 50_ms, 2u << 20);
  EXPECT_LT(window.bytes(), 2u << 20);
}

// On one host or one switch a message that the peer works on looks like a queue: programs that answer each other's
// messages would end with a window of a few packets.
TEST(DelayWindowRounds, OnAShortPathAWindowThatIsNotFullIsLeftAlone) {
  DelayWindow window;
  Rounds rounds{window};
  rounds.run(9, 20_us);
  rounds.run(3, 300_us);  // no longer at its start
  rounds.run(2, 20_us);
  const std::uint64_t before = window.bytes(), posted = before / 2;
  rounds.run(50, 300_us, posted);
  EXPECT_GE(window.bytes(), before);
}

// A peer's credit ends each round at 7/8 of the window: such a flow shrinks for a queue, and does not grow.
TEST(DelayWindowRounds, OnAShortPathARoundThatCreditBoundsAdaptsDownwards) {
  DelayWindow window;
  Rounds rounds{window};
  rounds.run(9, 20_us);
  rounds.run(3, 300_us);
  rounds.run(2, 20_us);
  rounds.run(8, 20_us, window.bytes() / 2);  // until all of it is allowed
  const std::uint64_t before = window.bytes(), posted = before / 8 * 7;
  rounds.run(8, 20_us, posted);
  EXPECT_EQ(window.bytes(), before);
  rounds.run(4, 300_us, posted);
  EXPECT_LT(window.bytes(), before);
}

// The window's packets in flight are acknowledged at once after 500 us, all of them or all but a fifth.
TEST(DelayWindowRounds, ASilenceCountsOnlyInARoundThatDeliveredItsFlight) {
  for (const bool loses : {false, true}) {
    DelayWindow window;
    Instant now = Instant{} + 1_s;
    const auto acknowledge = [&](std::uint64_t bytes, Duration rtt, Duration after) {
      window.on_acknowledgement(bytes, rtt, true, now = now + after);
    };
    for (int i = 0; i < 20'000; ++i) {  // 1 Gbit/s: beyond 200 us the window is its own queue
      const auto rtt = Duration::from_ns(static_cast<std::int64_t>(window.bytes() * 8));
      acknowledge(1250, std::max(200_us, rtt), 10_us);
    }
    ASSERT_EQ(window.queueing(), DelayWindowConfig{}.target_queueing);
    const std::uint64_t flight = window.bytes();
    acknowledge(flight, 300_us, 300_us);  // a round begins
    acknowledge(1250, 300_us, 10_us);
    acknowledge(loses ? flight * 4 / 5 : flight, 510_us, 500_us);
    EXPECT_EQ(window.queueing(), loses ? DelayWindowConfig{}.target_queueing : 500_us) << loses;
  }
}

// A loss in a queue beyond the target, at 16 KiB.
TEST(DelayWindowRounds, ACrowdedFlowNeitherNotesNorBridgesASilence) {
  DelayWindow window;
  Instant now = Instant{} + 1_s;
  const auto acknowledge = [&](std::uint64_t bytes, Duration rtt) {
    window.on_acknowledgement(bytes, rtt, true, now = now + rtt);
  };
  acknowledge(4096, 100_us);
  window.on_timeout();
  window.on_timeout();
  for (int i = 0; i < 3; ++i) acknowledge(window.bytes(), 1_ms);
  EXPECT_GT(window.bridge_bytes(now + 4_ms), 0u);
  EXPECT_TRUE(window.next_bridge(0));
  window.on_loss(4096, 4096, now);
  ASSERT_TRUE(window.is_paced());
  EXPECT_EQ(window.bridge_bytes(now + 4_ms), 0u);
  EXPECT_FALSE(window.next_bridge(0));
  acknowledge(window.bytes(), 200_us);
  acknowledge(window.bytes() / 2, 200_us);
  now = now + 1_ms;
  acknowledge(window.bytes(), 300_us);
  EXPECT_EQ(window.queueing(), DelayWindowConfig{}.target_queueing);
}

// Round trips of a window that timeouts made small, so that one lost packet in a queue makes the flow crowded.
class SmallWindow {
 public:
  explicit SmallWindow(Duration base) : base_(base) {
    acknowledge({base});
    window.on_timeout();
    window.on_timeout();
    for (int i = 0; i < 3; ++i) acknowledge(in_queue());
  }
  void acknowledge(const RoundTrip& trip) { window.on_acknowledgement(4096, trip, true, now = now + trip.whole); }
  void lose(Duration after = {}) { window.on_loss(4096, 4096, now + after); }
  [[nodiscard]] RoundTrip in_queue(Duration waited = {}) const { return {base_ + 10_ms + waited, waited}; }

  DelayWindow window;
  Instant now = Instant{} + 1_s;

 private:
  Duration base_;
};

// A packet waited in a host for longer than the target: what collected meanwhile left in a burst, and the queue dropped
// some of it.
TEST(DelayWindowRounds, AfterAHostsAbsenceALossMakesNoCrowd) {
  struct Case {
    Duration base, longest, after;
    bool crowded;
  };
  for (const auto& [base, longest, after, crowded] : {
           Case{100_us, 100_us, 0_ms, true}, Case{100_us, 101_us, 134_ms, false}, Case{100_us, 101_us, 135_ms, true},
           Case{20_ms, 1250_us, 0_ms, true},  // the target is a sixteenth of the path
           Case{20_ms, 1251_us, 159_ms, false}, Case{20_ms, 1251_us, 161_ms, true},  // eight round trips
       }) {
    SmallWindow flow{base};
    flow.acknowledge(flow.in_queue(longest));
    flow.lose(after);
    EXPECT_EQ(flow.window.is_paced(), crowded) << base.ns() << ' ' << longest.ns() << ' ' << after.ns();
  }
}

TEST(DelayWindowRounds, AHostsAbsenceEndsACrowd) {
  SmallWindow flow{100_us};
  flow.lose();
  ASSERT_TRUE(flow.window.is_paced());
  flow.acknowledge(flow.in_queue(100_us));
  EXPECT_TRUE(flow.window.is_paced());
  flow.acknowledge(flow.in_queue(101_us));
  EXPECT_FALSE(flow.window.is_paced());
}

// A loss while the queue stands takes a sixteenth of the window, and growth that is only added.
TEST(DelayWindowRounds, AfterALossInALongQueueNothingIsAddedForAWhile) {
  std::uint64_t after[2];
  for (const bool loses : {false, true}) {
    DelayWindow window;
    Rounds rounds{window};
    rounds.run(2, 20_us);
    rounds.run(20, 115_us);
    if (loses) window.on_loss(4096, 4096, Instant{} + 2_s);
    const std::uint64_t before = window.bytes();
    rounds.run(1, 115_us);
    if (loses) {
      EXPECT_LE(window.bytes(), before - before / 16);
    }
    rounds.run(8, 115_us);
    after[loses ? 1 : 0] = window.bytes();
  }
  EXPECT_LT(after[1] + 8 * 1024, after[0]);
}

// A drain that empties a queue, in a flow whose rounds want less than 16 KiB, shows other flows: or hosts that were
// absent.
TEST(DelayWindowRounds, AfterAHostsAbsenceADrainShowsNoCrowd) {
  for (const bool absent : {false, true}) {
    SmallWindow flow{100_us};
    const Duration waited = absent ? 101_us : 100_us;
    bool drained = false;
    for (int i = 0; i < 60 && !flow.window.is_paced(); ++i) {
      const bool drains = flow.window.bytes() < DelayWindowConfig{}.min_bytes;
      drained = drained || drains;
      flow.acknowledge(drains ? RoundTrip{100_us + waited, waited} : flow.in_queue(waited));
    }
    ASSERT_TRUE(drained);
    EXPECT_EQ(flow.window.is_paced(), !absent);
  }
}

// Beyond the target of queueing the additive part is next to nothing.
TEST(DelayWindowRounds, AfterAHostsAbsenceALongQueueTakesNothingOffTheAdditivePart) {
  std::uint64_t after[2];
  for (const bool absent : {false, true}) {
    DelayWindow window;
    Rounds rounds{window};
    rounds.run(2, 20_us);
    if (absent) window.on_acknowledgement(4096, {300_us, 185_us}, true, rounds.now());
    rounds.run(20, 170_us);
    after[absent ? 1 : 0] = window.bytes();
  }
  EXPECT_GT(after[1], after[0] + 6 * 1024);
}

// Whatever the queue is, and whatever was lost, a window adds the same in each round once a host was absent.
TEST(DelayWindowRounds, AfterAHostsAbsenceTheAdditivePartIsAConstant) {
  std::uint64_t after[2];
  for (const bool loses : {false, true}) {
    DelayWindow window;
    Rounds rounds{window};
    rounds.run(2, 20_us);
    rounds.run(20, 115_us);
    window.on_acknowledgement(4096, {300_us, 185_us}, true, rounds.now());
    if (loses) window.on_loss(4096, 4096, rounds.now());
    rounds.run(9, 115_us);
    after[loses ? 1 : 0] = window.bytes();
  }
  EXPECT_EQ(after[1], after[0]);
}

// Rounds of a window that is spread, as `Rounds`; its rate bounds the bytes of a round.
class SpreadRounds {
 public:
  explicit SpreadRounds(DelayWindow& window) : window_(window) {}
  void run(int rounds, Duration rtt, std::uint64_t most = std::uint64_t{1} << 40) {
    for (int round = 0; round < rounds; ++round) {
      const std::uint64_t packets = std::min(window_.bytes(), most) / 4096;
      for (std::uint64_t i = 0; i < packets; ++i) acknowledge(rtt, rtt / static_cast<std::int64_t>(packets));
    }
  }
  void acknowledge(Duration rtt, Duration after) {
    window_.on_acknowledgement(4096, rtt, true, now_ = now_ + after);
    window_.set_spread(true);
  }

 private:
  DelayWindow& window_;
  Instant now_ = Instant{} + 1_s;
};

// Its rate sends a sixteenth more than was delivered, and a millisecond's worth; a window a quarter beyond that would
// have to shrink first when a queue is detected.
TEST(DelayWindowRounds, ASpreadWindowGrowsNoFurtherThanItsRateLetsLeave) {
  DelayWindow window;
  SpreadRounds rounds{window};
  rounds.run(8, 20_ms);
  const std::uint64_t holds = 8u << 20;
  rounds.run(3, 22_ms, holds);
  ASSERT_FALSE(window.starting());
  rounds.run(10, 20_ms, holds);  // the former delivery is forgotten
  for (int i = 0; i < 20; ++i) {
    rounds.run(1, 20_ms, holds);
    EXPECT_GT(window.bytes(), holds);
    EXPECT_LT(window.bytes(), holds + holds / 4);
  }
}

// A drain costs it only half a round's worth, and a longer path is recognized two rounds after it.
TEST(DelayWindowRounds, ASpreadWindowDrainsByHalfARoundAndBeginsAgainWithItsRate) {
  DelayWindow window;
  SpreadRounds rounds{window};
  rounds.run(8, 20_ms);
  const std::uint64_t holds = 8u << 20;
  rounds.run(12, 21_ms, holds);
  ASSERT_FALSE(window.starting());
  std::uint64_t least = window.bytes();
  const std::uint64_t before = least;
  for (int i = 0; i < 8 * 2048; ++i) {
    const std::uint64_t was = window.bytes();
    rounds.acknowledge(30_ms, 10_us);
    EXPECT_GE(window.bytes() + 4096, was) << "no silence";
    least = std::min(least, window.bytes());
  }
  EXPECT_GT(least, before / 4);
  EXPECT_LT(least, before * 2 / 3);
  EXPECT_EQ(window.base_rtt(), 30_ms);
  EXPECT_GT(window.bytes(), before + before / 4);
}

// A window that is spread makes no queue by itself: the first detected queue is the path's, and slow start ends with
// the round in which it drains.
TEST(DelayWindowRounds, ASpreadWindowLeavesItsStartWithTheRoundThatEndsWithAQueue) {
  for (const bool spread : {false, true}) {
    DelayWindow window;
    Instant now = Instant{} + 1_s;
    const auto acknowledge = [&](Duration rtt) {
      window.on_acknowledgement(8192, rtt, true, now = now + 1_ms);
      window.set_spread(spread);
    };
    for (int i = 0; i < 30; ++i) acknowledge(20_ms);
    ASSERT_TRUE(window.starting());
    for (int i = 0; i < 30; ++i) acknowledge(i < 4 ? 20_ms : 21_ms);
    EXPECT_EQ(window.starting(), !spread);
  }
}

}  // namespace
}  // namespace brdma::congestion
