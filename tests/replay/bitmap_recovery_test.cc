// tests design BR-43; and the rules on gaps, tolerance, feedback and reaction (BR-9 to BR-28), on a pair of
// whole engines. Packets of 1024 bytes leave at 10 Gbit/s, 0.9 us apart; each side's trace is written from the text.
#include <gtest/gtest.h>

#include "support/engine_pair.h"
#include "trace/retransmissions.h"
#include "wire/opcode.h"

namespace brdma::test {
namespace {

constexpr auto kFfm = static_cast<std::uint8_t>(wire::Control::kFfm);
constexpr auto kBitmapAck = static_cast<std::uint8_t>(wire::Control::kBitmapAck);

std::uint64_t retransmitted(EnginePair& pair) {
  std::uint64_t total = 0;
  for (const Counter c : kRetransmissions) {
    total += pair.count(pair.tx(), c);
  }
  return total;
}

void expect_delivered(EnginePair& pair, std::uint32_t packets) {
  EXPECT_TRUE(pair.same_bytes(packets * 1024)) << pair.full_trace();
  const auto completions = pair.completions(pair.tx());
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kSuccess);
}

TEST(BitmapRecoveryReplay, LostPsnIsNamedResentAndAcknowledged) {
  EnginePair pair{{.seed = 1, .start_psn = Psn{1000}, .one_way_delay = 5_us}};
  pair.agree();
  pair.drop_copy(Psn{1003}, /*copy=*/1);
  pair.post_packets(16);
  ASSERT_TRUE(pair.run_until_idle(/*at_most=*/1000_us)) << pair.full_trace();
  // 1012 makes the depth 9: more than 8.
  EXPECT_EQ(pair.story({"gap", "ffm", "entry:1003"}), R"(
rx gap_seen start=1003 length=1
rx gap_promoted start=1003 length=1 cause=depth
rx ffm_sent start=1003 length=1 highest=1012 gaps=1
tx ffm_received start=1003 length=1 gaps=1
tx entry psn=1003 sent-unacked -> retransmit-pending
tx entry psn=1003 retransmit-pending -> retransmitted-unacked
rx gap_closed start=1003 base=1016
tx entry psn=1003 retransmitted-unacked -> acked
)") << pair.full_trace();
  expect_delivered(pair, 16);
  EXPECT_EQ(pair.count(pair.tx(), Counter::kRetransmittedFfm), 1u);
  EXPECT_EQ(retransmitted(pair), 1u) << "that packet and no other";
  EXPECT_EQ(pair.count(pair.rx(), Counter::kDuplicateRequest), 0u);
}

TEST(BitmapRecoveryReplay, TheSameOverTheWrapOfPsns) {
  EnginePair pair{{.start_psn = Psn{0xFFFFFC}}};
  pair.agree();
  pair.drop_copy(Psn{0xFFFFFF}, 1);
  pair.post_packets(16);
  ASSERT_TRUE(pair.run_until_idle(1000_us)) << pair.full_trace();
  EXPECT_EQ(pair.story({"gap", "ffm", "entry:16777215"}), R"(
rx gap_seen start=16777215 length=1
rx gap_promoted start=16777215 length=1 cause=depth
rx ffm_sent start=16777215 length=1 highest=8 gaps=1
tx ffm_received start=16777215 length=1 gaps=1
tx entry psn=16777215 sent-unacked -> retransmit-pending
tx entry psn=16777215 retransmit-pending -> retransmitted-unacked
rx gap_closed start=16777215 base=12
tx entry psn=16777215 retransmitted-unacked -> acked
)") << pair.full_trace();
  expect_delivered(pair, 16);
}

// Eight later packets are within the limit: reordering.
TEST(BitmapRecoveryReplay, LateByEightPacketsIsReordering) {
  EnginePair pair;
  pair.agree();
  pair.delay_packet(Psn{1003}, 10300_ns);  // lands behind 1011, before 1012
  pair.post_packets(16);
  ASSERT_TRUE(pair.run_until_idle(1000_us)) << pair.full_trace();
  EXPECT_EQ(pair.story({"gap", "ffm", "entry:1003"}), R"(
rx gap_seen start=1003 length=1
rx gap_closed start=1003 base=1012
tx entry psn=1003 sent-unacked -> acked
)") << pair.full_trace();
  expect_delivered(pair, 16);
  EXPECT_EQ(retransmitted(pair), 0u);
  EXPECT_EQ(pair.count(pair.rx(), Counter::kGapsClosed), 1u);
}

// Promoted, and then the original comes: a misjudgement, counted. The retransmission is a duplicate.
TEST(BitmapRecoveryReplay, OriginalAfterPromotionIsAMisjudgement) {
  EnginePair pair;
  pair.agree();
  pair.delay_packet(Psn{1003}, 14_us);
  pair.post_packets(16);
  ASSERT_TRUE(pair.run_until_idle(1000_us)) << pair.full_trace();
  EXPECT_EQ(pair.count(pair.rx(), Counter::kMisjudgementCorrections), 1u) << pair.full_trace();
  EXPECT_EQ(pair.count(pair.rx(), Counter::kDuplicateRequest), 1u);
  EXPECT_EQ(retransmitted(pair), 1u);
  expect_delivered(pair, 16);
}

// Few later packets and nothing after them: time decides, one tick after 50 us.
TEST(BitmapRecoveryReplay, OldGapIsLossWithoutManyLaterPackets) {
  EnginePair pair{{.rx = {.stall_max = 1_ms}}};
  pair.agree();
  pair.drop_copy(Psn{1003}, 1);
  pair.post_packets(7);  // three later packets
  ASSERT_TRUE(pair.run_until_idle(1000_us)) << pair.full_trace();
  EXPECT_EQ(pair.story({"gap", "ffm", "timeout", "entry:1003"}), R"(
rx gap_seen start=1003 length=1
rx gap_promoted start=1003 length=1 cause=age
rx ffm_sent start=1003 length=1 highest=1006 gaps=1
tx ffm_received start=1003 length=1 gaps=1
tx entry psn=1003 sent-unacked -> retransmit-pending
tx entry psn=1003 retransmit-pending -> retransmitted-unacked
rx gap_closed start=1003 base=1007
tx entry psn=1003 retransmitted-unacked -> acked
)") << pair.full_trace();
  const auto& records = pair.world().trace().records();
  Instant seen, promoted;
  for (const auto& record : records) {
    if (std::holds_alternative<trace::GapSeen>(record.event)) seen = record.when;
    if (std::holds_alternative<trace::GapPromoted>(record.event)) promoted = record.when;
  }
  EXPECT_EQ(promoted - seen, 50_us + kTick);
  expect_delivered(pair, 7);
}

TEST(BitmapRecoveryReplay, SeveralGapsTravelInOneMessage) {
  EnginePair pair{{.rx = {.depth_max = 100}}};
  pair.agree();
  for (const std::uint32_t psn : {1003u, 1004u, 1007u, 1010u}) pair.drop_copy(Psn{psn}, 1);
  pair.post_packets(16);
  ASSERT_TRUE(pair.run_until_idle(1000_us)) << pair.full_trace();
  EXPECT_EQ(pair.count(pair.tx(), Counter::kRetransmittedFfm), 4u) << pair.full_trace();
  EXPECT_EQ(retransmitted(pair), 4u);
  EXPECT_LE(pair.count(pair.rx(), Counter::kFfmSent), 3u) << "aggregated, not one for each";
  EXPECT_NE(pair.story({"gap_promoted"}).find("start=1003 length=2"), std::string::npos);
  expect_delivered(pair, 16);
}

TEST(BitmapRecoveryReplay, ALostFeedbackMessageIsRepeated) {
  EnginePair pair;
  pair.agree();
  pair.drop_copy(Psn{1003}, 1);
  pair.drop_answers(kFfm, 1);
  pair.post_packets(16);
  ASSERT_TRUE(pair.run_until_idle(10_ms)) << pair.full_trace();
  EXPECT_GE(pair.count(pair.rx(), Counter::kFfmSent), 1u);
  expect_delivered(pair, 16);
  EXPECT_LE(retransmitted(pair), 2u) << pair.full_trace();
  EXPECT_LT(pair.world().now() - Instant{}, 1_s);
}

TEST(BitmapRecoveryReplay, ALostRetransmissionIsRequestedAgain) {
  EnginePair pair;
  pair.agree();
  for (const unsigned copy : {1u, 2u, 3u}) pair.drop_copy(Psn{1003}, copy);
  pair.post_packets(16);
  ASSERT_TRUE(pair.run_until_idle(20_ms)) << pair.full_trace();
  EXPECT_GE(retransmitted(pair), 3u);
  EXPECT_LE(retransmitted(pair), 5u) << pair.full_trace();
  expect_delivered(pair, 16);
}

// Nothing comes after a lost tail, so no gap can show: the probe asks, well before the retransmission timeout.
TEST(BitmapRecoveryReplay, ALostTailIsFoundByTheProbe) {
  EnginePair pair;
  pair.agree();
  for (const std::uint32_t psn : {1013u, 1014u, 1015u}) pair.drop_copy(Psn{psn}, 1);
  const Instant posted = pair.world().now();
  pair.post_packets(16);
  ASSERT_TRUE(pair.run_until_idle(10_ms)) << pair.full_trace();
  EXPECT_EQ(pair.count(pair.tx(), Counter::kRetransmittedProbe), 1u) << pair.full_trace();
  EXPECT_EQ(pair.count(pair.tx(), Counter::kLocalAckTimeout), 0u);
  EXPECT_EQ(retransmitted(pair), 3u);
  EXPECT_LT(pair.world().now() - posted, 900_us);
  expect_delivered(pair, 16);
}

TEST(BitmapRecoveryReplay, LostAcknowledgementsCostNoData) {
  EnginePair pair;
  pair.agree();
  pair.drop_answers(kBitmapAck, 2);
  pair.post_packets(16);
  // The last packet's requested acknowledgement, and the reply to the probe: the timeout is left.
  ASSERT_TRUE(pair.run_until_idle(20_ms)) << pair.full_trace();
  EXPECT_LE(retransmitted(pair), 3u) << pair.full_trace();
  expect_delivered(pair, 16);
}

}  // namespace
}  // namespace brdma::test
