// device/manage.cc: recovery settings changed while queue pairs run, and queue pairs' states. tests design BR-35, BR-41
#include <gmock/gmock.h>

#include <array>
#include <cerrno>
#include <vector>

#include "qp/state/duplicate_log.h"
#include "support/two_engines.h"
#include "trace/journal.h"

namespace brdma::test {
namespace {

struct DepthMax final : RecoveryEditor {
  explicit DepthMax(std::uint32_t depth) : depth_max(depth) {}
  void edit(RecoveryConfig& config, bool made) const override {
    config.depth_max = depth_max;
    if (!made) config.window_packets = 64;
  }
  std::uint32_t depth_max;
};

class Manage : public testing::Test {
 protected:
  Engine& engine() { return *pair.side[1].engine; }
  std::uint32_t qpn() { return engine().qp_num(pair.side[1].qp); }
  QueuePairReport report() { return engine().report(qpn()).value(); }
  QueuePair* another() {
    QpCreate request;
    request.pd = pair.side[1].pd;
    request.send_cq = pair.side[1].send_cq;
    request.receive_cq = pair.side[1].receive_cq;
    return engine().create_qp(request).value();
  }
  TwoEngines pair;
};

TEST_F(Manage, AChangeForAllReachesRunningQueuePairsAndThoseToCome) {
  ASSERT_TRUE(engine().change_recovery(std::nullopt, DepthMax{100}, pair.now).ok());
  EXPECT_EQ(report().recovery.depth_max, 100u);
  EXPECT_EQ(report().limits.depth_max, 100u);
  EXPECT_EQ(report().recovery.window_packets, 4096u);  // applies to those made later only
  const auto later = engine().report(engine().qp_num(another())).value();
  EXPECT_EQ(later.recovery.depth_max, 100u);
  EXPECT_EQ(later.recovery.window_packets, 64u);
  EXPECT_FALSE(later.own_recovery);
}

TEST_F(Manage, AChangeForOneLeavesTheOthersAsTheyAre) {
  QueuePair* const other = another();
  ASSERT_TRUE(engine().change_recovery(qpn(), DepthMax{3}, pair.now).ok());
  EXPECT_EQ(report().limits.depth_max, 3u);
  EXPECT_TRUE(report().own_recovery);
  EXPECT_EQ(engine().report(engine().qp_num(other))->recovery.depth_max, 8u);
  EXPECT_EQ(engine().recovery().depth_max, 8u);
  ASSERT_TRUE(engine().change_recovery(qpn(), DepthMax{8}, pair.now).ok());  // as the device's again
  EXPECT_FALSE(report().own_recovery);
}

TEST_F(Manage, ThereIsNoSuchQueuePair) {
  EXPECT_EQ(engine().change_recovery(qpn() ^ 0x100, DepthMax{3}, pair.now).error(), ENOENT);
  EXPECT_FALSE(engine().report(qpn() ^ 0x100));
}

// A gap that waits under the old limits is judged by the new ones at once.
TEST_F(Manage, AWaitingGapIsJudgedByTheNewLimits) {
  ASSERT_TRUE(engine().change_recovery(std::nullopt, DepthMax{1000}, pair.now).ok());
  struct Patient final : RecoveryEditor {
    void edit(RecoveryConfig& config, bool) const override { config.age_max = config.stall_max = 1_s; }
  };
  ASSERT_TRUE(engine().change_recovery(std::nullopt, Patient{}, pair.now).ok());
  pair.drop = [](const Sent& sent) { return sent.data() && sent.psn() == 1003 && sent.copy == 1; };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 16 * 1024, /*wr_id=*/1)).ok());
  pair.run_for(100_us);
  ASSERT_EQ(report().gaps, 1u);
  EXPECT_EQ(pair.side[1].statistics.get(Counter::kGapsPromotedDepth), 0u);
  ASSERT_TRUE(engine().change_recovery(std::nullopt, DepthMax{2}, pair.now).ok());
  EXPECT_EQ(pair.side[1].statistics.get(Counter::kGapsPromotedDepth), 1u);
  pair.run_until_idle();
  EXPECT_EQ(report().gaps, 0u);
  EXPECT_EQ(report().receive_next, Psn{1016});
}

