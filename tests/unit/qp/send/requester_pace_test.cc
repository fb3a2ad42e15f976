// A queue pair with a rate: new packets and retransmissions leave at it, with few wakes; control packets do not wait;
// the choice is made at run time.
#include "support/hand_played.h"

namespace brdma::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// 1 Gbit/s: a packet of 1 KiB of payload takes about 9 us; a burst of two packets.
PairOptions paced(CongestionControl control) {
  PairOptions options;
  options.recovery.congestion.control = control;
  const bool timely = control == CongestionControl::kTimely;  // begins at the share of two
  options.recovery.congestion.rate_first_mbps = timely ? 2'000 : 1'000;
  options.recovery.congestion.burst_bytes = 2'000;
  options.recovery.congestion.pace_interval = Duration{};
  return options;
}

class Paced : public testing::Test, public HandPlayed {
 protected:
  Paced() : HandPlayed(paced(CongestionControl::kTimely)) {}
  std::size_t leave_within(Duration time) {
    pair.run_for(time);
    return sent().size();
  }
};

TEST_F(Paced, NewPacketsLeaveAtTheRate) {
  send(64);
  EXPECT_THAT(sent(), SizeIs(2)) << "the burst";
  const std::size_t packets = leave_within(200_us);
  EXPECT_GE(packets, 20u);  // 200 us * 1 Gbit/s = 25000 bytes, of 1122 each on the wire
  EXPECT_LE(packets, 24u);
  EXPECT_GT(count(Counter::kPaceWaits), 5u);
}

TEST_F(Paced, WhatIsSentAgainLeavesAtTheRateToo) {
  send(40);
  pair.run_for(400_us);
  ASSERT_THAT(sent(), SizeIs(40));
  ffm(0, 1000, 1039, {{1000, 30}});
  EXPECT_THAT(sent(), ElementsAre(1000, 1001));
  const std::size_t packets = leave_within(100_us);
  EXPECT_GE(packets, 9u);
  EXPECT_LE(packets, 12u);
}

