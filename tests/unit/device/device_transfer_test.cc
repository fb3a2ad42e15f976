// tests design RR-1 to RR-14 through two whole engines: segments and their numbers on the wire, registration, masks,
// the escape channel, completion. Path MTU 1024, segments of 8 packets.
#include <gtest/gtest.h>

#include "base/random.h"
#include "support/seeds.h"
#include "support/two_engines.h"

namespace brdma::test {
namespace {

constexpr std::uint32_t kMtu = 1024, kSegment = 8 * kMtu;

PairOptions options(TransferConfig transfer = {.threshold_bytes = 4 * kSegment, .segment_bytes = kSegment}) {
  PairOptions options;
  options.transfer[0] = options.transfer[1] = transfer;
  options.recovery.adaptive = false;
  return options;
}

std::vector<wire::Packet> data_of(const TwoEngines& pair, int side) {
  std::vector<wire::Packet> packets;
  for (const Sent& sent : pair.wire) {
    if (sent.from == side && sent.data() && sent.copy == 1) packets.push_back(sent.packet());
  }
  return packets;
}

TEST(Transfer, ALargeWriteIsLabelledAndCompletesOnce) {
  TwoEngines pair{options()};
  pair.fill(0, 1);
  constexpr std::uint32_t kBytes = 4 * kSegment + 2 * kMtu + 100;
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, kBytes, 1)).ok());
  ASSERT_TRUE(pair.post(0, pair.write(0, 500'000, 100, 2)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  const auto packets = data_of(pair, 0);
  ASSERT_EQ(packets.size(), 36u);
  for (std::size_t i = 0; i < 35; ++i) {
    const wire::Bxth& bxth = packets[i].bxth;
    EXPECT_EQ(bxth.operation, i / 8) << i;
    EXPECT_EQ(bxth.operation_packets, i < 32 ? 8 : 3) << i;
    EXPECT_EQ(bxth.operation_start, i % 8 == 0) << i;
    EXPECT_EQ(bxth.operation_more, i < 32) << i;
    EXPECT_EQ(bxth.msn, 0u);
    EXPECT_EQ(packets[i].reth.length, kBytes);
  }
  EXPECT_EQ(packets[35].bxth.operation_packets, 0);
  const auto done = pair.poll(0);
  ASSERT_EQ(done.size(), 2u);  // one for the whole transfer
  EXPECT_EQ(done[0].wr_id, 1u);
  EXPECT_EQ(done[0].byte_length, kBytes);
  EXPECT_TRUE(pair.same(0, kBytes));
  EXPECT_EQ(pair.side[0].count(Counter::kOperationsSent), 5u);
  EXPECT_EQ(pair.side[0].count(Counter::kOperationsDone), 5u);
  EXPECT_EQ(pair.side[1].count(Counter::kOperationsRegistered), 5u);
  EXPECT_EQ(pair.side[1].count(Counter::kOperationsComplete), 5u);
  EXPECT_EQ(pair.side[1].count(Counter::kTransfersComplete), 1u);
  EXPECT_EQ(pair.side[1].qp->responder().snapshot().operations, 0u);
}

TEST(Transfer, BelowTheThresholdAndTowardsAnOtherPeerNothingChanges) {
  TwoEngines small{options()};
  ASSERT_TRUE(small.post(0, small.write(0, 0, 4 * kSegment - 1, 1)).ok());
  ASSERT_TRUE(small.run_until_idle());
  for (const auto& packet : data_of(small, 0)) EXPECT_EQ(packet.bxth.operation_packets, 0);

  PairOptions standard = options();
  standard.mode[1] = RecoveryMode::kStandard;
  TwoEngines other{standard};
  other.fill(0, 2);
  ASSERT_TRUE(other.post(0, other.write(0, 0, 6 * kSegment, 1)).ok());
  ASSERT_TRUE(other.run_until_idle());
  EXPECT_EQ(other.poll(0).size(), 1u);
  EXPECT_TRUE(other.same(0, 6 * kSegment));
  EXPECT_EQ(other.side[0].count(Counter::kOperationsSent), 0u);
}

TEST(Transfer, GathersFromSeveralBlocksAcrossSegments) {
  TwoEngines pair{options()};
  pair.fill(0, 3);
  const std::uint32_t lengths[] = {kSegment + 7, 3, 2 * kSegment + 500, kSegment};
  std::vector<Sge> sges;
  std::vector<std::byte> expected;
  std::uint64_t at = 1000;
  for (const std::uint32_t length : lengths) {
    sges.push_back({pair.side[0].at(at), length, pair.side[0].key});
    expected.insert(expected.end(), pair.side[0].memory.begin() + static_cast<std::ptrdiff_t>(at),
                    pair.side[0].memory.begin() + static_cast<std::ptrdiff_t>(at + length));
    at += length + 777;
  }
  auto request = pair.write(0, 0, 1, 1);
  request.sges = sges;
  request.remote_address = pair.side[1].at(4096);
  ASSERT_TRUE(pair.post(0, request).ok());
  ASSERT_TRUE(pair.run_until_idle());
  ASSERT_EQ(pair.poll(0).size(), 1u);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), pair.side[1].memory.begin() + 4096));
  EXPECT_EQ(pair.side[0].count(Counter::kOperationsSent), 5u);
}