TEST_F(Manage, AQueuePairCountsItsOwnPackets) {
  QueuePair* const other = another();
  pair.drop = [](const Sent& sent) { return sent.data() && sent.psn() == 1003 && sent.copy == 1; };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 16 * 1024, /*wr_id=*/1)).ok());
  pair.run_until_idle();
  const QpStatistics receiver = report().statistics;
  EXPECT_EQ(receiver.get(QpCounter::kGapsSeen), 1u);
  EXPECT_EQ(receiver.get(QpCounter::kGapsPromoted), 1u);
  EXPECT_EQ(receiver.get(QpCounter::kFfmSent), 1u);
  const QpStatistics sender = pair.side[0].engine->report(pair.side[0].engine->qp_num(pair.side[0].qp))->statistics;
  EXPECT_EQ(sender.get(QpCounter::kSentData), 16u);
  EXPECT_EQ(sender.get(QpCounter::kRetransmitted), 1u);
  EXPECT_EQ(sender.get(QpCounter::kFfmReceived), 1u);
  EXPECT_EQ(sender.get(QpCounter::kSentPackets), pair.side[0].statistics.get(Counter::kSentPackets));
  EXPECT_EQ(engine().report(engine().qp_num(other))->statistics.get(QpCounter::kAccepted), 0u);
}

// --- limits and path bitmaps in reports ---

std::uint32_t qpn_of(const TwoEngines& pair, int side) { return pair.side[side].engine->qp_num(pair.side[side].qp); }
QueuePairReport report_of(const TwoEngines& pair, int side) {
  return pair.side[side].engine->report(qpn_of(pair, side), pair.now).value();
}

// Learnt limits are shown, of requests and of READ responses separately; expired ones are not.
TEST(Shown, LimitsAreThoseInForce) {
  for (const bool reads : {false, true}) {
    TwoEngines pair;
    const int receiver = reads ? 0 : 1;
    const auto limits = [&] {
      const QueuePairReport report = report_of(pair, receiver);
      EXPECT_EQ(reads ? report.limits : report.response_limits, recovery::GapLimits{}) << "the other direction's";
      return reads ? report.response_limits : report.limits;
    };
    EXPECT_EQ(limits(), recovery::GapLimits{});
    pair.extra_delay = [reads](const Sent& sent) {
      return sent.from == (reads ? 1 : 0) && sent.psn() == 1003 ? 200_us : Duration{};
    };
    const WorkOpcode opcode = reads ? WorkOpcode::kRdmaRead : WorkOpcode::kRdmaWrite;
    ASSERT_TRUE(pair.post(0, pair.request(0, opcode, 0, 32 * 1024, 1)).ok());
    pair.run_for(300_us);
    EXPECT_GT(limits().depth_max, 8u);
    EXPECT_GT(limits().age_max, 50_us);
    pair.now = pair.now + 10_s;  // nothing came since, so the limits were not updated
    EXPECT_EQ(limits(), recovery::GapLimits{});
  }
}

// Across paths other limits apply than on one: gaps are judged by those.
TEST(Shown, PathBitmapsAndTheirLimits) {
  for (const bool reads : {false, true}) {
    PairOptions options;
    options.paths = 2;
    options.recovery.paths = 2;
    TwoEngines pair{options};
    const int receiver = reads ? 0 : 1;
    const auto paths = [&] {
      const QueuePairReport report = report_of(pair, receiver);
      EXPECT_TRUE((reads ? report.receive_paths : report.response_paths).empty());
      return reads ? report.response_paths : report.receive_paths;
    };
    EXPECT_TRUE(paths().empty());
    // Packets on the second path are lost, so that those of the first wait in its bitmap.
    pair.extra_delay = [reads](const Sent& sent) {
      return sent.from == (reads ? 1 : 0) && sent.source_port % 2 == 1 ? 100_us : Duration{};
    };
    const WorkOpcode opcode = reads ? WorkOpcode::kRdmaRead : WorkOpcode::kRdmaWrite;
    ASSERT_TRUE(pair.post(0, pair.request(0, opcode, 0, 64 * 1024, 1)).ok());
    pair.run_for(40_us);
    const auto early = paths();
    ASSERT_EQ(early.size(), 2u);
    EXPECT_GT(early[0].packets, 16u);
    EXPECT_EQ(early[1].packets, 0u);
    EXPECT_TRUE(early[0].in_use);
    EXPECT_FALSE(early[1].in_use);
    EXPECT_GT(early[0].marked, 0u);
    EXPECT_EQ(early[1].marked, 0u);
    EXPECT_GT(early[0].bytes, 0u);
    const QueuePairReport report = report_of(pair, receiver);
    const recovery::GapLimits& limits = reads ? report.response_limits : report.limits;
    EXPECT_EQ(limits.depth_max, 1024u);
    EXPECT_EQ(limits.age_max, 200_us);
    EXPECT_EQ(limits.stall_max, 320_us);
    ASSERT_TRUE(pair.run_until_idle());
    const auto all = paths();
    EXPECT_EQ(all[0].packets + all[1].packets, 64u);
    EXPECT_EQ(all[0].packets, early[0].packets);
    EXPECT_EQ(all[0].marked + all[1].marked, 0u) << "all is done";
  }
}

