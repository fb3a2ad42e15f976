// The receive path: each reason of the engine itself (not of the parser or the responder) to drop a packet, reached
// once; nothing else changes, and accepted plus all drops equals received.
#include <gmock/gmock.h>

#include <algorithm>

#include "support/two_engines.h"

namespace brdma::test {
namespace {

class Receive : public testing::Test {
 protected:
  // A WRITE of eight bytes, as side 0 would send it next.
  wire::Packet write() {
    wire::Packet p;
    p.op = wire::RcOp::kWriteOnly;
    p.bth.opcode = wire::opcode_of(p.op, false);
    p.bth.dest_qpn = pair.side[1].engine->qp_num(pair.side[1].qp);
    p.bth.psn = Psn{1000};
    p.reth = {pair.side[1].at(0), pair.side[1].key, 8};
    return p;
  }
  std::vector<std::byte> bytes(const wire::Packet& packet) { return pair.make(0, packet, payload); }
  // Injects, and expects this reason alone.
  void dropped(std::vector<std::byte> packet, DropReason reason) {
    const auto before = pair.side[1].statistics;
    pair.inject(1, std::move(packet));
    for (std::size_t i = 0; i < kDropReasonCount; ++i) {
      const auto each = static_cast<DropReason>(i);
      EXPECT_EQ(pair.side[1].count(each) - before.get(each), each == reason ? 1u : 0u) << kDropReasonNames[i];
    }
    EXPECT_EQ(pair.side[1].count(Counter::kAcceptedPackets), before.get(Counter::kAcceptedPackets));
    EXPECT_EQ(pair.accepted_and_dropped(1), pair.side[1].count(Counter::kReceivedPackets));
    EXPECT_EQ(pair.side[1].memory[0], std::byte{0});
  }

  TwoEngines pair;
  std::vector<std::byte> payload = std::vector<std::byte>(8, std::byte{0xEE});
};

TEST_F(Receive, TheRightPacketIsTaken) {
  pair.inject(1, bytes(write()));
  EXPECT_EQ(pair.side[1].memory[0], std::byte{0xEE});
  EXPECT_EQ(pair.accepted_and_dropped(1), pair.side[1].count(Counter::kReceivedPackets));
}

TEST_F(Receive, ParserReasonsAreCountedToo) {
  dropped({}, DropReason::kTruncated);
  auto version = bytes(write());
  version[1] |= std::byte{1};
  dropped(version, DropReason::kBadVersion);
  auto pkey = bytes(write());
  pkey[2] = std::byte{0x12};
  dropped(pkey, DropReason::kBadPkey);
  auto opcode = bytes(write());
  opcode[0] = std::byte{0x82};
  dropped(opcode, DropReason::kUnknownOpcode);
}

TEST_F(Receive, UnknownQueuePair) {
  auto packet = write();
  packet.bth.dest_qpn ^= 0x100;
  dropped(bytes(packet), DropReason::kUnknownQp);
  packet = write();
  packet.bth.dest_qpn ^= 1;  // another slot's
  dropped(bytes(packet), DropReason::kUnknownQp);
}

TEST_F(Receive, APacketForADestroyedQueuePairFindsNone) {
  const auto packet = bytes(write());
  auto& side = pair.side[1];
  ASSERT_TRUE(side.engine->destroy_qp(side.qp).ok());
  QpCreate again{.pd = side.pd, .send_cq = side.send_cq, .receive_cq = side.receive_cq, .capabilities = {}};
  side.qp = side.engine->create_qp(again).value();
  dropped(packet, DropReason::kUnknownQp);
}

TEST_F(Receive, EveryFlippedBitIsNoticed) {
  const auto good = bytes(write());
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= std::byte(1 << (bit % 8));
    if (bit / 8 == 4) continue;  // FECN, BECN and the reserved bits beside them: the ICRC masks them
    const auto before = pair.accepted_and_dropped(1) - pair.side[1].count(Counter::kAcceptedPackets);
    pair.inject(1, bad);
    EXPECT_EQ(pair.accepted_and_dropped(1) - pair.side[1].count(Counter::kAcceptedPackets), before + 1) << bit;
  }
  EXPECT_EQ(pair.side[1].memory[0], std::byte{0});
  EXPECT_GT(pair.side[1].count(DropReason::kBadIcrc), 0u);
}

// In bitmap mode a WRITE of one packet has a fast path on arrival, from the second packet on
// (qp/receive/single_write.cc).
TEST_F(Receive, AWholeWriteIsTakenWholeOrNotAtAll) {
  auto& side = pair.side[1];
  wire::Packet next = write();
  next.bitmap = true;
  next.bth.opcode = wire::opcode_of(next.op, true);
  next.bth.ack_request = true;
  next.reth.address = side.at(4096);
  pair.inject(1, bytes(next));
  ++next.bth.psn;
  next.reth.address = side.at(0);
  const auto good = bytes(next);
  const std::uint64_t accepted = side.count(Counter::kAcceptedPackets);
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    if (bit / 8 == 4) continue;  // as above
    auto bad = good;
    bad[bit / 8] ^= std::byte(1 << (bit % 8));
    pair.inject(1, bad);
  }
  EXPECT_EQ(side.count(Counter::kAcceptedPackets), accepted);
  auto wrong_place = next;
  wrong_place.reth.address -= 1;  // before the region
  auto ahead = next;
  ++ahead.bth.psn;
  ahead.reth.address = side.at(8);
  pair.inject(1, bytes(ahead));
  EXPECT_EQ(side.count(Counter::kOutOfSequence), 1u) << "its turn has not come";
  EXPECT_EQ(side.memory[0], std::byte{0});
  pair.inject(1, good);
  EXPECT_EQ(side.memory[0], std::byte{0xEE});
  EXPECT_EQ(side.memory[8], std::byte{0xEE});
  EXPECT_EQ(side.qp->responder().snapshot().next, ahead.bth.psn + 1);
  EXPECT_EQ(side.qp->responder().snapshot().msn, 3u);
  EXPECT_EQ(side.count(Counter::kWriteRequests), 3u);
  pair.inject(1, good);
  EXPECT_EQ(side.count(Counter::kDuplicateRequest), 1u);
  wrong_place.bth.psn = ahead.bth.psn + 1;
  pair.inject(1, bytes(wrong_place));
  EXPECT_EQ(side.count(Counter::kRemoteAccessErrors), 1u);
  EXPECT_EQ(side.qp->identity().state, QpState::kErr);
  EXPECT_EQ(pair.accepted_and_dropped(1), side.count(Counter::kReceivedPackets));
}

