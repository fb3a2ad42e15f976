// Fast paths of the two most common packets on arrival: a plain acknowledgement (qp/loss/ack_fast_path.cc) and a WRITE
// of one packet in bitmap mode (qp/receive/single_write.cc). What the general path drops is dropped, for its reason.
#include <gtest/gtest.h>

#include <optional>

#include "qp/receive/responder_impl.h"
#include "support/two_engines.h"
#include "wire/control.h"

namespace brdma::test {
namespace {

constexpr std::uint32_t kSentPsn = 5000, kNextPsn = 1001;  // of side 1's WRITE in flight; of the packet that it expects

// Side 1 receives. A WRITE of its own is in flight; its peer is paused.
struct Usual {
  explicit Usual(const PairOptions& options = {}, std::uint32_t writes = 1) : pair(options) {
    pair.inject(1, write(kNextPsn - 1));
    pair.paused[0] = true;
    for (std::uint32_t i = 0; i < writes; ++i) EXPECT_TRUE(pair.post(1, pair.write(1, 4096, 8, i)).ok());
    pair.round();
    side().memory[0] = std::byte{0};
  }
  [[nodiscard]] TwoEngines::Side& side() { return pair.side[1]; }
  // `base`: of a piggybacked acknowledgement.
  [[nodiscard]] std::vector<std::byte> write(std::uint32_t psn, std::optional<Psn> base = {}) {
    wire::Packet packet;
    packet.op = wire::RcOp::kWriteOnly;
    packet.bitmap = true;
    packet.bth.opcode = wire::opcode_of(packet.op, true);
    packet.bth.dest_qpn = side().engine->qp_num(side().qp);
    packet.bth.psn = Psn{psn};
    packet.bxth.source_qpn = peer_qpn;
    packet.reth = {side().at(0), side().key, 8};
    packet.bxth.piggyback = base.has_value();
    packet.piggyback.base = base.value_or(Psn{0});
    packet.piggyback.credit_packets = packet.piggyback.credit_bytes = 1000;
    return pair.make(0, packet, std::vector<std::byte>(8, std::byte{0xEE}));
  }
  [[nodiscard]] std::vector<std::byte> acknowledgement() {
    wire::BitmapAck ack;
    ack.source_qpn = peer_qpn;
    ack.base = Psn{kSentPsn + 1};
    ack.highest = Psn{kSentPsn};
    ack.syndrome = wire::kSyndromeAck;
    ack.credit_packets = ack.credit_bytes = 1000;
    std::byte body[256];
    const std::size_t size = wire::emit_bitmap_ack(ack, body);
    std::vector<std::byte> bytes(wire::kBthSize + size + wire::kIcrcSize);
    wire::Bth bth;
    bth.opcode = static_cast<std::uint8_t>(wire::Control::kBitmapAck);
    bth.dest_qpn = side().engine->qp_num(side().qp);
    bth.psn = ack.base;
    wire::emit_bth(bth, bytes.data());
    std::copy_n(body, size, bytes.begin() + wire::kBthSize);
    pair.sign(0, bytes);
    return bytes;
  }
  [[nodiscard]] std::vector<std::byte> packet(bool writes) { return writes ? write(kNextPsn) : acknowledgement(); }
  [[nodiscard]] bool is_fast(ConstBytes bytes) const {
    return wire::is_single_write(bytes) || wire::is_cumulative_ack(bytes);
  }