TEST_F(Manage, FirstPsnsStayAsTheyWereGiven) {
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 16 * 1024, 1)).ok());
  pair.run_until_idle();
  EXPECT_EQ(report().receive_start, Psn{1000});
  EXPECT_EQ(report().send_start, Psn{5000});
  EXPECT_EQ(report().receive_next, Psn{1016});
}

// --- records and retransmissions by hand ---

// Gaps wait for a second on both sides, and both keep a journal.
class ByHand : public testing::Test {
 protected:
  struct Patient final : RecoveryEditor {
    void edit(RecoveryConfig& config, bool) const override {
      config.depth_max = 1000;
      config.age_max = config.stall_max = config.send_stall_min = config.probe_timeout_min = 1_s;
      config.retransmit_timeout_min = 2_s;
    }
  };
  ByHand() {
    for (int i = 0; i < 2; ++i) {
      engine(i).set_journal(&journals[i].journal);
      EXPECT_TRUE(engine(i).change_recovery(std::nullopt, Patient{}, pair.now).ok());
      (void)events(i);
    }
  }
  Engine& engine(int side) { return *pair.side[side].engine; }
  std::uint64_t count(int side, Counter counter) const { return pair.side[side].count(counter); }
  std::vector<qp::OpenGap> gaps(int side) { return engine(side).open_gaps(qpn_of(pair, side), pair.now); }
  // Events of this type since the last call, as "first value, second, third".
  std::vector<std::array<std::uint64_t, 3>> events(int side, trace::EventType type = trace::EventType::kQpState) {
    std::vector<trace::EventRecord> records;
    (void)trace::read_events(journals[side].ring, journals[side].read, records);
    std::vector<std::array<std::uint64_t, 3>> found;
    for (const auto& record : records) {
      if (record.type != type) continue;
      EXPECT_EQ(record.qpn, qpn_of(pair, side));
      found.push_back(record.values);
    }
    return found;
  }
  Result<qp::RetransmitRequested, int> retransmit(int side, const Engine::Retransmission& which) {
    const auto asked = engine(side).retransmit(qpn_of(pair, side), which, pair.now);
    pair.run_for(50_us);
    return asked;
  }
  struct Journalled {
    trace::EventRing ring;
    Statistics statistics;
    trace::Journal journal{ring, statistics};
    std::uint64_t read = 0;
  };
  TwoEngines pair;
  Journalled journals[2];
};

