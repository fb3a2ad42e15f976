// The requester's recovery, one rule a test. Side 1 is a whole engine where its answers matter, and paused where the
// test answers by hand.
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <cerrno>

#include "support/two_engines.h"
#include "wire/control.h"

namespace brdma::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Side 0 sends, side 1 is paused and its packets are made here.
struct HandPlayed {
  explicit HandPlayed(PairOptions options = {}) : pair(options) {
    pair.paused[1] = true;
    pair.wire.clear();
  }
  wire::Bth bth(wire::Control which, std::uint32_t psn) const {
    wire::Bth made;
    made.opcode = static_cast<std::uint8_t>(which);
    made.dest_qpn = pair.side[0].engine->qp_num(pair.side[0].qp);
    made.psn = Psn{psn};
    return made;
  }
  std::uint32_t peer_qpn() const { return pair.side[1].engine->qp_num(pair.side[1].qp); }
  void control(const wire::Bth& header, ConstBytes body) {
    std::vector<std::byte> bytes(wire::kBthSize + body.size() + wire::kIcrcSize);
    wire::emit_bth(header, bytes.data());
    std::copy(body.begin(), body.end(), bytes.begin() + wire::kBthSize);
    pair.sign(1, bytes);
    pair.inject(0, bytes);
  }
  struct Gap {
    std::uint32_t start, length;
  };
  void ffm(std::uint32_t serial, std::uint32_t base, std::uint32_t highest, const std::vector<Gap>& gaps) {
    std::vector<std::byte> listed(gaps.size() * wire::kFfmGapSize);
    for (std::size_t i = 0; i < gaps.size(); ++i) {
      wire::emit_ffm_gap({Psn{gaps[i].start}, gaps[i].length}, listed.data() + i * wire::kFfmGapSize);
    }
    wire::Ffm body;
    body.source_qpn = peer_qpn();
    body.highest = Psn{highest};
    body.cause = 1;
    body.base = Psn{base};
    body.serial = serial;
    body.gap_count = static_cast<std::uint16_t>(gaps.size());
    body.gaps = listed;
    std::byte out[1024];
    const std::size_t size = wire::emit_ffm(body, out);
    control(bth(wire::Control::kFfm, gaps[0].start), ConstBytes{out, size});
  }
  struct AckFields {
    std::uint32_t base;
    std::vector<std::uint32_t> arrived = {};  // PSNs beyond the base
    std::uint8_t syndrome = wire::kSyndromeAck;
    std::uint32_t credit_packets = 256, credit_bytes = 1u << 20;
    std::optional<Instant> echo = {};
  };
  void ack(const AckFields& fields) {
    wire::BitmapAck body;
    body.source_qpn = peer_qpn();
    body.base = Psn{fields.base};
    body.highest = Psn{fields.arrived.empty() ? fields.base - 1 : fields.arrived.back()};
    body.syndrome = fields.syndrome;
    body.credit_packets = fields.credit_packets;
    body.credit_bytes = fields.credit_bytes;
    if (fields.echo) {
      body.echo_valid = true;
      body.ts_echo = static_cast<std::uint64_t>(fields.echo->ns());
    }
    std::vector<std::byte> bits(512);
    if (!fields.arrived.empty()) {
      body.bit_count = static_cast<std::uint16_t>(fields.arrived.back() - fields.base + 1);
      for (const std::uint32_t psn : fields.arrived) {
        const std::uint32_t bit = psn - fields.base;
        bits[bit / 8] |= std::byte(0x80 >> (bit % 8));
      }
    }
    body.bits = ConstBytes{bits}.first(wire::bitmap_bytes(body.bit_count));
    std::byte out[1024];
    const std::size_t size = wire::emit_bitmap_ack(body, out);
    control(bth(wire::Control::kBitmapAck, fields.base), ConstBytes{out, size});
  }
  void aeth(std::uint32_t psn, std::uint8_t syndrome) {
    wire::Packet packet;
    packet.op = wire::RcOp::kAcknowledge;
    packet.bth = bth(wire::Control::kCaps, psn);
    packet.bth.opcode = wire::opcode_of(packet.op, false);
    packet.aeth.syndrome = syndrome;
    pair.inject(0, pair.make(1, packet));
  }
  // PSNs that side 0 has sent since the last call.
  std::vector<std::uint32_t> sent() {
    std::vector<std::uint32_t> psns;
    for (const Sent& each : pair.wire) {
      if (each.from == 0 && each.data()) psns.push_back(each.psn());
    }
    pair.wire.clear();
    return psns;
  }
  // `packets` full packets of one WRITE leave: PSN 1000 ...
  void send(std::uint32_t packets, std::uint64_t wr_id = 1) {
    ASSERT_TRUE(pair.post(0, pair.write(0, 0, packets * 1024, wr_id)).ok());
    pair.round();
  }
  [[nodiscard]] std::uint64_t count(Counter counter) const { return pair.side[0].count(counter); }

