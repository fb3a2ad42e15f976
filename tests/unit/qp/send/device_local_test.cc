// tests docs/explanation/local.md: local transfer by reference: data is read from the peer's memory instead of sent,
// through two whole engines on one simulated machine. Path MTU 1024; a packet refers to up to 64 KiB.
#include <gtest/gtest.h>

#include "base/random.h"
#include "qp/send/requester_impl.h"
#include "qp/state/limits.h"
#include "qp/state/local_path.h"
#include "sim/processes/local_processes.h"
#include "support/two_engines.h"
#include "wire/local_reference.h"

namespace brdma::test {
namespace {

constexpr std::uint32_t kThreshold = 8192, kMost = qp::kFetchBytesMax;

struct Machine {
  sim::LocalProcesses processes;
  sim::LocalProcess process[2] = {sim::LocalProcess{processes}, sim::LocalProcess{processes}};
};

PairOptions options(Machine& machine) {
  PairOptions options;
  for (int i = 0; i < 2; ++i) {
    options.local_memory[i] = &machine.process[i];
    options.transfer[i].local_threshold_bytes = kThreshold;
  }
  return options;
}

bool agreed(const TwoEngines& pair, int i) {
  const qp::LocalPath* const local = pair.side[i].qp->identity().local;
  return local != nullptr && local->agreed();
}

std::vector<wire::Packet> described(const TwoEngines& pair, int side) {
  std::vector<wire::Packet> packets;
  for (const Sent& sent : pair.wire) {
    if (sent.from != side || sent.bth().opcode >= wire::kTransportControl) continue;
    if (sent.packet().bxth.by_reference()) packets.push_back(sent.packet());
  }
  return packets;
}

TEST(Local, BothSidesAgree) {
  Machine machine;
  TwoEngines pair{options(machine)};
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(agreed(pair, i));
    EXPECT_EQ(pair.side[i].count(Counter::kLocalQps), 1u);
    EXPECT_LE(pair.side[i].count(Counter::kCapsSent), 6u);
  }
}

// Until then a queue pair stores nothing about a peer's process, and looks for none.
TEST(Local, BeginsWithTheFirstLargeMessageOfEitherSide) {
  for (int asks = 0; asks < 2; ++asks) {
    Machine machine;
    PairOptions given = options(machine);
    given.want_local = false;
    TwoEngines pair{given};
    pair.fill(asks, 3);
    ASSERT_TRUE(pair.post(asks, pair.write(asks, 0, kThreshold - 1, 1)).ok());
    ASSERT_TRUE(pair.run_until_idle());
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(pair.side[i].qp->identity().local, nullptr);
      EXPECT_EQ(pair.side[i].qp->identity().local_state, LocalState::kNotAsked);
    }
    ASSERT_TRUE(pair.post(asks, pair.write(asks, 0, kThreshold, 2)).ok());
    ASSERT_TRUE(pair.run_until_idle());
    EXPECT_TRUE(described(pair, asks).empty());
    EXPECT_TRUE(agreed(pair, 0) && agreed(pair, 1));
    ASSERT_TRUE(pair.post(1 - asks, pair.write(1 - asks, 0, kThreshold, 3)).ok());
    ASSERT_TRUE(pair.post(asks, pair.request(asks, WorkOpcode::kRdmaRead, 100'000, kThreshold, 4)).ok());
    ASSERT_TRUE(pair.run_until_idle());
    EXPECT_EQ(described(pair, 1 - asks).size(), 2u);
    EXPECT_EQ(pair.poll(asks).size(), 3u);
    EXPECT_TRUE(pair.same(0, kThreshold));
  }
}

// While something is asked, each acknowledgement is taken by the longer way.
TEST(Local, TheFirstLargeMessageAsksOnce) {
  Machine machine;
  PairOptions given = options(machine);
  given.want_local = false;
  TwoEngines pair{given};
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, kThreshold, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_TRUE(agreed(pair, 0));
  EXPECT_FALSE(pair.side[0].qp->requester().impl().has_outcome());
}

// Both at the start, and after the first large message.
TEST(Local, AgreesThoughCapsAreLost) {
  for (unsigned lost = 0; lost < 12; ++lost) {
    Machine machine;
    PairOptions given = options(machine);
    given.want_local = lost % 2 == 0;
    given.settle = !given.want_local;
    TwoEngines pair{given};
    unsigned caps = 0;
    pair.drop = [&](const Sent& sent) { return sent.control(wire::Control::kCaps) && caps++ == lost / 2; };
    if (!given.want_local) {
      ASSERT_TRUE(pair.post(0, pair.write(0, 0, kThreshold, 1)).ok());
    }
    pair.run_for(200_ms);
    EXPECT_TRUE(agreed(pair, 0) && agreed(pair, 1)) << lost;
  }
}

// The first large message is posted while bitmap mode is negotiated: both learn that they are of different users.
TEST(Local, BothKnowWhyNotWhenTheMessageComesEarly) {
  for (int late = 0; late < 60; ++late) {
    for (const Duration posted : {0_us, 3_us, 7_us, 12_us, 17_us, 22_us}) {
      SCOPED_TRACE(testing::Message() << late << " us, " << posted.ns() << " ns");
      Machine machine;
      machine.processes.readable = false;
      PairOptions given = options(machine);
      given.want_local = given.connect = given.settle = false;
      TwoEngines pair{given};
      pair.connect(1);
      pair.run_for(Duration::from_ns(late * 100'000));
      pair.connect(0);
      pair.run_for(posted);
      ASSERT_TRUE(pair.post(0, pair.write(0, 0, kThreshold, 1)).ok());
      pair.run_for(200_ms);
      for (int i = 0; i < 2; ++i) EXPECT_EQ(pair.side[i].qp->identity().local_state, LocalState::kNotPermitted) << i;
    }
  }
}

// All CAPS queries were sent before the peer was there.
TEST(Local, AgreesThoughThePeerCameLate) {
  Machine machine;
  PairOptions given = options(machine);
  given.want_local = given.connect = given.settle = false;
  TwoEngines pair{given};
  pair.connect(0);
  pair.run_for(300_ms);
  pair.connect(1);
  pair.run_for(2_ms);
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, kThreshold, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_TRUE(agreed(pair, 0) && agreed(pair, 1));
}

// The side without large messages has sent all its CAPS queries, whichever side came first. Then a CAPS of the
// agreement on local transfer is lost; or they are all late, because the other process has no core.
TEST(Local, AgreesAfterAllQueriesWereSent) {
  for (int first = 0; first < 2; ++first) {
    for (unsigned lost = 0; lost < 10; ++lost) {
      SCOPED_TRACE(testing::Message() << "first " << first << ", lost " << lost);
      Machine machine;
      PairOptions given = options(machine);
      given.want_local = given.connect = given.settle = false;
      TwoEngines pair{given};
      pair.connect(first);
      pair.run_for(300_ms);
      pair.connect(1 - first);
      pair.run_for(200_ms);
      unsigned caps = 0;
      pair.drop = [&](const Sent& sent) { return sent.control(wire::Control::kCaps) && caps++ == lost; };
      if (lost == 9)
        pair.extra_delay = [](const Sent& sent) { return sent.control(wire::Control::kCaps) ? 200_ms : 0_us; };
      ASSERT_TRUE(pair.post(0, pair.write(0, 0, kThreshold, 1)).ok());
      pair.run_for(2_s);
      EXPECT_TRUE(agreed(pair, 0));
      EXPECT_TRUE(agreed(pair, 1));
      EXPECT_LT(pair.side[0].count(Counter::kCapsSent) + pair.side[1].count(Counter::kCapsSent), 60u);
    }
  }
}

TEST(Local, AWriteIsDescribedAndFetched) {
  Machine machine;
  TwoEngines pair{options(machine)};
  pair.fill(0, 1);
  constexpr std::uint32_t kBytes = 2 * kMost + 100;
  ASSERT_TRUE(pair.post(0, pair.write(0, 16, kBytes, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  const auto packets = described(pair, 0);
  ASSERT_EQ(packets.size(), 3u);
  for (std::uint32_t i = 0; i < 3; ++i) {
    const auto description = wire::parse_reference(packets[i].payload);
    ASSERT_TRUE(description);
    EXPECT_EQ(description->bytes, i < 2 ? kMost : 100);
    EXPECT_EQ(description->pieces()[0].address, pair.side[0].at(16 + i * kMost));
    EXPECT_EQ(packets[i].reth.address, pair.side[1].at(16 + i * kMost));
    EXPECT_EQ(packets[i].reth.length, kBytes);
    EXPECT_EQ(packets[i].bxth.msn, 0u);
  }
  EXPECT_EQ(packets[0].op, wire::RcOp::kWriteFirst);
  EXPECT_EQ(packets[1].op, wire::RcOp::kWriteMiddle);
  EXPECT_EQ(packets[2].op, wire::RcOp::kWriteLast);
  const auto done = pair.poll(0);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kSuccess);
  EXPECT_EQ(done[0].byte_length, kBytes);
  EXPECT_TRUE(pair.same(16, kBytes));
  EXPECT_NE(pair.side[1].memory[15], pair.side[0].memory[15]);
  EXPECT_NE(pair.side[1].memory[16 + kBytes], pair.side[0].memory[16 + kBytes]);
  EXPECT_EQ(pair.side[1].count(Counter::kFetches), 3u);
  EXPECT_EQ(pair.side[1].count(Counter::kFetchedBytes), kBytes);
  EXPECT_EQ(pair.side[0].count(Counter::kByReference), 3u);
}

TEST(Local, BelowTheThresholdDataIsSent) {
  Machine machine;
  TwoEngines pair{options(machine)};
  pair.fill(0, 1);
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, kThreshold - 1, 1)).ok());
  ASSERT_TRUE(pair.post(0, pair.write(0, 100'000, kThreshold, 2)).ok());
  ASSERT_TRUE(pair.post(0, pair.write(0, 200'000, 5000, 3)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(described(pair, 0).size(), 1u);
  EXPECT_EQ(pair.poll(0).size(), 3u);
  EXPECT_TRUE(pair.same(0, kThreshold - 1) && pair.same(100'000, kThreshold) && pair.same(200'000, 5000));
}

TEST(Local, SendsTakeTheirReceivesAndWritesWithImmediateTheirs) {
  Machine machine;
  TwoEngines pair{options(machine)};
  pair.fill(0, 2);
  constexpr std::uint32_t kBytes = 150'000;
  ASSERT_TRUE(pair.post_receive(1, 500'000, kBytes, 11).ok());
  ASSERT_TRUE(pair.post_receive(1, 900'000, 100, 12).ok());
  ASSERT_TRUE(pair.post_receive(1, 700'000, kBytes, 13).ok());
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, 0, kBytes, 1)).ok());
  SendRequest write = pair.request(0, WorkOpcode::kRdmaWriteWithImm, 200'000, kBytes, 2);
  write.immediate_be = 77;
  ASSERT_TRUE(pair.post(0, write).ok());
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, 10'000, kBytes, 3)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  ASSERT_EQ(pair.poll(0).size(), 3u);
  const auto received = pair.poll_receives(1);
  ASSERT_EQ(received.size(), 3u);
  EXPECT_EQ(received[0].wr_id, 11u);
  EXPECT_EQ(received[0].byte_length, kBytes);
  EXPECT_EQ(received[1].wr_id, 12u);
  EXPECT_EQ(received[1].immediate_be, 77u);
  EXPECT_EQ(received[1].byte_length, kBytes);
  EXPECT_EQ(received[2].wr_id, 13u);
  EXPECT_TRUE(pair.same(0, kBytes, 500'000));
  EXPECT_TRUE(pair.same(200'000, kBytes));
  EXPECT_TRUE(pair.same(10'000, kBytes, 700'000));
  EXPECT_EQ(described(pair, 0).size(), 9u);
}

TEST(Local, AReceiverThatIsNotReadyGetsItLater) {
  Machine machine;
  TwoEngines pair{options(machine)};
  pair.fill(0, 3);
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, 0, 100'000, 1)).ok());
  pair.run_for(12_ms);
  EXPECT_GE(pair.side[1].count(Counter::kSentRnr), 1u);
  ASSERT_TRUE(pair.post_receive(1, 500'000, 100'000, 2).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).at(0).status, CompletionStatus::kSuccess);
  EXPECT_EQ(pair.poll_receives(1).size(), 1u);
  EXPECT_TRUE(pair.same(0, 100'000, 500'000));
}

TEST(Local, AReadIsAnsweredByLocalReference) {
  Machine machine;
  TwoEngines pair{options(machine)};
  pair.fill(1, 4);
  constexpr std::uint32_t kBytes = 5 * kMost + 1;
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 8, kBytes, 1)).ok());
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 500'000, 300, 2)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  const auto done = pair.poll(0);
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].byte_length, kBytes);
  EXPECT_TRUE(pair.same(8, kBytes));
  EXPECT_TRUE(pair.same(500'000, 300));
  EXPECT_EQ(described(pair, 1).size(), 6u);
  EXPECT_EQ(pair.side[0].count(Counter::kFetchedBytes), kBytes);
}

TEST(Local, WhatIsLostComesAgain) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Machine machine;
    PairOptions given = options(machine);
    given.timeout = 8;
    TwoEngines pair{given};
    pair.fill(0, seed);
    pair.fill(1, seed + 100);
    Random random(seed, "local loss");
    pair.drop = [&](const Sent&) { return random.below(10) == 0; };
    pair.extra_delay = [&](const Sent&) { return Duration::from_ns(static_cast<std::int64_t>(random.below(20'000))); };
    for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(pair.post_receive(1, 600'000 + i * 50'000, 50'000, i).ok());
    std::uint64_t id = 0;
    for (std::uint64_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(pair.post(0, pair.write(0, i * 40'000, 30'000 + static_cast<std::uint32_t>(i), ++id)).ok());
      ASSERT_TRUE(pair.post(0, pair.write(0, i * 40'000 + 35'000, 3000, ++id)).ok());
      ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, i * 10'000, 50'000, ++id)).ok());
      ASSERT_TRUE(
          pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 200'000 + i * 90'000, 70'000, ++id, 850'000)).ok());
    }
    ASSERT_TRUE(pair.run_until_idle()) << seed;
    const auto done = pair.poll(0);
    ASSERT_EQ(done.size(), id) << seed;
    for (std::size_t i = 0; i < done.size(); ++i) {
      EXPECT_EQ(done[i].status, CompletionStatus::kSuccess) << seed;
      EXPECT_EQ(done[i].wr_id, i + 1) << seed;
    }
    EXPECT_EQ(pair.poll_receives(1).size(), 4u);
    for (std::uint64_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(pair.same(i * 40'000, 30'000 + i) && pair.same(i * 40'000 + 35'000, 3000)) << seed;
      EXPECT_TRUE(pair.same(i * 10'000, 50'000, 600'000 + i * 50'000)) << seed;
    }
    EXPECT_TRUE(pair.same(200'000, 70'000, 850'000)) << seed;
  }
}

// Later packets of smaller WRITEs were placed at once where the lost one belongs: they stay.
TEST(Local, DataThatCameLaterIsNotOverwritten) {
  Machine machine;
  PairOptions given = options(machine);
  TwoEngines pair{given};
  pair.fill(0, 5);
  pair.drop = [](const Sent& sent) { return sent.from == 0 && sent.psn() == 1000 && sent.copy == 1; };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 20'000, 1)).ok());
  // The first two packets of another message, into the middle of that.
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaWrite, 300'000, 2500, 2, 5000)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), 2u);
  EXPECT_EQ(pair.side[1].count(Counter::kPlacedEarly), 2u);
  EXPECT_TRUE(pair.same(0, 5000) && pair.same(300'000, 2500, 5000) && pair.same(7500, 12'500));
}

TEST(Local, ABadKeyIsRefusedAndNothingIsWritten) {
  Machine machine;
  TwoEngines pair{options(machine)};
  pair.fill(0, 6);
  SendRequest request = pair.write(0, 0, 100'000, 1);
  request.rkey ^= 0xFF;
  ASSERT_TRUE(pair.post(0, request).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).at(0).status, CompletionStatus::kRemoteAccessError);
  EXPECT_EQ(machine.processes.fetches(), 0u);
}

TEST(Local, BeyondARegionNothingIsWritten) {
  Machine machine;
  TwoEngines pair{options(machine)};
  pair.fill(0, 6);
  const std::uint64_t end = TwoEngines::kMemory - 2 * kMost;
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaWrite, 0, 3 * kMost, 1, end)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).at(0).status, CompletionStatus::kRemoteAccessError);
  EXPECT_EQ(machine.processes.fetches(), 0u);  // the first packet refers to all
}

TEST(Local, WithoutTheRightDataIsSent) {
  Machine machine;
  machine.processes.readable = false;
  TwoEngines pair{options(machine)};
  pair.fill(0, 7);
  EXPECT_EQ(pair.side[0].qp->identity().local_state, LocalState::kNotPermitted);
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 100'000, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).at(0).status, CompletionStatus::kSuccess);
  EXPECT_TRUE(pair.same(0, 100'000));
  EXPECT_TRUE(described(pair, 0).empty());
}

TEST(Local, OneSideThatIsOffKeepsBothFromIt) {
  for (int off = 0; off < 2; ++off) {
    Machine machine;
    PairOptions given = options(machine);
    given.transfer[off].local = false;
    TwoEngines pair{given};
    EXPECT_FALSE(agreed(pair, 0) || agreed(pair, 1));
    EXPECT_EQ(pair.side[off].qp->identity().local_state, LocalState::kOff);
    EXPECT_EQ(pair.side[1 - off].qp->identity().local_state, LocalState::kNotReported);
    ASSERT_TRUE(pair.post(0, pair.write(0, 0, 100'000, 1)).ok());
    ASSERT_TRUE(pair.run_until_idle());
    EXPECT_TRUE(described(pair, 0).empty());
  }
}

// The packet is in flight, and its sender's program has got its memory back.
TEST(Local, WhatTheSenderHasGivenUpIsNotDelivered) {
  Machine machine;
  TwoEngines pair{options(machine)};
  pair.fill(0, 8);
  ASSERT_TRUE(pair.post_receive(1, 500'000, 100'000, 1).ok());
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, 0, 50'000, 2)).ok());
  pair.round();  // it leaves
  ASSERT_TRUE(pair.modify(0, QpState::kErr, kQpAttrState).ok());
  EXPECT_EQ(pair.poll(0).at(0).status, CompletionStatus::kFlushed);
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_TRUE(pair.poll_receives(1).empty());
  EXPECT_GE(pair.side[1].count(DropReason::kFetchFailed), 1u);
  EXPECT_EQ(pair.state(1), QpState::kRts);
}

TEST(Local, WhatCannotBeReadAnyMoreEndsInRetriesExceeded) {
  Machine machine;
  PairOptions given = options(machine);
  given.timeout = 8;
  given.retry_count = 2;
  TwoEngines pair{given};
  machine.processes.readable = false;
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 50'000, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).at(0).status, CompletionStatus::kRetryExceeded);
  EXPECT_EQ(pair.state(1), QpState::kRts);
}

TEST(Local, MemoryThatTheKernelCannotReadIsAnError) {
  for (const WorkOpcode opcode : {WorkOpcode::kRdmaWrite, WorkOpcode::kRdmaRead}) {
    Machine machine;
    TwoEngines pair{options(machine)};
    machine.processes.faulty = true;
    ASSERT_TRUE(pair.post(0, pair.request(0, opcode, 0, 50'000, 1)).ok());
    ASSERT_TRUE(pair.run_until_idle());
    EXPECT_EQ(pair.poll(0).at(0).status, CompletionStatus::kRemoteOperationError);
    EXPECT_EQ(pair.side[0].count(Counter::kFetchFaults) + pair.side[1].count(Counter::kFetchFaults), 1u);
    EXPECT_EQ(pair.state(0), QpState::kErr);
  }
}

// Forged packets with everything right except the key.
TEST(Local, ForgedDescriptionsAreDropped) {
  Machine machine;
  TwoEngines pair{options(machine)};
  const LocalClaim claim = pair.side[0].qp->identity().local->own;
  const auto packet_of = [&](wire::RcOp op) {
    wire::Packet packet;
    packet.bitmap = true;
    packet.op = op;
    packet.bth.opcode = wire::opcode_of(op, true);
    packet.bth.dest_qpn = pair.side[1].engine->qp_num(pair.side[1].qp);
    packet.bth.psn = Psn{pair.options.first_psn[0]};
    packet.bxth.source_qpn = pair.side[0].engine->qp_num(pair.side[0].qp);
    packet.bxth.operation = wire::Bxth::kByReference;
    packet.reth = {pair.side[1].at(0), pair.side[1].key, 100};
    return packet;
  };
  const LocalPiece piece{pair.side[0].at(0), 100};
  std::array<std::byte, wire::kReferenceSizeMax + 8> bytes{};
  const auto dropped = [&] { return pair.side[1].count(DropReason::kBadDescription); };
  std::size_t size = wire::emit_reference(claim.nonce[0] ^ 1, {&piece, 1}, bytes.data());
  pair.inject(1, pair.make(0, packet_of(wire::RcOp::kWriteOnly), {bytes.data(), size}));
  EXPECT_EQ(dropped(), 1u);  // the key
  size = wire::emit_reference(claim.nonce[0], {&piece, 1}, bytes.data());
  for (const std::size_t wrong : {std::size_t{0}, size - 4, size + 4}) {
    pair.inject(1, pair.make(0, packet_of(wire::RcOp::kWriteOnly), {bytes.data(), wrong}));
  }
  EXPECT_EQ(dropped(), 4u);
  store_be32(bytes.data() + 16, wire::LocalReference::kBytesMax + 1);
  pair.inject(1, pair.make(0, packet_of(wire::RcOp::kWriteOnly), {bytes.data(), size}));
  EXPECT_EQ(dropped(), 5u);
  wire::Packet read = packet_of(wire::RcOp::kReadRequest);
  read.reth.length = 0;
  pair.inject(1, pair.make(0, read));
  pair.inject(1, pair.make(0, packet_of(wire::RcOp::kFetchAdd)));
  EXPECT_EQ(dropped(), 7u);
  EXPECT_EQ(machine.processes.fetches(), 0u);
  EXPECT_EQ(pair.state(1), QpState::kRts);
}

TEST(Local, WithoutAgreementADescriptionIsDropped) {
  TwoEngines pair;
  wire::Packet packet;
  packet.bitmap = true;
  packet.op = wire::RcOp::kWriteOnly;
  packet.bth.opcode = wire::opcode_of(packet.op, true);
  packet.bth.dest_qpn = pair.side[1].engine->qp_num(pair.side[1].qp);
  packet.bth.psn = Psn{pair.options.first_psn[0]};
  packet.bxth.operation = wire::Bxth::kByReference;
  packet.reth = {pair.side[1].at(0), pair.side[1].key, 100};
  const LocalPiece piece{pair.side[0].at(0), 100};
  std::array<std::byte, wire::kReferenceSizeMax> bytes{};
  const std::size_t size = wire::emit_reference(0, {&piece, 1}, bytes.data());
  pair.inject(1, pair.make(0, packet, {bytes.data(), size}));
  EXPECT_EQ(pair.side[1].count(DropReason::kBadDescription), 1u);
}

}  // namespace
}  // namespace brdma::test