  TwoEngines pair;
  std::uint32_t peer_qpn = pair.side[0].engine->qp_num(pair.side[0].qp);
};

struct Wrong {
  const char* what;
  DropReason reason;
  void (*spoil)(Usual&, bool writes, std::vector<std::byte>&);
};
const Wrong kWrong[] = {
    {"signed for the peer, but of another host", DropReason::kWrongPeer,
     [](Usual& usual, bool, std::vector<std::byte>&) { usual.pair.side[0].address = IpAddress::v4(10, 0, 0, 3); }},
    {"for another host", DropReason::kWrongPeer,
     [](Usual& usual, bool, std::vector<std::byte>&) { usual.pair.side[1].address = IpAddress::v4(10, 0, 0, 9); }},
    {"of another queue pair of the peer", DropReason::kBadToken,
     [](Usual& usual, bool writes, std::vector<std::byte>& packet) {
       usual.peer_qpn ^= 0x2000;
       packet = usual.packet(writes);
     }},
    {"damaged", DropReason::kBadIcrc,
     [](Usual&, bool, std::vector<std::byte>& packet) { packet.back() ^= std::byte{1}; }},
    {"after an error", DropReason::kQpState,
     [](Usual& usual, bool, std::vector<std::byte>&) {
       ASSERT_TRUE(usual.pair.modify(1, QpState::kErr, kQpAttrState).ok());
     }},
};

TEST(UsualPackets, AreTaken) {
  for (const bool writes : {true, false}) {
    Usual usual;
    const auto packet = usual.packet(writes);
    EXPECT_TRUE(usual.is_fast(packet));
    const std::uint64_t accepted = usual.side().count(Counter::kAcceptedPackets);
    usual.pair.inject(1, packet);
    EXPECT_EQ(usual.side().count(Counter::kAcceptedPackets), accepted + 1);
    EXPECT_EQ(usual.side().memory[0] == std::byte{0xEE}, writes);
    EXPECT_EQ(usual.pair.poll(1).size(), writes ? 0U : 1U);
  }
}

TEST(UsualPackets, WhatIsWrongIsDroppedForItsReason) {
  for (const Wrong& one : kWrong) {
    for (const bool writes : {true, false}) {
      Usual usual;
      auto packet = usual.packet(writes);
      one.spoil(usual, writes, packet);
      EXPECT_TRUE(usual.is_fast(packet));
      (void)usual.pair.poll(1);
      const auto before = usual.side().statistics;
      usual.pair.inject(1, packet);
      EXPECT_EQ(usual.side().count(one.reason) - before.get(one.reason), 1U) << one.what;
      EXPECT_EQ(usual.side().count(Counter::kAcceptedPackets), before.get(Counter::kAcceptedPackets)) << one.what;
      EXPECT_EQ(usual.side().memory[0], std::byte{0}) << one.what;
      EXPECT_TRUE(usual.pair.poll(1).empty()) << one.what;
    }
  }
}

// --- WRITEs with a piggybacked acknowledgement ---

TEST(UsualPackets, AWriteMayAcknowledgeAPart) {
  Usual usual({}, 2);
  usual.pair.inject(1, usual.write(kNextPsn, Psn{kSentPsn + 1}));
  EXPECT_EQ(usual.pair.poll(1).size(), 1U);
  EXPECT_EQ(usual.side().memory[0], std::byte{0xEE});
  usual.pair.inject(1, usual.write(kNextPsn + 1, Psn{kSentPsn + 2}));
  EXPECT_EQ(usual.pair.poll(1).size(), 1U);
}

TEST(UsualPackets, AnAcknowledgementMayBeOfAPart) {
  Usual usual({}, 2);
  usual.pair.inject(1, usual.acknowledgement());
  EXPECT_EQ(usual.pair.poll(1).size(), 1U);
}

TEST(UsualPackets, AWriteThatAcknowledgesWhatWasNotSentIsNotExecuted) {
  Usual usual;
  const std::uint64_t accepted = usual.side().count(Counter::kAcceptedPackets);
  usual.pair.inject(1, usual.write(kNextPsn, Psn{kSentPsn + 9}));
  EXPECT_EQ(usual.side().memory[0], std::byte{0});
  EXPECT_EQ(usual.side().count(Counter::kAcceptedPackets), accepted);
}

// The second completion finds no room, which ends the queue pair.
TEST(UsualPackets, AWriteWhoseAcknowledgementEndsTheQueuePairIsNotExecuted) {
  PairOptions options;
  options.cq_entries = 1;
  Usual usual(options, 2);
  const std::uint64_t dropped = usual.side().count(DropReason::kQpState);
  usual.pair.inject(1, usual.write(kNextPsn, Psn{kSentPsn + 2}));
  EXPECT_EQ(usual.pair.state(1), QpState::kErr);
  EXPECT_EQ(usual.side().memory[0], std::byte{0});
  EXPECT_EQ(usual.side().count(DropReason::kQpState), dropped + 1);
}

// --- several paths ---

// Nothing was known of them when the first packet came.
TEST(UsualPackets, TheFirstWriteOfSeveralPathsMakesThemKnown) {
  PairOptions options;
  options.paths = 2;
  options.settle = false;
  Usual usual(options, 0);
  const auto& tolerance = usual.side().qp->responder().impl().tolerance;
  ASSERT_EQ(tolerance.paths(), nullptr);
  usual.pair.paused[0] = false;
  usual.pair.run_for(2_ms);
  ASSERT_EQ(usual.side().qp->identity().receiving_paths, 2U);
  usual.pair.inject(1, usual.write(kNextPsn));
  EXPECT_NE(tolerance.paths(), nullptr);
}

}  // namespace
}  // namespace brdma::test