  TwoEngines pair;
};

class ByHand : public testing::Test, public HandPlayed {};

TEST_F(ByHand, AnFfmResendsWhatItNamesAndNothingElse) {
  send(16);
  EXPECT_EQ(sent().size(), 16u);
  ffm(0, 1003, 1012, {{1003, 1}});
  EXPECT_THAT(sent(), ElementsAre(1003));
  EXPECT_EQ(count(Counter::kRetransmittedFfm), 1u);
  ack({.base = 1016});
  EXPECT_EQ(pair.poll(0).size(), 1u);
  EXPECT_EQ(pair.story({"entry psn=1003"}),
            "0 entry psn=1003 sent-unacked -> retransmit-pending\n"
            "0 entry psn=1003 retransmit-pending -> retransmitted-unacked\n"
            "0 entry psn=1003 retransmitted-unacked -> acked\n");
}

TEST_F(ByHand, GapsOfSeveralFfmsLeaveInOneBatch) {
  send(30);
  sent();
  ffm(0, 1003, 1029, {{1003, 2}, {1010, 1}, {1020, 3}});
  std::size_t batch = 0;
  for (const Sent& each : pair.wire) {
    EXPECT_TRUE(batch == 0 || each.batch == batch);
    batch = each.batch;
    EXPECT_TRUE(each.packet().bxth.retransmitted);
  }
  EXPECT_THAT(sent(), ElementsAre(1003, 1004, 1010, 1020, 1021, 1022));
}

TEST_F(ByHand, SuppressedAcknowledgedPacket) {
  send(16);
  ack({.base = 1003, .arrived = {1004, 1005}});
  sent();
  ffm(0, 1000, 1006, {{1004, 2}, {1000, 2}});
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(count(Counter::kFfmSuppressed), 2u);
}

TEST_F(ByHand, SuppressedDuplicateAndStaleFfm) {
  send(16);
  sent();
  ffm(7, 1003, 1012, {{1003, 1}});
  EXPECT_THAT(sent(), ElementsAre(1003));
  ffm(7, 1003, 1012, {{1003, 1}});
  ffm(6, 1003, 1012, {{1005, 1}, {1007, 1}});
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(count(Counter::kFfmSuppressed), 3u);
  ffm(8, 1003, 1012, {{1005, 1}});
  EXPECT_THAT(sent(), ElementsAre(1005));
}

TEST_F(ByHand, SuppressedWithinTheResendInterval) {
  send(16);
  sent();
  ffm(0, 1003, 1012, {{1003, 1}});
  EXPECT_THAT(sent(), ElementsAre(1003));
  pair.run_for(49_us);
  ffm(1, 1003, 1012, {{1003, 1}});
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(count(Counter::kFfmSuppressed), 1u);
  pair.run_for(2_us);
  ffm(2, 1003, 1012, {{1003, 1}});
  EXPECT_THAT(sent(), ElementsAre(1003));
}

TEST_F(ByHand, AnFfmForWhatWasNeverSentDoesNothing) {
  send(4);
  sent();
  ffm(0, 1004, 1100, {{1004, 90}});
  ffm(1, 900, 1003, {{900, 5}});
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(count(Counter::kFfmSuppressed), 2u);
}

TEST_F(ByHand, AnAcknowledgementOfWhatWasNeverSentIsRefused) {
  send(4);
  ack({.base = 1005});
  ack({.base = 1000, .arrived = {1004}});
  EXPECT_EQ(pair.side[0].count(DropReason::kBadControl), 2u);
  ack({.base = 1002});
  ack({.base = 1001});
  EXPECT_EQ(pair.side[0].count(DropReason::kStaleResponse), 1u);
  aeth(1004, wire::kSyndromeAck);
  aeth(999, wire::kSyndromeAck);
  EXPECT_EQ(pair.side[0].count(DropReason::kStaleResponse), 3u);
  EXPECT_TRUE(pair.poll(0).empty());
}

TEST_F(ByHand, BitsBeyondTheBaseCompleteNothing) {
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 1024, 1)).ok());
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 1024, 2)).ok());
  pair.round();
  ack({.base = 1000, .arrived = {1001}});
  EXPECT_TRUE(pair.poll(0).empty());
  ack({.base = 1001});
  EXPECT_EQ(pair.poll(0).size(), 1u) << "1001 arrived, but was not executed";
  ack({.base = 1002});
  EXPECT_EQ(pair.poll(0).size(), 1u);
}