TEST_F(Paced, TheWindowDoesNotBoundIt) {
  EXPECT_EQ(pair.side[0].qp->requester().snapshot().congestion_bytes, 0u);
  ASSERT_TRUE(pair.side[0].qp->requester().snapshot().rate.has_value());
  EXPECT_EQ(pair.side[0].qp->requester().snapshot().rate->bps(), 1'000'000'000u);
}

// A READ request takes the tokens of its responses: of 16 packets, about 140 us at 1 Gbit/s.
TEST_F(Paced, ReadsAreAskedForAtTheRateOfTheirAnswers) {
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 0, 100'000, 1)).ok());
  pair.round();
  EXPECT_THAT(sent(), ElementsAre(1000));
  EXPECT_EQ(count(Counter::kPaceWaits), 1u);
  EXPECT_EQ(pair.side[0].qp->requester().snapshot().response_rate->bps(), 1'000'000'000u);
  EXPECT_THAT(leave_within(130_us), 0u);
  EXPECT_THAT(leave_within(20_us), 1u);
  const std::size_t requests = leave_within(300_us);
  EXPECT_EQ(requests, 2u);
}

// Other requests do not wait for that: the responses come in the other direction.
TEST_F(Paced, WritesDoNotTakeTheTokensOfReads) {
  send(2);
  EXPECT_THAT(sent(), SizeIs(2)) << "the burst";
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 0, 1'000, 2)).ok());
  pair.run_for(20_us);
  EXPECT_THAT(sent(), SizeIs(1));
  EXPECT_FALSE(
      TwoEngines{paced(CongestionControl::kDcqcn)}.side[0].qp->requester().snapshot().response_rate.has_value());
}

TEST_F(Paced, IdleItWakesNobody) {
  send(1);
  ack({.base = 1001});
  pair.poll(0);
  EXPECT_FALSE(pair.side[0].engine->next_timeout().has_value());
}

// Its state is in a message's own time: a rate that is removed at run time leaves nothing waiting.
class Editor : public RecoveryEditor {
 public:
  explicit Editor(CongestionControl control) : control_(control) {}
  void edit(RecoveryConfig& config, bool) const override { config.congestion.control = control_; }

 private:
  CongestionControl control_;
};

TEST_F(Paced, TheControlCanBeChangedWhileItSends) {
  send(30);
  EXPECT_THAT(sent(), SizeIs(2));
  ASSERT_TRUE(pair.side[0].engine->change_recovery(std::nullopt, Editor{CongestionControl::kWindow}, pair.now).ok());
  pair.round();
  EXPECT_THAT(sent(), SizeIs(28));
  EXPECT_FALSE(pair.side[0].qp->requester().snapshot().rate.has_value());
  ASSERT_TRUE(pair.side[0].engine->change_recovery(std::nullopt, Editor{CongestionControl::kDcqcn}, pair.now).ok());
  ack({.base = 1030});
  send(30);
  EXPECT_THAT(sent(), SizeIs(2));
}

// What leaves at once of 64 packets, posted when a round trip of `trip` is known; the rest leaves soon after.
std::size_t leave_at_once(Duration trip) {
  PairOptions options;
  options.recovery.congestion.burst_bytes = 8'192;
  HandPlayed play{options};
  const auto acknowledged_up_to = [&](std::uint32_t psn, Instant sent) {
    play.pair.run_for(trip);
    play.ack({.base = psn, .echo = sent});
    play.pair.round();
    play.sent();
  };
  for (std::uint32_t round = 0; round < 3; ++round) {
    const Instant sent = play.pair.now;
    play.send(64, round);
    acknowledged_up_to(1000 + 64 * (round + 1), sent);
  }
  play.send(64, 9);
  const std::size_t at_once = play.sent().size();
  play.pair.run_for(trip / 2);
  EXPECT_EQ(at_once + play.sent().size(), 64u) << "all within half of a round trip";
  return at_once;
}

// A host that gets its processor back has a whole window to send. On a path that is no longer than a switch's queue it
// leaves at once.
TEST(Pacing, OnAPathOfMillisecondsAWholeWindowDoesNotLeaveAtOnce) {
  EXPECT_EQ(leave_at_once(100_us), 64u);
  const std::size_t at_once = leave_at_once(2_ms);
  EXPECT_GE(at_once, 8u);
  EXPECT_LE(at_once, 40u);
}

TEST(Pacing, OneQueuePairOfSeveralCanHaveAnother) {
  TwoEngines pair;
  const std::uint32_t qpn = pair.side[0].engine->qp_num(pair.side[0].qp);
  ASSERT_TRUE(pair.side[0].engine->change_recovery(qpn, Editor{CongestionControl::kTimely}, pair.now).ok());
  EXPECT_TRUE(pair.side[0].engine->report(qpn)->rate.has_value());
  EXPECT_TRUE(pair.side[0].engine->report(qpn)->own_recovery);
  EXPECT_EQ(pair.side[0].engine->recovery().congestion.control, CongestionControl::kWindow);
}

// For any control and peer: all of it arrives, and then all is idle.
TEST(Pacing, EverythingArrives) {
  for (const CongestionControl control :
       {CongestionControl::kTimely, CongestionControl::kDcqcn, CongestionControl::kNone}) {
    for (const RecoveryMode mode : {RecoveryMode::kBitmap, RecoveryMode::kStandard, RecoveryMode::kGoBackN}) {
      PairOptions options = paced(control);
      options.mode[0] = options.mode[1] = mode;
      TwoEngines pair(options);
      pair.fill(0, 7);
      pair.drop = [n = 0](const Sent& sent) mutable { return sent.data() && ++n % 17 == 0; };
      ASSERT_TRUE(pair.post(0, pair.write(0, 0, 200'000, 1)).ok());
      ASSERT_TRUE(pair.post(1, pair.request(1, WorkOpcode::kRdmaRead, 300'000, 200'000, 2, 0)).ok());
      ASSERT_TRUE(pair.run_until_idle());
      EXPECT_TRUE(pair.same(0, 200'000));
      EXPECT_EQ(pair.poll(0).size(), 1u);
      EXPECT_EQ(pair.poll(1).size(), 1u);
    }
  }
}

}  // namespace
}  // namespace brdma::test
