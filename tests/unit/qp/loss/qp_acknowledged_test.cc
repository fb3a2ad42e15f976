// What an acknowledgement changes (qp/loss/cumulative_acks.h, executed_requests.h, round_trips.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "qp/loss/cumulative_acks.h"
#include "qp/loss/executed_requests.h"
#include "qp/loss/round_trips.h"
#include "support/sender_parts.h"

namespace brdma::qp {
namespace {

struct Acknowledged : test::SenderParts {
  [[nodiscard]] CumulativeAcks acks() {
    return CumulativeAcks{
        {environment, identity, scoreboard, segments, responses, receiver, loss, admission, timers, rnr, paths, judge}};
  }
  bool executed(Sequence before) {
    return ExecutedRequests{{scoreboard, rnr, sent(), progress(), acks().in_bulk()}}.acknowledge_before(before, now);
  }
  [[nodiscard]] RoundTrips trips() {
    return RoundTrips{{environment, identity, scoreboard, rtt, congestion, responses.congestion(), admission, signals}};
  }
  [[nodiscard]] static CumulativeAck ack(std::uint32_t base) {
    CumulativeAck ack;
    ack.base = Psn{base};
    ack.credit_packets = 9;
    ack.credit_bytes = 900;
    return ack;
  }
};

// --- everything in flight ---

TEST(CumulativeAcks, EverythingInFlightIsExecuted) {
  Acknowledged parts;
  parts.write(3);
  parts.write(1);
  ASSERT_TRUE(parts.acks().acknowledges_all(parts.ack(1004)));
  parts.pass(10_us);
  EXPECT_EQ(parts.acks().take(parts.ack(1004), parts.now), 4 * parts.kMtu);
  EXPECT_TRUE(parts.scoreboard.empty());
  EXPECT_EQ(parts.scoreboard.base(), 4U);
  EXPECT_EQ(parts.scoreboard.cumulative(), 4U);
  EXPECT_EQ(parts.packets_in_flight(), 0U);
  EXPECT_EQ(parts.identity.peer_credit.packets, 9U);
  EXPECT_EQ(parts.identity.peer_credit.bytes, 900U);
  EXPECT_EQ(parts.timers.progress(), parts.now);
  EXPECT_EQ(parts.count(Counter::kAcksReceived), 1U);
}

TEST(CumulativeAcks, EverythingElseTakesTheGeneralPath) {
  struct Case {
    const char* why;
    void (*change)(Acknowledged&);
  };
  const Case cases[] = {
      {"a part of it", [](Acknowledged& parts) { parts.write(1); }},
      {"losses", [](Acknowledged& parts) { (void)parts.sent().repairing(); }},
      {"bits came before", [](Acknowledged& parts) { parts.report(2); }},
      {"the wait after an RNR NAK", [](Acknowledged& parts) { (void)parts.rnr.on_nak(0, 7, false, parts.now + 1_ms); }},
      {"a receiver that was not ready", [](Acknowledged& parts) { (void)parts.rnr.on_nak(0, 7, true, parts.now); }},
      {"several paths",
       [](Acknowledged& parts) { parts.paths = std::make_unique<SendPaths>(2, Spraying::kRoundRobin); }},
      {"the sender judges", [](Acknowledged& parts) { parts.judge = std::make_unique<SenderJudge>(parts.recovery); }},
      {"responses are awaited", [](Acknowledged& parts) { parts.responses.on_requested(1, 1); }},
      {"responses take several paths",
       [](Acknowledged& parts) {
         parts.identity.receiving_paths = 2;
         (void)parts.receiver.paths_begun(parts.environment, parts.identity, parts.now);
       }},
      {"a segment is in flight",
       [](Acknowledged& parts) {
         parts.messages.back().segment_packets = 2;
         EXPECT_TRUE(parts.segments.on_sent(parts.messages.back(), 0));
       }},
  };
  for (const Case& one : cases) {
    Acknowledged parts;
    parts.write(3);
    one.change(parts);
    EXPECT_FALSE(parts.acks().acknowledges_all(parts.ack(1003))) << one.why;
  }
  Acknowledged idle;
  EXPECT_FALSE(idle.acks().acknowledges_all(idle.ack(1000))) << "nothing is in flight";
}

// --- all before a packet ---

TEST(ExecutedRequests, PacketsBeforeItAreAcknowledgedAndThePeerIsAlive) {
  Acknowledged parts;
  parts.write(4);
  parts.pass(10_us);
  EXPECT_FALSE(parts.executed(3));
  EXPECT_EQ(parts.scoreboard.cumulative(), 3U);
  EXPECT_EQ(parts.packets_in_flight(), 1U);
  EXPECT_EQ(parts.timers.progress(), parts.now);
}

TEST(ExecutedRequests, InBulkOrOneByOneTheSameIsLeft) {
  Acknowledged bulk, single;
  single.judge = std::make_unique<SenderJudge>(single.recovery);
  for (Acknowledged* parts : {&bulk, &single}) {
    parts->write(2);
    parts->write(3);
    EXPECT_EQ(parts->acks().in_bulk(), parts == &bulk);
    (void)parts->executed(4);
  }
  EXPECT_EQ(bulk.scoreboard.cumulative(), single.scoreboard.cumulative());
  EXPECT_EQ(bulk.packets_in_flight(), single.packets_in_flight());
  EXPECT_EQ(bulk.scoreboard.flight().bytes, single.scoreboard.flight().bytes);
  EXPECT_EQ(bulk.scoreboard.unacked(), single.scoreboard.unacked());
}

TEST(ExecutedRequests, ARequestIsThereItsResponsesAreNot) {
  Acknowledged parts;
  parts.read(2);
  (void)parts.executed(2);
  EXPECT_TRUE(parts.messages.front().request_received);
  EXPECT_EQ(parts.packets_in_flight(), 0U);
  EXPECT_EQ(parts.scoreboard.unacked(), 2U);
}

TEST(ExecutedRequests, ARefusedPacketThatWasTakenEndsTheWait) {
  Acknowledged parts;
  parts.write(4);
  EXPECT_TRUE(parts.rnr.on_nak(1, 7, false, parts.now + 1_ms));
  EXPECT_TRUE(parts.executed(2));
}

// --- round trips ---

TEST(RoundTrips, AnEchoIsOneSampleOfTheWindow) {
  Acknowledged parts;
  parts.admission.note_congestion_limited();
  parts.trips().on_echo({50_us, {}}, 4 * parts.kMtu, parts.now);
  EXPECT_EQ(parts.congestion.base_rtt(), 50_us);
  EXPECT_FALSE(parts.admission.congestion_limited()) << "since the last sample";
  EXPECT_FALSE(parts.rtt.has_sample()) << "the estimate has the whole of it, the window that of its path";
}

TEST(RoundTrips, AStandardAcknowledgementIsASampleOfTheEstimate) {
  Acknowledged parts;
  parts.trips().on_standard(50_us, parts.now);
  EXPECT_EQ(parts.rtt.smoothed(), 50_us);
}

TEST(RoundTrips, AnImpossibleOneIsNone) {
  Acknowledged parts;
  parts.trips().on_standard(Duration{}, parts.now);
  parts.trips().on_standard(Duration{} - 1_us, parts.now);
  parts.trips().on_standard(30_s, parts.now);
  EXPECT_FALSE(parts.rtt.has_sample());
  parts.trips().on_standard(30_s - 1_us, parts.now);
  EXPECT_TRUE(parts.rtt.has_sample());
}

TEST(RoundTrips, TheFirstReportOfAPacketThatLeftOnceIsASampleOfTheEstimate) {
  Acknowledged parts;
  parts.write(4);
  parts.pass(30_us);
  EXPECT_TRUE(parts.sent().retransmit(2, parts.messages.of(2), Counter::kRetransmittedFfm, parts.now));
  parts.leaves_again(2);
  parts.pass(20_us);
  parts.trips().on_first_report(Psn{1002}, parts.now);
  EXPECT_FALSE(parts.rtt.has_sample()) << "which transmission arrived is not known";
  parts.trips().on_first_report(Psn{1004}, parts.now);
  parts.trips().on_first_report(Psn{999}, parts.now);
  EXPECT_FALSE(parts.rtt.has_sample()) << "not in flight";
  parts.report(1);
  parts.trips().on_first_report(Psn{1001}, parts.now);
  EXPECT_FALSE(parts.rtt.has_sample()) << "reported before";
  parts.trips().on_first_report(Psn{1003}, parts.now);
  EXPECT_NEAR(static_cast<double>(parts.rtt.smoothed().ns()), 50'000.0, 64.0);
  const Duration first = parts.rtt.smoothed();
  parts.pass(1_ms);
  parts.trips().on_first_report(Psn{1003}, parts.now);
  EXPECT_EQ(parts.rtt.smoothed(), first) << "only the first";
}

TEST(RoundTrips, OnlyGoBackNHasAWindowWithAStandardPeer) {
  for (const bool goes_back : {false, true}) {
    Acknowledged parts;
    if (goes_back) parts.recovery.mode = RecoveryMode::kGoBackN;
    parts.admission.note_congestion_limited();
    parts.trips().on_standard_acknowledged(50_us, parts.kMtu, parts.now);
    EXPECT_EQ(parts.admission.congestion_limited(), !goes_back);
    EXPECT_EQ(parts.congestion.base_rtt() == 50_us, goes_back);
  }
}

// --- a batch that was withdrawn (SentPackets::withdraw) ---

TEST(SentPackets, PacketsOfAWithdrawnBatchLeaveAgain) {
  Acknowledged parts;
  parts.write(2);
  parts.pass(10_us);
  const Instant made = parts.now;
  parts.write(2);
  parts.acknowledge(3);
  parts.sent().withdraw(made, parts.now);
  EXPECT_THAT(parts.all_pending(), testing::ElementsAre(2U));
}

}  // namespace
}  // namespace brdma::qp