TEST_F(ByHand, HolesOfAnAcknowledgementWaitForTheFfmFirst) {
  send(16);
  sent();
  ack({.base = 1003, .arrived = {1004, 1005, 1006, 1015}});
  EXPECT_TRUE(sent().empty());
  pair.run_for(1_ms);
  sent();  // probe and timeout have had their say
  ack({.base = 1003, .arrived = {1004, 1005, 1006, 1015}});
  EXPECT_THAT(sent(), testing::Contains(1007));
  EXPECT_GT(count(Counter::kRetransmittedAck), 0u);
}

TEST_F(ByHand, ThePeersCreditIsNeverExceededAndZeroIsProbed) {
  ack({.base = 1000, .credit_packets = 4, .credit_bytes = 1u << 20});
  send(16);
  EXPECT_EQ(sent().size(), 4u);
  EXPECT_EQ(count(Counter::kCreditStalls), 1u);
  ack({.base = 1002, .credit_packets = 4, .credit_bytes = 3 * 1024});
  EXPECT_EQ(sent().size(), 1u) << "two more packets, but bytes for one";
  ack({.base = 1005, .credit_packets = 0, .credit_bytes = 0});
  EXPECT_TRUE(sent().empty());
  pair.run_for(30_ms);
  EXPECT_THAT(sent(), testing::SizeIs(testing::Ge(1u))) << "no acknowledgement can come, so a packet asks";
}

TEST_F(ByHand, TheProbeResendsTheTailAndAsksForAnAcknowledgement) {
  send(4);
  sent();
  pair.run_for(1999_us);  // no round trip has been measured
  EXPECT_TRUE(pair.wire.empty());
  pair.run_for(2_us);
  ASSERT_EQ(pair.wire.size(), 1u);
  EXPECT_EQ(pair.wire[0].psn(), 1003u);
  EXPECT_TRUE(pair.wire[0].bth().ack_request);
  EXPECT_EQ(count(Counter::kRetransmittedProbe), 1u);
  pair.run_for(500_us);
  EXPECT_EQ(pair.wire.size(), 1u) << "one probe a silence";
}

TEST_F(ByHand, TheTimeoutDoublesUpToTheAttributeAndSilenceIsDeath) {
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 1024, 1)).ok());
  auto quiet = pair.write(0, 0, 1024, 2);
  quiet.flags = 0;
  ASSERT_TRUE(pair.post(0, quiet).ok());
  const Instant begun = pair.now;
  pair.round();
  ASSERT_TRUE(pair.run_until_idle(10_s));
  const auto done = pair.poll(0);
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].status, CompletionStatus::kRetryExceeded);
  EXPECT_EQ(done[1].status, CompletionStatus::kFlushed) << "unsignaled, but it failed";
  EXPECT_EQ(pair.state(0), QpState::kErr);
  const Duration limit = Duration::from_ns((4096ll << 14) * 8 * 4);  // each timeout at its longest
  EXPECT_EQ((pair.now - begun).ns(), limit.ns());
  EXPECT_EQ(count(Counter::kRetryExceeded), 1u);
  EXPECT_GE(count(Counter::kLocalAckTimeout), 8u);
}

// Only the two that the timeout sends at once, and a congestion window as large as before.
TEST_F(ByHand, ATimeoutThatWasNotNeededHasNoConsequence) {
  send(16);
  const Instant sent_at = pair.now;
  sent();
  const auto window = pair.side[0].qp->requester().snapshot().congestion_bytes;
  pair.run_for(6_ms);
  EXPECT_EQ(count(Counter::kLocalAckTimeout), 1u);
  EXPECT_THAT(sent(), ElementsAre(1015, 1000, 1015)) << "probe, timeout";
  ack({.base = 1008, .echo = sent_at});  // caused by a packet that left before: it was late, no more
  ack({.base = 1008, .arrived = {1015}, .echo = pair.now - 100_us});
  EXPECT_TRUE(sent().empty()) << "the receiver will say what is missing";
  EXPECT_EQ(pair.side[0].qp->requester().snapshot().congestion_bytes, window);
}