TEST(Transfer, ASendIsScatteredOverTheReceivesBlocks) {
  TwoEngines pair{options()};
  pair.fill(0, 4);
  std::vector<Sge> sges;
  for (const std::uint32_t length : {5000u, 1u, 30'000u, 20'000u}) {
    sges.push_back({pair.side[1].at(sges.size() * 100'000), length, pair.side[1].key});
  }
  ASSERT_TRUE(pair.side[1].engine->post_receive(pair.side[1].qp, {9, sges}, pair.now).ok());
  constexpr std::uint32_t kBytes = 5 * kSegment + 11;
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, 0, kBytes, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  const auto got = pair.poll_receives(1);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].byte_length, kBytes);
  EXPECT_TRUE(pair.same(0, 5000, 0));
  EXPECT_TRUE(pair.same(5000, 1, 100'000));
  EXPECT_TRUE(pair.same(5001, 30'000, 200'000));
  EXPECT_TRUE(pair.same(35'001, kBytes - 35'001, 300'000));
  EXPECT_EQ(pair.side[1].count(Counter::kTransfersComplete), 1u);
}

// The start of the second operation (1008) is lost; packets before its retransmission escape, and are released by it.
TEST(Transfer, PacketsBeforeTheirStartEscapeAndAreReleased) {
  TwoEngines pair{options()};
  pair.fill(0, 5);
  pair.drop = [](const Sent& sent) { return sent.from == 0 && sent.psn() == 1008 && sent.copy == 1; };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 6 * kSegment, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  ASSERT_EQ(pair.poll(0).size(), 1u);
  EXPECT_TRUE(pair.same(0, 6 * kSegment));
  const auto& rx = pair.side[1];
  EXPECT_EQ(rx.count(Counter::kEscapedPackets), 7u);
  EXPECT_EQ(rx.count(Counter::kEscapeReleased), 7u);
  EXPECT_EQ(rx.count(Counter::kEscapeExpired), 0u);
  EXPECT_EQ(rx.count(Counter::kOperationsComplete), 6u);
  EXPECT_EQ(rx.count(Counter::kTransfersComplete), 1u);
  EXPECT_EQ(pair.side[0].count(Counter::kRetransmittedFfm), 1u);  // the start alone
  EXPECT_EQ(rx.qp->responder().snapshot().escaped, 0u);
  EXPECT_EQ(pair.accepted_and_dropped(1), rx.count(Counter::kReceivedPackets));
}

// While they are in the escape channel, no acknowledgement reports their arrival.
TEST(Transfer, EscapedPacketsAreNotAcknowledged) {
  TwoEngines pair{options()};
  pair.drop = [](const Sent& sent) { return sent.from == 0 && sent.psn() == 1008 && sent.copy == 1; };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 6 * kSegment, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  bool seen = false;
  for (const Sent& sent : pair.wire) {
    if (sent.from != 1 || !sent.control(wire::Control::kBitmapAck)) continue;
    const wire::Packet packet = sent.packet();
    const auto ack = wire::parse_bitmap_ack(packet.payload, packet.bth.psn);
    ASSERT_TRUE(ack);
    if (ack->base != Psn{1008} || ack->bit_count < 9) continue;
    seen = true;
    const std::uint32_t first = load_be32(ack->bits.data());
    EXPECT_EQ(first & 0xFF00'0000u, 0u) << "1009 to 1015 are in the escape channel";
    EXPECT_NE(first & 0x0080'0000u, 0u) << "1016, the next start, is here";
    EXPECT_TRUE(ack->operations_valid);
    EXPECT_EQ(ack->operations_next, 1);
  }
  EXPECT_TRUE(seen);
}

// The start does not come in time: packets that wait for it are dropped, counted, and retransmitted like lost ones.
TEST(Transfer, TheEscapeChannelForgetsInTime) {
  TwoEngines pair{options({.threshold_bytes = 4 * kSegment,
                           .segment_bytes = kSegment,
                           .escape_bytes_max = 1u << 20,
                           .escape_time = 10_us})};
  pair.fill(0, 6);
  pair.drop = [](const Sent& sent) { return sent.from == 0 && sent.psn() == 1008 && sent.copy <= 3; };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 6 * kSegment, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  ASSERT_EQ(pair.poll(0).size(), 1u);
  EXPECT_TRUE(pair.same(0, 6 * kSegment));
  const auto& rx = pair.side[1];
  EXPECT_GE(rx.count(Counter::kEscapeExpired), 7u);
  EXPECT_EQ(rx.count(Counter::kEscapedPackets), rx.count(Counter::kEscapeReleased) + rx.count(Counter::kEscapeExpired));
  EXPECT_EQ(rx.count(Counter::kTransfersComplete), 1u);
  EXPECT_EQ(pair.accepted_and_dropped(1), rx.count(Counter::kReceivedPackets));
}

TEST(Transfer, TheEscapeChannelIsBoundedInBytes) {
  TwoEngines pair{options({.threshold_bytes = 4 * kSegment, .segment_bytes = kSegment, .escape_bytes_max = 3 * kMtu})};
  pair.fill(0, 7);
  pair.drop = [](const Sent& sent) { return sent.from == 0 && sent.psn() == 1008 && sent.copy == 1; };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 6 * kSegment, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  ASSERT_EQ(pair.poll(0).size(), 1u);
  EXPECT_TRUE(pair.same(0, 6 * kSegment));
  EXPECT_EQ(pair.side[1].count(Counter::kEscapedPackets), 3u);
  EXPECT_GE(pair.side[1].count(DropReason::kEscapeFull), 4u);
}

// A duplicate of an early packet leaves the mask unchanged and is dropped at once.
TEST(Transfer, TheMaskKnowsDuplicates) {
  TwoEngines pair{options()};
  pair.fill(0, 8);
  pair.drop = [](const Sent& sent) { return sent.from == 0 && sent.psn() == 1001 && sent.copy == 1; };
  pair.duplicates = [](const Sent& sent) { return sent.from == 0 && sent.psn() == 1004 ? 1u : 0u; };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 6 * kSegment, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  ASSERT_EQ(pair.poll(0).size(), 1u);
  EXPECT_EQ(pair.side[1].count(Counter::kOperationDuplicates), 1u);
  EXPECT_EQ(pair.side[1].count(DropReason::kDuplicate), 1u);
}

// The receiver completes at the last bit: before the sender can know.
TEST(Transfer, TheReceiverCompletesWithoutTheSendersLastAcknowledgement) {
  TwoEngines pair{options()};
  pair.drop = [](const Sent& sent) { return sent.from == 1; };  // nothing arrives from the receiver
  ASSERT_TRUE(pair.post_receive(1, 0, 0, 5).ok());
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaWriteWithImm, 0, 6 * kSegment, 1)).ok());
  pair.run_for(200_us);
  EXPECT_EQ(pair.poll_receives(1).size(), 1u);
  EXPECT_EQ(pair.side[1].count(Counter::kTransfersComplete), 1u);
  EXPECT_EQ(pair.poll(0).size(), 0u);
  pair.drop = nullptr;
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), 1u);
}

// More operations than numbers, under loss: a number is reused only when no packet can mean the other.
TEST(Transfer, NumbersAreUsedAgain) {
  for_each_seed(5, [](Random& random) {
    PairOptions pair_options = options({.threshold_bytes = 2 * kMtu, .segment_bytes = kMtu});
    TwoEngines pair{pair_options};
    pair.fill(0, random.next());
    pair.drop = [&](const Sent&) { return random.chance_per_million(30'000); };
    for (std::uint64_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(pair.post(0, pair.write(0, i * 200 * kMtu, 200 * kMtu, i)).ok());
    }
    ASSERT_TRUE(pair.run_until_idle());
    ASSERT_EQ(pair.poll(0).size(), 4u);
    EXPECT_TRUE(pair.same(0, 800 * kMtu));
    EXPECT_EQ(pair.side[1].count(Counter::kOperationsComplete), 800u);
    EXPECT_EQ(pair.side[1].count(Counter::kTransfersComplete), 4u);
  });
}

// A plain WRITE takes no receive; a program that watches its region gets an event all the same, when the last packet
// has arrived.
TEST(Transfer, AWatchedRegionGetsEventsOfWrites) {
  TwoEngines pair{options()};
  int user = 0;
  Engine& rx = *pair.side[1].engine;
  ASSERT_TRUE(rx.watch_writes(pair.side[1].region, &user).ok());
  bool all = false;
  pair.drop = [&](const Sent& sent) { return sent.from == 1 || (sent.psn() == 1047 && sent.from == 0 && !all); };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 6 * kSegment, 1)).ok());
  pair.run_for(100_us);
  EXPECT_FALSE(rx.poll_write_arrival());
  all = true;  // still nothing reaches the sender: it cannot know when the receiver does
  pair.run_for(5_ms);
  const auto arrival = rx.poll_write_arrival();
  ASSERT_TRUE(arrival);
  EXPECT_EQ(arrival->user, &user);
  EXPECT_EQ(arrival->address, pair.side[1].at(0));
  EXPECT_EQ(arrival->length, 6 * kSegment);
  EXPECT_EQ(arrival->qp_num, rx.qp_num(pair.side[1].qp));
  EXPECT_TRUE(pair.same(0, 6 * kSegment));
  EXPECT_TRUE(pair.poll(0).empty());
  pair.drop = nullptr;
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_FALSE(rx.poll_write_arrival());  // once
  ASSERT_TRUE(rx.unwatch_writes(pair.side[1].region).ok());
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 8, 2)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_FALSE(rx.poll_write_arrival());
}