TEST_F(Receive, AnotherHostsPacketIsNotThePeers) {
  auto packet = bytes(write());
  const IpAddress own = pair.side[0].address;
  pair.side[0].address = IpAddress::v4(10, 0, 0, 3);
  pair.sign(0, packet);
  dropped(packet, DropReason::kWrongPeer);
  pair.side[0].address = own;
  const IpAddress to = pair.side[1].address;
  pair.side[1].address = IpAddress::v4(10, 0, 0, 9);
  pair.sign(0, packet);
  dropped(packet, DropReason::kWrongPeer);
  pair.side[1].address = to;
}

TEST_F(Receive, StatesThatDoNotReceive) {
  const auto packet = bytes(write());
  ASSERT_TRUE(pair.modify(1, QpState::kErr, kQpAttrState).ok());
  dropped(packet, DropReason::kQpState);
  ASSERT_TRUE(pair.modify(1, QpState::kReset, kQpAttrState).ok());
  dropped(packet, DropReason::kQpState);
  ASSERT_TRUE(pair.modify(1, QpState::kInit, TwoEngines::kToInit).ok());
  dropped(packet, DropReason::kQpState);
}

TEST_F(Receive, AnswersToNothing) {
  wire::Packet packet = write();
  packet.op = wire::RcOp::kAcknowledge;
  packet.bth.opcode = wire::opcode_of(packet.op, false);
  packet.aeth.syndrome = wire::kSyndromeAck;
  packet.bth.psn = Psn{5000};
  payload.clear();
  dropped(bytes(packet), DropReason::kStaleResponse);
  packet.op = wire::RcOp::kAtomicAcknowledge;
  packet.bth.opcode = wire::opcode_of(packet.op, false);
  dropped(bytes(packet), DropReason::kStaleResponse);
  packet.op = wire::RcOp::kReadResponseOnly;
  packet.bth.opcode = wire::opcode_of(packet.op, true);
  dropped(bytes(packet), DropReason::kStaleResponse);
}