// Nothing of what was sent before it has arrived.
TEST_F(ByHand, ATimeoutThatWasNeededHalvesTheCongestionWindow) {
  send(16);
  sent();
  const auto window = pair.side[0].qp->requester().snapshot().congestion_bytes;
  pair.run_for(6_ms);
  sent();
  ack({.base = 1001, .arrived = {1015}, .echo = pair.now - 100_us});  // what the timeout sent
  EXPECT_EQ(sent().size(), 14u);
  EXPECT_EQ(pair.side[0].qp->requester().snapshot().congestion_bytes, window / 2);
}

TEST_F(ByHand, NaksBecomeTheStatusOfTheirWorkRequest) {
  const std::pair<std::uint8_t, CompletionStatus> cases[] = {
      {wire::kSyndromeNakInvalidRequest, CompletionStatus::kRemoteInvalidRequest},
      {wire::kSyndromeNakRemoteAccess, CompletionStatus::kRemoteAccessError},
      {wire::kSyndromeNakRemoteOperation, CompletionStatus::kRemoteOperationError}};
  for (const auto& [syndrome, status] : cases) {
    for (const bool bitmap : {true, false}) {
      HandPlayed hand;
      for (std::uint64_t n = 0; n < 3; ++n) ASSERT_TRUE(hand.pair.post(0, hand.pair.write(0, 0, 1024, n)).ok());
      hand.pair.round();
      if (bitmap) {
        hand.ack({.base = 1001, .syndrome = syndrome});
      } else {
        hand.aeth(1001, syndrome);
      }
      const auto done = hand.pair.poll(0);
      ASSERT_EQ(done.size(), 3u);
      EXPECT_EQ(done[0].status, CompletionStatus::kSuccess);
      EXPECT_EQ(done[1].status, status);
      EXPECT_EQ(done[2].status, CompletionStatus::kFlushed);
      EXPECT_EQ(hand.pair.state(0), QpState::kErr);
    }
  }
}

// --- receiver not ready ---

TEST(ReceiverNotReady, IsWaitedForAndThenEverythingIsTaken) {
  for (const RecoveryMode mode : {RecoveryMode::kBitmap, RecoveryMode::kStandard, RecoveryMode::kGoBackN}) {
    PairOptions options;
    options.mode[0] = options.mode[1] = mode;
    options.min_rnr_timer = 14;  // 1.28 ms
    TwoEngines pair{options};
    pair.fill(0, 1);
    for (std::uint64_t n = 0; n < 4; ++n) {
      ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, n * 3000, 3000, n)).ok());
    }
    pair.run_for(1_ms);
    EXPECT_EQ(pair.side[0].count(Counter::kReceivedRnr), 1u);
    EXPECT_TRUE(pair.poll(0).empty());
    pair.wire.clear();
    pair.run_for(100_us);
    EXPECT_EQ(pair.sent_by(0, [](const Sent& s) { return s.data(); }), 0u) << "nothing leaves during the wait";
    for (std::uint64_t n = 0; n < 4; ++n) ASSERT_TRUE(pair.post_receive(1, n * 3000, 3000, n).ok());
    ASSERT_TRUE(pair.run_until_idle());
    EXPECT_EQ(pair.poll(0).size(), 4u);
    EXPECT_EQ(pair.poll_receives(1).size(), 4u);
    EXPECT_TRUE(pair.same(0, 12'000));
  }
}

TEST(ReceiverNotReady, RetriesAreCountedAndSevenIsForEver) {
  for (const unsigned retries : {0u, 3u, 7u}) {
    PairOptions options;
    options.rnr_retry = static_cast<std::uint8_t>(retries);
    options.min_rnr_timer = 1;
    TwoEngines pair{options};
    ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, 0, 100, 1)).ok());
    ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, 0, 100, 2)).ok());
    pair.run_for(200_ms);
    const auto done = pair.poll(0);
    if (retries == 7) {
      EXPECT_TRUE(done.empty());
      EXPECT_GT(pair.side[0].count(Counter::kReceivedRnr), 100u);
      continue;
    }
    ASSERT_EQ(done.size(), 2u) << retries;
    EXPECT_EQ(done[0].status, CompletionStatus::kRnrRetryExceeded);
    EXPECT_EQ(done[1].status, CompletionStatus::kFlushed);
    EXPECT_EQ(pair.side[0].count(Counter::kReceivedRnr), retries + 1u);
    EXPECT_EQ(pair.side[0].count(Counter::kRnrRetryExceeded), 1u);
  }
}