// Settings of transfers change while the program runs: they apply to messages that begin later.
TEST(Transfer, SettingsChangeBetweenMessages) {
  struct Undivided final : RecoveryEditor {
    void edit(RecoveryConfig&, bool) const override {}
    void edit_transfers(TransferConfig& config) const override { config.segment_bytes = segment_bytes; }
    std::uint32_t segment_bytes = 0;
  };
  TwoEngines pair{options()};
  Engine& tx = *pair.side[0].engine;
  const auto operations = [&] { return pair.side[1].count(Counter::kOperationsComplete); };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 6 * kSegment, 1)).ok());
  pair.run_for(3_us);  // the first packets are in flight
  Undivided change;
  ASSERT_TRUE(tx.change_recovery(std::nullopt, change, pair.now).ok());
  EXPECT_EQ(tx.transfer().segment_bytes, 0u);
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(operations(), 6u) << "what has begun ends as it began";
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 6 * kSegment, 2)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(operations(), 6u);
  change.segment_bytes = 2 * kSegment;
  ASSERT_TRUE(tx.change_recovery(std::nullopt, change, pair.now).ok());
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 6 * kSegment, 3)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(operations(), 9u);
  EXPECT_EQ(pair.poll(0).size(), 3u);
  EXPECT_TRUE(pair.same(0, 6 * kSegment));
}

// A region is deregistered during an operation: the look-up of its registration is not used any more.
TEST(Transfer, ARegionThatGoesIsFoundOut) {
  PairOptions pair_options = options();
  pair_options.one_way_delay = 50_us;
  TwoEngines pair{pair_options};
  bool gone = false;
  pair.drop = [&](const Sent& sent) { return sent.from == 0 && sent.psn() >= 1003 && sent.copy == 1 && !gone; };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 6 * kSegment, 1)).ok());
  pair.run_for(120_us);
  gone = true;
  ASSERT_TRUE(pair.side[1].engine->deregister_memory(pair.side[1].region).ok());
  ASSERT_TRUE(pair.run_until_idle());
  const auto done = pair.poll(0);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kRemoteAccessError);
}

}  // namespace
}  // namespace brdma::test