TEST_F(Receive, ControlPacketsOfAnotherSenderOrWithBadContents) {
  std::vector<std::byte> packet(wire::kBthSize + wire::kCapsSize + wire::kIcrcSize);
  wire::Bth bth;
  bth.opcode = static_cast<std::uint8_t>(wire::Control::kCaps);
  bth.dest_qpn = pair.side[1].engine->qp_num(pair.side[1].qp);
  wire::emit_bth(bth, packet.data());
  wire::Caps caps;
  caps.source_qpn = pair.side[0].engine->qp_num(pair.side[0].qp) ^ 0x100;
  wire::emit_caps(caps, packet.data() + wire::kBthSize);
  pair.sign(0, packet);
  dropped(packet, DropReason::kBadControl);
  caps.source_qpn ^= 0x100;
  caps.version_min = 2;  // above its maximum
  wire::emit_caps(caps, packet.data() + wire::kBthSize);
  pair.sign(0, packet);
  dropped(packet, DropReason::kBadControl);
}

TEST_F(Receive, WrongLengthOfAReadResponse) {
  ASSERT_TRUE(pair.post(1, pair.request(1, WorkOpcode::kRdmaRead, 4096, 16, 1)).ok());
  pair.paused[0] = true;
  pair.round();
  wire::Packet packet = write();
  packet.op = wire::RcOp::kReadResponseOnly;
  packet.bth.opcode = wire::opcode_of(packet.op, false);
  packet.bth.psn = Psn{5000};
  dropped(bytes(packet), DropReason::kBadLength);
  payload.resize(16);
  pair.inject(1, bytes(packet));
  EXPECT_EQ(pair.poll(1).at(0).status, CompletionStatus::kSuccess);
}

TEST(ReceiveIdentification, AnyIdentificationExplainsAStandardPacketOnceItIsUnknown) {
  PairOptions options;
  options.ip_id_known = false;
  options.mode[0] = options.mode[1] = RecoveryMode::kStandard;
  TwoEngines pair{options};
  wire::Packet p;
  p.op = wire::RcOp::kWriteOnly;
  p.bth.opcode = wire::opcode_of(p.op, false);
  p.bth.dest_qpn = pair.side[1].engine->qp_num(pair.side[1].qp);
  p.reth = {pair.side[1].at(0), pair.side[1].key, 8};
  const std::vector<std::byte> payload(8, std::byte{0xEE});
  std::uint32_t psn = 1000;
  for (const unsigned identification : {0u, 1u, 0x1234u, 0xFFFFu}) {
    p.bth.psn = Psn{psn++};
    auto packet = pair.make(0, p, payload);
    const wire::IcrcPath path{pair.side[0].address, pair.side[1].address, 0xC000, kRoceUdpPort,
                              static_cast<std::uint16_t>(identification)};
    store_le32(packet.data() + packet.size() - 4, wire::packet_icrc(path, packet));
    pair.inject(1, packet);
  }
  EXPECT_EQ(pair.side[1].count(Counter::kAcceptedPackets), 4u);
  p.bth.psn = Psn{psn};
  auto damaged = pair.make(0, p, payload);
  damaged[30] ^= std::byte{1};
  pair.inject(1, damaged);
  EXPECT_EQ(pair.side[1].count(DropReason::kBadIcrc), 1u);
}

// A SEND waits for a receive while others behind it arrive: no FFM and no acknowledgement has it sent again. Once in
// the time of a stall it is, since the sender cannot know where it is.
TEST(HeldForReceive, AMessageThatWaitsIsNotSentAgainWithEachAcknowledgement) {
  PairOptions options;
  options.capabilities.send_wr_max = 256;
  TwoEngines pair{options};
  pair.wire.clear();
  pair.drop = [](const Sent& sent) { return sent.data() && sent.psn() == 1000 && sent.copy == 1; };
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, 0, 8, 1)).ok());
  for (std::uint64_t i = 2; i < 160; ++i) {
    ASSERT_TRUE(pair.post(0, pair.write(0, 64, 8, i)).ok());
    pair.run_for(50_us);
  }
  const auto copies = std::count_if(pair.wire.begin(), pair.wire.end(), [](const Sent& sent) {
    return sent.from == 0 && sent.data() && sent.psn() == 1000;
  });
  EXPECT_LE(copies, 2 + 8) << "within 8 ms";
  EXPECT_EQ(pair.side[1].count(Counter::kFfmSent), 1u);
  EXPECT_EQ(pair.side[1].count(Counter::kGapsRecovered), 1u);
  ASSERT_TRUE(pair.post_receive(1, 0, 8, 1).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.side[1].count(Counter::kSentRnr), 0u);
}

}  // namespace
}  // namespace brdma::test