TEST_F(ByHand, WhatAReceiverThatWasNotReadyThrewAwayIsSentAgain) {
  for (std::uint64_t n = 0; n < 5; ++n) {
    ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, 0, 100, n)).ok());
  }
  pair.round();
  ack({.base = 1000, .arrived = {1001, 1002, 1004}});
  sent();
  ack({.base = 1001,
       .arrived = {1003},
       .syndrome = std::uint8_t{wire::kSyndromeRnr + 1}});  // of 1001, 1002 and 1004 no word
  EXPECT_TRUE(sent().empty());
  pair.run_for(11_us);
  EXPECT_THAT(sent(), ElementsAre(1001)) << "what was refused, and no more before it is taken";
  ack({.base = 1002, .arrived = {1003}});
  EXPECT_THAT(sent(), ElementsAre(1002)) << "of two";
  ack({.base = 1004});
  EXPECT_THAT(sent(), ElementsAre(1004));
}

// tests seed 5425 of sim_worlds: what was refused has been taken, but that acknowledgement was lost.
TEST_F(ByHand, ATrialAfterARefusalEndsWithoutItsAcknowledgement) {
  for (const bool feedback : {true, false}) {
    HandPlayed hand;
    for (std::uint64_t n = 0; n < 5; ++n) {
      ASSERT_TRUE(hand.pair.post(0, hand.pair.request(0, WorkOpcode::kSend, 0, 100, n)).ok());
    }
    hand.pair.round();
    hand.ack({.base = 1001, .syndrome = std::uint8_t{wire::kSyndromeRnr + 1}});
    hand.sent();
    hand.pair.run_for(11_us);
    EXPECT_THAT(hand.sent(), ElementsAre(1001));
    if (feedback) {
      hand.ffm(0, 1003, 1004, {{1003, 1}});
    } else {
      hand.pair.run_for(20_ms);
    }
    EXPECT_THAT(hand.sent(), testing::Contains(1003));
  }
}

// --- standard peers ---

class Standard : public testing::Test, public HandPlayed {
 protected:
  static PairOptions standard() {
    PairOptions options;
    options.mode[0] = options.mode[1] = RecoveryMode::kStandard;
    return options;
  }
  Standard() : HandPlayed(standard()) {}
};

TEST_F(Standard, ASequenceNakGoesBackToItsPsn) {
  send(8);
  sent();
  aeth(1003, wire::kSyndromeNakSequence);
  EXPECT_THAT(sent(), ElementsAre(1003, 1004, 1005, 1006, 1007));
  aeth(1003, wire::kSyndromeNakSequence);
  EXPECT_TRUE(sent().empty()) << "just done";
  EXPECT_EQ(count(Counter::kPacketSeqErr), 2u);
  EXPECT_EQ(count(Counter::kRetransmittedNak), 5u);
}

TEST_F(Standard, TheTimeoutGoesBackToTheOldestRetryCountTimes) {
  const Instant begun = pair.now;
  send(3);
  sent();
  aeth(1000, wire::kSyndromeAck);
  pair.run_for(Duration::from_ns(4096ll << 14) + 1_us);
  EXPECT_THAT(sent(), ElementsAre(1001, 1002));
  ASSERT_TRUE(pair.run_until_idle(10_s));
  EXPECT_EQ(sent().size(), 6u * 2);
  EXPECT_EQ(pair.poll(0).at(0).status, CompletionStatus::kRetryExceeded);
  EXPECT_EQ((pair.now - begun).ns(), (4096ll << 14) * 8);
  EXPECT_EQ(count(Counter::kLocalAckTimeout), 7u);
}

TEST(StandardTimeout, ZeroNeverExpires) {
  PairOptions options;
  options.mode[0] = options.mode[1] = RecoveryMode::kStandard;
  options.timeout = 0;
  TwoEngines pair{options};
  pair.paused[1] = true;
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 100, 1)).ok());
  pair.round();
  EXPECT_FALSE(pair.side[0].engine->next_timeout().has_value());
}

TEST_F(Standard, LongMessagesAskForAcknowledgementsInside) {
  send(200);
  const auto packets = pair.wire;
  EXPECT_EQ(packets.size(), 64u) << "the window towards a peer that states no credit";
  std::size_t asked = 0;
  for (const Sent& each : packets) asked += each.bth().ack_request ? 1 : 0;
  EXPECT_EQ(asked, 4u);
  EXPECT_TRUE(packets.back().bth().ack_request);
}

TEST_F(ByHand, ARegionThatIsGoneAtRetransmissionIsALocalProtectionError) {
  send(16);
  ASSERT_TRUE(pair.side[0].engine->deregister_memory(pair.side[0].region).ok());
  ffm(0, 1003, 1012, {{1003, 1}});
  const auto done = pair.poll(0);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kLocalProtectionError);
}

}  // namespace
}  // namespace brdma::test
