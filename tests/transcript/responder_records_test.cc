// A receiver's records of gaps and duplicates, and its reports (tests design BR-4, BR-10, BR-22:
// duplicate statistics, management).
#include <set>

#include "support/responder_script.h"

namespace brdma {
namespace {

using Script = test::ResponderScript;

wire::Packet on_path(wire::Packet packet, std::uint8_t path) {
  packet.bxth.path = path;
  return packet;
}

TEST(GapRecords, HaveEveryField) {
  Script rx;
  rx.at(0_us).gets(rx.data(1000));
  rx.at(5_us).gets(on_path(rx.data(1002), 3));
  rx.at(20_us).gets(rx.data(1005));
  const auto waiting = rx.responder->open_gaps(Instant{} + 30_us);
  ASSERT_EQ(waiting.size(), 2u);
  EXPECT_EQ(waiting[0].start, Psn{1001});
  EXPECT_EQ(waiting[0].length, 1u);
  EXPECT_EQ(waiting[0].first_seen, Instant{} + 5_us);
  EXPECT_EQ(waiting[0].path, 3);
  EXPECT_EQ(waiting[0].depth, 4u);
  EXPECT_FALSE(waiting[0].promoted);
  EXPECT_TRUE(waiting[0].stalls);
  EXPECT_EQ(waiting[0].stalled, 25_us);
  EXPECT_EQ(waiting[0].feedbacks, 0u);
  EXPECT_EQ(waiting[1].start, Psn{1003});
  EXPECT_EQ(waiting[1].length, 2u);
  EXPECT_EQ(waiting[1].depth, 2u);
  EXPECT_FALSE(waiting[1].stalls) << "only the gap at the base";
  EXPECT_EQ(waiting[1].stalled, Duration{});

  rx.at(55_us + kTick).reports({"ffm 1001+1 base=1001 highest=1005 repeat=0"});
  const auto reported = rx.responder->open_gaps(Instant{} + 56_us);
  ASSERT_EQ(reported.size(), 2u);
  EXPECT_TRUE(reported[0].promoted);
  EXPECT_EQ(reported[0].cause, recovery::LossCause::kAge);
  EXPECT_EQ(reported[0].feedbacks, 1u);
  EXPECT_EQ(reported[0].last_feedback, Instant{} + 55_us + kTick);
  EXPECT_FALSE(reported[1].promoted);
  rx.gets(rx.data(1001)).gets(rx.data(1003)).gets(rx.data(1004));
  EXPECT_TRUE(rx.responder->open_gaps(Instant{} + 60_us).empty());
}

// Two gaps judged at different times and for different reasons travel in one message, each with its own status.
TEST(Feedback, EachGapHasItsStatus) {
  Script rx;
  for (std::uint32_t psn = 1001; psn <= 1009; ++psn) rx.at(0_us).gets(rx.data(psn));
  rx.reports({"ffm 1000+1 base=1000 highest=1009 repeat=0"});
  EXPECT_EQ(rx.last_ffm.cause, 1) << "1000 by its depth";
  EXPECT_EQ(rx.last_ffm.promoted, 1);
  rx.at(450_us - kTick).gets(rx.data(1011)).forget();
  // 1010 gets too old at the instant at which 1000 is due again.
  rx.at(500_us).reports({"ffm 1000+1 1010+1 base=1000 highest=1011 repeat=1"});
  ASSERT_EQ(rx.last_ffm_gaps.size(), 2u);
  EXPECT_EQ(rx.last_ffm_gaps[0], (wire::FfmGap{Psn{1000}, 1, /*cause=*/1, /*repeat=*/1}));
  EXPECT_EQ(rx.last_ffm_gaps[1], (wire::FfmGap{Psn{1010}, 1, /*cause=*/2, /*repeat=*/0}));
  EXPECT_EQ(rx.last_ffm.promoted, 2);
}

TEST(Duplicates, AreKeptWithPsnTimeQueuePairAndPath) {
  Script rx;
  rx.at(0_us).gets(rx.data(1000)).gets(rx.data(1002));
  rx.at(3_us).gets(on_path(rx.data(1002), 2));
  rx.at(7_us).gets(on_path(rx.data(1000), 1));
  const qp::DuplicateLog& log = rx.environment.duplicates;
  ASSERT_EQ(log.size(), 2u);
  EXPECT_EQ(log[0].psn, Psn{1000});
  EXPECT_EQ(log[0].arrived, Instant{} + 7_us);
  EXPECT_EQ(log[0].qpn, rx.identity.qpn);
  EXPECT_EQ(log[0].path, 1);
  EXPECT_TRUE(log[0].before_base);
  EXPECT_EQ(log[1].psn, Psn{1002});
  EXPECT_EQ(log[1].path, 2);
  EXPECT_FALSE(log[1].before_base);
  rx.counts(Counter::kDuplicateRequest, 2);
}

TEST(Duplicates, OnlyTheLastAreKept) {
  qp::DuplicateLog log;
  EXPECT_EQ(log.size(), 0u);
  for (std::uint32_t i = 0; i < 200; ++i) log.record({Instant{}, /*qpn=*/2, Psn{i}, /*path=*/0, /*before_base=*/true});
  EXPECT_EQ(log.size(), qp::DuplicateLog::kRecords);
  EXPECT_EQ(log.seen(), 200u);
  EXPECT_EQ(log[0].psn, Psn{199});
  EXPECT_EQ(log[63].psn, Psn{136});
}

// --- acknowledgements of a window that is longer than their bits ---

test::ScriptOptions long_window() {
  test::ScriptOptions options;
  options.recovery.window_packets = 1u << 20;
  options.recovery.depth_max = 1u << 20;
  options.recovery.age_max = options.recovery.stall_max = 1_s;
  return options;
}

TEST(AckRanges, TellWhatLiesBeyondTheBits) {
  Script rx{long_window()};
  rx.identity.peer_reads_ranges = true;
  const std::uint32_t bits = 512 / 2 * 16;
  rx.at(0_us).gets(rx.data(1001)).gets(rx.data(1000 + 5000)).gets(rx.asking(rx.data(1000 + 9000))).forget();
  EXPECT_LE(rx.last_ack.bit_count, bits);
  ASSERT_EQ(rx.last_ack_ranges.size(), 2u);
  EXPECT_EQ(rx.last_ack_ranges[0], (wire::AckRange{Psn{6000}, 1}));
  EXPECT_EQ(rx.last_ack_ranges[1], (wire::AckRange{Psn{10000}, 1}));
  rx.counts(Counter::kAckRangesSent, 2);
}

TEST(AckRanges, AreSentOnlyToPeersThatReadThem) {
  Script rx{long_window()};
  rx.at(0_us).gets(rx.data(1001)).gets(rx.asking(rx.data(1000 + 9000))).forget();
  EXPECT_EQ(rx.last_ack_ranges.size(), 0u);
}

// All reported packets arrived; and after some acknowledgements all arrived packets were reported, including holes
// filled late.
TEST(AckRanges, ReportAllInTurnAndOnlyArrivedPackets) {
  Script rx{long_window()};
  rx.identity.peer_reads_ranges = true;
  std::set<std::uint32_t> arrived, reported;
  const auto get = [&](std::uint32_t psn) {
    if (arrived.insert(psn).second) rx.gets(rx.asking(rx.data(psn))).forget();
    for (const auto& range : rx.last_ack_ranges) {
      for (std::uint32_t i = 0; i < range.length; ++i) {
        ASSERT_TRUE(arrived.contains((range.start + i).value()));
        reported.insert((range.start + i).value());
      }
    }
  };
  rx.at(0_us);
  for (std::uint32_t i = 0; i < 200; ++i) get(9000 + 3 * i);  // more runs than an acknowledgement holds
  for (std::uint32_t i = 0; i < 200; i += 7) get(9001 + 3 * i);
  for (std::uint32_t i = 0; i < 40; ++i) get(20'000 + i);
  EXPECT_EQ(reported, arrived);
}

}  // namespace
}  // namespace brdma
