// Marks of ECN and congestion notification packets (IBTA annex A17), between two engines and byte by byte.
#include "support/two_engines.h"

namespace brdma::test {
namespace {

PairOptions dcqcn() {
  PairOptions options;
  options.recovery.congestion.control = CongestionControl::kDcqcn;
  return options;
}

bool is_cnp(const Sent& sent) { return sent.bth().opcode == wire::kCnpOpcode; }

TEST(Cnp, MarkedPacketsMakeOneInFiftyMicroseconds) {
  for (const RecoveryMode mode : {RecoveryMode::kBitmap, RecoveryMode::kStandard}) {
    PairOptions options = dcqcn();
    options.mode[0] = options.mode[1] = mode;
    TwoEngines pair(options);
    pair.traffic_class = 3;
    for (std::uint64_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(pair.post(0, pair.write(0, 0, 8'192, i)).ok());
      pair.run_for(30_us);
    }
    EXPECT_TRUE(pair.run_until_idle());
    const std::uint64_t marked = pair.side[1].count(Counter::kMarkedPackets);
    EXPECT_EQ(marked, 32u) << "requests, and no acknowledgements";
    EXPECT_EQ(pair.sent_by(1, is_cnp), 2u);
    EXPECT_EQ(pair.side[1].count(Counter::kCnpSent), 2u);
    EXPECT_EQ(pair.side[0].count(Counter::kCnpHandled), 2u);
    EXPECT_LT(pair.side[0].qp->requester().snapshot().rate->bps(), 10'000'000'000u);
    EXPECT_EQ(pair.side[0].count(Counter::kReceivedPackets), pair.accepted_and_dropped(0));
  }
}

// One of a single packet has a fast path on arrival, from the second on (qp/receive/single_write.cc).
TEST(Cnp, AMarkedWriteOfOnePacketIsSeen) {
  TwoEngines pair(dcqcn());
  pair.traffic_class = 3;
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(pair.post(0, pair.write(0, 0, 64, i)).ok());
    EXPECT_TRUE(pair.run_until_idle());
  }
  EXPECT_EQ(pair.side[1].count(Counter::kMarkedPackets), 3u);
}

TEST(Cnp, MarkedAnswersTellTheResponder) {
  TwoEngines pair(dcqcn());
  pair.traffic_class = 3;
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 0, 8'192, 1)).ok());
  EXPECT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.side[0].count(Counter::kMarkedPackets), 8u);
  EXPECT_EQ(pair.side[1].count(Counter::kCnpHandled), 1u);
}

// In bitmap mode with the receiver's token in bytes that the standard ignores.
class CnpBytes : public testing::TestWithParam<RecoveryMode> {};

TEST_P(CnpBytes, AreTheStandards) {
  PairOptions options = dcqcn();
  options.mode[0] = options.mode[1] = GetParam();
  TwoEngines pair(options);
  pair.traffic_class = 3;
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 1'024, 1)).ok());
  EXPECT_TRUE(pair.run_until_idle());
  for (const Sent& sent : pair.wire) {
    if (!is_cnp(sent)) continue;
    EXPECT_EQ(sent.bytes.size(), 32u);
    const wire::Bth bth = sent.bth();
    EXPECT_TRUE(bth.becn);
    EXPECT_FALSE(bth.fecn || bth.ack_request || bth.solicited);
    EXPECT_EQ(bth.psn.value(), 0u);
    EXPECT_EQ(bth.dest_qpn, pair.side[0].engine->qp_num(pair.side[0].qp));
    const bool bitmap = GetParam() == RecoveryMode::kBitmap;
    EXPECT_EQ(load_be64(&sent.bytes[12]), bitmap ? pair.side[0].qp->identity().own_token : 0);
    EXPECT_EQ(load_be64(&sent.bytes[20]), 0u);
    return;
  }
  FAIL() << "none was sent";
}

INSTANTIATE_TEST_SUITE_P(Modes, CnpBytes, testing::Values(RecoveryMode::kBitmap, RecoveryMode::kStandard));

TEST(Cnp, WhoHasAnotherControlIgnoresThem) {
  TwoEngines pair;
  pair.traffic_class = 3;
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 1'024, 1)).ok());
  EXPECT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.side[0].count(Counter::kCnpIgnored), 1u);
  EXPECT_EQ(pair.side[0].count(Counter::kCnpHandled), 0u);
}

TEST(Cnp, WithoutAnIntervalNoneIsSent) {
  PairOptions options = dcqcn();
  options.recovery.congestion.cnp_interval = Duration{};
  TwoEngines pair(options);
  pair.traffic_class = 3;
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 8'192, 1)).ok());
  EXPECT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.side[1].count(Counter::kMarkedPackets), 8u);
  EXPECT_EQ(pair.side[1].count(Counter::kCnpSent), 0u);
}

TEST(Cnp, TheFieldOfEcnIsSetAsChosen) {
  struct Case {
    CongestionControl control;
    EcnField ecn;
    std::uint8_t expected;  // of traffic class 0x21
  };
  for (const Case& each :
       {Case{CongestionControl::kWindow, EcnField::kAuto, 0x21}, Case{CongestionControl::kDcqcn, EcnField::kAuto, 0x22},
        Case{CongestionControl::kDcqcn, EcnField::kOff, 0x20}, Case{CongestionControl::kWindow, EcnField::kEct0, 0x22},
        Case{CongestionControl::kTimely, EcnField::kEct1, 0x21}}) {
    PairOptions options;
    options.recovery.congestion.control = each.control;
    options.recovery.congestion.ecn = each.ecn;
    options.traffic_class = 0x21;
    TwoEngines pair(options);
    ASSERT_TRUE(pair.post(0, pair.write(0, 0, 1'024, 1)).ok());
    pair.round();
    EXPECT_EQ(pair.wire.back().traffic_class, each.expected);
  }
}

}  // namespace
}  // namespace brdma::test