TEST_F(ByHand, AGapOfRequestsIsSeenAndSentAgainAtOnce) {
  pair.drop = [](const Sent& sent) { return sent.data() && (sent.psn() | 1) == 1003 && sent.copy == 1; };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 8 * 1024, 1)).ok());
  pair.run_for(100_us);
  const auto seen = gaps(1);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_FALSE(seen[0].response);
  EXPECT_EQ(seen[0].start, Psn{1002});
  EXPECT_EQ(seen[0].length, 2u);
  EXPECT_FALSE(seen[0].promoted);
  EXPECT_EQ(seen[0].feedbacks, 0u);
  EXPECT_EQ(seen[0].depth, 5u);
  EXPECT_EQ(pair.now - seen[0].first_seen, 95_us);
  EXPECT_TRUE(seen[0].stalls);
  EXPECT_TRUE(gaps(0).empty());
  ASSERT_EQ(retransmit(1, {.gaps = true, .psn = Psn{1001}}).reason(), ERANGE) << "that one is here";
  const auto asked = retransmit(1, {.gaps = true, .psn = Psn{1003}});
  ASSERT_TRUE(asked.ok());
  EXPECT_EQ(asked.value().first, Psn{1002});
  EXPECT_EQ(asked.value().packets, 2u);
  EXPECT_EQ(asked.value().gaps, 1u);
  EXPECT_TRUE(gaps(1).empty());
  EXPECT_EQ(pair.poll(0).size(), 1u);
  EXPECT_EQ(count(1, Counter::kGapsPromotedRequest), 1u);
  EXPECT_EQ(count(1, Counter::kFfmSent), 1u);
  EXPECT_EQ(count(0, Counter::kRetransmittedFfm), 2u);
  EXPECT_THAT(events(1, trace::EventType::kRetransmitRequested),
              testing::ElementsAre(std::array<std::uint64_t, 3>{1002, 2, 1}));
}

TEST_F(ByHand, AGapOfResponsesIsSeenAndRequestedAgainAtOnce) {
  pair.drop = [](const Sent& sent) { return sent.from == 1 && sent.psn() == 1003 && sent.copy == 1; };
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 0, 8 * 1024, 1)).ok());
  pair.run_for(100_us);
  const auto seen = gaps(0);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_TRUE(seen[0].response);
  EXPECT_EQ(seen[0].start, Psn{1003});
  EXPECT_EQ(seen[0].length, 1u);
  EXPECT_EQ(seen[0].depth, 4u);
  EXPECT_EQ(report_of(pair, 0).response_gaps, 1u);
  const auto asked = retransmit(0, {.gaps = true, .psn = {}});
  ASSERT_TRUE(asked.ok());
  EXPECT_EQ(asked.value().packets, 1u);
  EXPECT_TRUE(gaps(0).empty());
  EXPECT_EQ(pair.poll(0).size(), 1u);
  EXPECT_EQ(count(0, Counter::kGapsPromotedRequest), 1u);
  EXPECT_EQ(count(0, Counter::kRetransmittedRequest), 1u);
  EXPECT_EQ(count(0, Counter::kReadsReissued), 1u);
  EXPECT_EQ(count(0, Counter::kGapsRecovered), 1u);
}

TEST_F(ByHand, PacketsThatAreNotAcknowledgedAreSentAgain) {
  pair.drop = [](const Sent& sent) { return sent.data() && sent.copy == 1; };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 8 * 1024, 1)).ok());
  pair.run_for(100_us);
  EXPECT_EQ(retransmit(0, {.psn = Psn{1008}}).reason(), ERANGE) << "was never sent";
  EXPECT_EQ(retransmit(1, {.psn = {}}).reason(), ERANGE) << "the peer has sent nothing";
  ASSERT_TRUE(retransmit(0, {.psn = Psn{1000}, .count = 3}).ok());
  EXPECT_EQ(report_of(pair, 1).receive_next, Psn{1003});
  EXPECT_EQ(count(0, Counter::kRetransmittedRequest), 3u);
  const auto rest = retransmit(0, {.psn = {}});
  ASSERT_TRUE(rest.ok());
  EXPECT_EQ(rest.value().first, Psn{1003});
  EXPECT_EQ(rest.value().packets, 5u);
  EXPECT_EQ(rest.value().gaps, 0u);
  EXPECT_EQ(pair.poll(0).size(), 1u);
  EXPECT_EQ(count(0, Counter::kRetransmittedRequest), 8u);
  EXPECT_EQ(report_of(pair, 0).statistics.get(QpCounter::kRetransmitted), 8u);
  EXPECT_THAT(events(0, trace::EventType::kRetransmitRequested),
              testing::ElementsAre(std::array<std::uint64_t, 3>{1000, 3, 0}, std::array<std::uint64_t, 3>{1003, 5, 0}));
}

// A standard peer takes packets in order: all from there on. As receiver it asks to go back, at the base alone.
TEST(ByHandWithAStandardPeer, ComesAgainFromThere) {
  PairOptions options;
  options.mode[0] = options.mode[1] = RecoveryMode::kStandard;
  options.recovery.depth_max = 1000;
  options.recovery.age_max = options.recovery.stall_max = 1_s;
  for (const bool by_receiver : {false, true}) {
    TwoEngines pair{options};
    pair.drop = [](const Sent& sent) { return sent.data() && sent.psn() == 1003 && sent.copy == 1; };
    ASSERT_TRUE(pair.post(0, pair.write(0, 0, 8 * 1024, 1)).ok());
    pair.run_for(100_us);
    const int side = by_receiver ? 1 : 0;
    const auto asked =
        pair.side[side].engine->retransmit(qpn_of(pair, side), {.gaps = by_receiver, .psn = Psn{1003}}, pair.now);
    ASSERT_TRUE(asked.ok());
    EXPECT_EQ(asked.value().packets, by_receiver ? 1u : 5u);
    pair.run_for(100_us);
    EXPECT_EQ(pair.poll(0).size(), 1u);
    EXPECT_EQ(pair.side[0].count(Counter::kRetransmittedNak), by_receiver ? 5u : 0u);
    EXPECT_EQ(pair.side[0].count(Counter::kRetransmittedRequest), by_receiver ? 0u : 5u);
  }
}

TEST_F(ByHand, OfAQueuePairThatHasNone) {
  EXPECT_EQ(engine(0).retransmit(qpn_of(pair, 0) ^ 0x100, {}, pair.now).reason(), ENOENT);
  PairOptions options;
  options.type = QpType::kUc;
  TwoEngines unreliable{options};
  EXPECT_EQ(unreliable.side[0].engine->retransmit(qpn_of(unreliable, 0), {}, unreliable.now).reason(), EINVAL);
  EXPECT_EQ(retransmit(0, {.gaps = true, .psn = {}}).reason(), ERANGE);
  EXPECT_THAT(events(0, trace::EventType::kRetransmitRequested), testing::IsEmpty());
}

TEST_F(ByHand, DuplicatesAreKeptOfBothDirections) {
  pair.duplicates = [](const Sent& sent) { return sent.psn() == 1001 && (sent.data() || sent.from == 1) ? 1u : 0u; };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 4 * 1024, 1)).ok());
  pair.run_for(100_us);
  const auto of_requests = engine(1).duplicates();
  ASSERT_EQ(of_requests.size(), 1u);
  EXPECT_EQ(of_requests[0].psn, Psn{1001});
  EXPECT_EQ(of_requests[0].qpn, qpn_of(pair, 1));
  EXPECT_FALSE(of_requests[0].response);
  pair.duplicates = [](const Sent& sent) { return sent.from == 1 && sent.psn() == 1005 ? 1u : 0u; };
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 0, 4 * 1024, 2)).ok());
  pair.run_for(100_us);
  const auto of_responses = engine(0).duplicates();
  ASSERT_EQ(of_responses.size(), 1u);
  EXPECT_EQ(of_responses[0].psn, Psn{1005});
  EXPECT_TRUE(of_responses[0].response);
  EXPECT_TRUE(of_responses[0].before_base);
}

TEST_F(ByHand, AQueryIsAnEvent) {
  engine(1).note_query(false, qpn_of(pair, 1), 7, pair.now);
  engine(1).note_query(true, qpn_of(pair, 1), 3, pair.now);
  std::vector<trace::EventRecord> records;
  (void)trace::read_events(journals[1].ring, journals[1].read, records);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].type, trace::EventType::kGapsQueried);
  EXPECT_EQ(records[0].values[0], 7u);
  EXPECT_EQ(records[1].type, trace::EventType::kDuplicatesQueried);
  EXPECT_EQ(records[1].values[0], 3u);
}

TEST_F(Manage, ListsWhatThereIs) {
  EXPECT_THAT(engine().queue_pair_numbers(), testing::ElementsAre(qpn()));
  const auto queues = engine().completion_queue_reports();
  ASSERT_EQ(queues.size(), 2u);
  EXPECT_EQ(queues[0].entries, pair.options.cq_entries);
  const auto regions = engine().memory_regions();
  ASSERT_EQ(regions.size(), 1u);
  EXPECT_EQ(regions[0].key, pair.side[1].key);
}

}  // namespace
}  // namespace brdma::test
