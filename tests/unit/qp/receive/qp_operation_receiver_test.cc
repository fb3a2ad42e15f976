// tests design RR-10 to RR-14: operations of large transfers as they arrive (qp/receive/operation_receiver.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "qp/receive/operation_receiver.h"

namespace brdma::qp {
namespace {

using registry::Match;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using wire::RcOp;

constexpr std::uint32_t kMtu = 1024, kPackets = 4;
constexpr std::uint64_t kStart = 0x10'0000;  // of the region, in requests

// A responder whose base is PSN 1000, which is missing. A WRITE of one operation of four packets begins at PSN 1001.
struct Receiver {
  Receiver() {
    identity.pd = memory.alloc_pd();
    identity.attributes.access = kAccessRemoteWrite;
    region = add();
    for (std::size_t i = 0; i < data.size(); ++i) data[i].fill(static_cast<std::byte>(i + 1));
    state.early.begin(kMtu, 1 << 20, {}, environment.pools.segments);
  }
  MemoryRegion* add() {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    return memory.add(identity.pd, address, bytes.size(), kStart, kAccessLocalWrite | kAccessRemoteWrite).value();
  }

  [[nodiscard]] wire::Packet packet(std::uint32_t index, RcOp op) const {
    wire::Packet packet;
    packet.op = op;
    packet.bitmap = true;
    packet.bth.psn = Psn{1001 + index};
    packet.reth = {.address = kStart + index * kMtu, .rkey = region->key, .length = kPackets * kMtu};
    packet.bxth.packet_index = index;
    packet.bxth.operation_packets = kPackets;
    packet.bxth.operation_start = index == 0;
    packet.payload = data[index];
    return packet;
  }
  [[nodiscard]] wire::Packet write(std::uint32_t index) const {
    const RcOp first_or_middle = index == 0 ? RcOp::kWriteFirst : RcOp::kWriteMiddle;
    return packet(index, index + 1 == kPackets ? RcOp::kWriteLast : first_or_middle);
  }
  [[nodiscard]] OperationReceiver receiver() {
    return OperationReceiver{{environment, identity, window, &state, receives, ack, operations, kMtu, /*rsn=*/0}};
  }
  void begin() { receiver().begin(write(0), now); }
  // As the responder does with an early packet. `placed` lists what it was to place or to hold.
  std::optional<DropReason> keep(const wire::Packet& packet) {
    const auto place = [&](const wire::Packet& known) {
      if (!refusal) placed.push_back(known.bxth.packet_index);
      return refusal;
    };
    const auto reason = receiver().keep(packet, place, now);
    if (!reason) window.receive(packet.bth.psn);
    return reason;
  }
  void execute(const wire::Packet& packet) {
    if (packet.bxth.operation_start) receiver().begin(packet, now);
    operations.executed(packet, kMtu, environment, identity, now);
  }
  [[nodiscard]] bool expire(Duration round_trip = {}) { return receiver().expire(round_trip, now); }

  [[nodiscard]] std::uint64_t count(Counter counter) const { return statistics.get(counter); }
  [[nodiscard]] const EarlyPackets::Record* record(std::uint32_t index) const {
    return state.early.find(Psn{1001 + index});
  }
  [[nodiscard]] std::vector<std::byte> memory_of(std::uint32_t index) const {
    const ConstBytes packet = ConstBytes{bytes}.subspan(std::size_t{index} * kMtu, kMtu);
    return {packet.begin(), packet.end()};
  }

  alignas(8) std::array<std::byte, 8 * kMtu> bytes{};
  std::array<std::array<std::byte, kMtu>, kPackets> data;
  EngineConfig config;
  memory::MemoryTable memory{SecretRandom{1, "keys"}};
  Statistics statistics;
  Environment environment{.config = config, .memory = memory, .telemetry = {.statistics = statistics}};
  Identity identity;
  MemoryRegion* region = nullptr;
  bitmap::ReceiveWindow window{Psn{1000}, {}, environment.pools.segments};
  OutOfOrderState state;
  ReceiveQueue receives{8, 1};
  AcknowledgementSchedule ack;
  ReceivedOperations operations;
  std::vector<std::uint32_t> placed;
  std::optional<DropReason> refusal;
  Instant now = Instant{} + 1_s;
};

TEST(InOperation, WritesAndSendsOfLargeTransfersAre) {
  const Receiver receiver;
  wire::Packet packet = receiver.write(1);
  EXPECT_TRUE(in_operation(packet));
  packet.op = RcOp::kSendMiddle;
  EXPECT_TRUE(in_operation(packet));
  packet.op = RcOp::kReadRequest;
  EXPECT_FALSE(in_operation(packet));
  packet = receiver.write(1);
  packet.bxth.operation_packets = 0;
  EXPECT_FALSE(in_operation(packet));
}

TEST(OperationReceiver, AStartRegistersItsOperationOnce) {
  Receiver receiver;
  receiver.begin();
  receiver.begin();
  EXPECT_EQ(receiver.operations.registered().size(), 1U);
  EXPECT_EQ(receiver.count(Counter::kOperationsRegistered), 1U);
  EXPECT_EQ(receiver.operations.look(receiver.write(0), kMtu), Match::kDuplicate);
  EXPECT_EQ(receiver.operations.look(receiver.write(2), kMtu), Match::kNew);
  EXPECT_FALSE(receiver.ack.pending()) << "nothing has waited for it";
}

TEST(OperationReceiver, AnOperationOfOnePacketIsCompleteAtOnce) {
  Receiver receiver;
  wire::Packet only = receiver.packet(0, RcOp::kWriteOnly);
  only.bxth.operation_packets = 1;
  receiver.receiver().begin(only, receiver.now);
  EXPECT_EQ(receiver.count(Counter::kOperationsComplete), 1U);
}

TEST(OperationReceiver, InOrderTheLastPacketEndsOperationAndTransfer) {
  for (const bool more : {false, true}) {
    Receiver receiver;
    for (std::uint32_t i = 0; i < kPackets; ++i) {
      wire::Packet packet = receiver.write(i);
      packet.bxth.operation_more = more;
      EXPECT_EQ(receiver.count(Counter::kOperationsComplete), 0U);
      receiver.execute(packet);
      EXPECT_EQ(receiver.operations.registered().size(), i + 1 < kPackets ? 1U : 0U);
    }
    EXPECT_EQ(receiver.count(Counter::kOperationsComplete), 1U);
    EXPECT_EQ(receiver.count(Counter::kTransfersComplete), more ? 0U : 1U);
    EXPECT_EQ(receiver.operations.registered().completed().next, 1);
  }
}

TEST(OperationReceiver, ARegisteredWritesPacketsHaveTheirPlace) {
  Receiver receiver;
  EXPECT_EQ(receiver.operations.place_of(receiver.write(2), receiver.memory), nullptr) << "not registered";
  receiver.begin();
  EXPECT_EQ(receiver.operations.place_of(receiver.write(3), receiver.memory), receiver.bytes.data() + 3 * kMtu);
  wire::Packet packet = receiver.write(3);
  packet.reth.address += 1;
  EXPECT_EQ(receiver.operations.place_of(packet, receiver.memory), nullptr) << "beyond its end";
  packet.reth.address = kStart - 1;
  EXPECT_EQ(receiver.operations.place_of(packet, receiver.memory), nullptr) << "before its begin";
  packet = receiver.write(3);
  packet.reth.rkey = receiver.add()->key;
  EXPECT_EQ(receiver.operations.place_of(packet, receiver.memory), nullptr) << "under another key";
}

TEST(OperationReceiver, APlaceIsValidAsLongAsNoRegionGoes) {
  Receiver receiver;
  MemoryRegion* const other = receiver.add();
  receiver.begin();
  ASSERT_NE(receiver.operations.place_of(receiver.write(2), receiver.memory), nullptr);
  ASSERT_TRUE(receiver.memory.remove(other).ok());
  EXPECT_EQ(receiver.operations.place_of(receiver.write(2), receiver.memory), nullptr);
}

TEST(OperationReceiver, AnOperationBeyondItsRegionHasNoPlace) {
  Receiver receiver;
  wire::Packet start = receiver.write(0);
  start.reth.address = kStart + receiver.bytes.size() - kMtu;
  receiver.receiver().begin(start, receiver.now);
  EXPECT_EQ(receiver.operations.registered().size(), 1U);
  wire::Packet second = receiver.write(1);
  second.reth.address = start.reth.address + kMtu;
  EXPECT_EQ(receiver.operations.place_of(second, receiver.memory), nullptr);
}

TEST(OperationReceiver, EarlyPacketsOfAKnownOperationArePlaced) {
  Receiver receiver;
  EXPECT_EQ(receiver.keep(receiver.write(0)), std::nullopt);
  EXPECT_EQ(receiver.keep(receiver.write(2)), std::nullopt);
  EXPECT_THAT(receiver.placed, ElementsAre(0, 2));
  EXPECT_EQ(receiver.operations.look(receiver.write(2), kMtu), Match::kDuplicate);
  EXPECT_EQ(receiver.count(Counter::kEscapedPackets), 0U);
}

TEST(OperationReceiver, WhatCannotBePlacedIsNotEntered) {
  Receiver receiver;
  receiver.refusal = DropReason::kHoldFull;
  EXPECT_EQ(receiver.keep(receiver.write(0)), DropReason::kHoldFull);
  EXPECT_EQ(receiver.operations.registered().size(), 0U);
  receiver.begin();
  EXPECT_EQ(receiver.keep(receiver.write(2)), DropReason::kHoldFull);
  EXPECT_EQ(receiver.operations.look(receiver.write(2), kMtu), Match::kNew);
}

TEST(OperationReceiver, APacketOutsideItsOperationIsRefused) {
  Receiver receiver;
  receiver.begin();
  wire::Packet packet = receiver.write(2);
  packet.bxth.operation_packets = kPackets + 1;
  EXPECT_EQ(receiver.keep(packet), DropReason::kEarlyInvalid);
  EXPECT_THAT(receiver.placed, IsEmpty());
}

TEST(OperationReceiver, PacketsBeforeTheStartEscape) {
  Receiver receiver;
  EXPECT_EQ(receiver.keep(receiver.write(1)), std::nullopt);
  EXPECT_THAT(receiver.placed, IsEmpty());
  EXPECT_EQ(receiver.operations.escape().size(), 1U);
  EXPECT_EQ(receiver.count(Counter::kEscapedPackets), 1U);
  ASSERT_NE(receiver.record(1), nullptr);
  EXPECT_FALSE(receiver.record(1)->placed);
  EXPECT_THAT(receiver.memory_of(1), Each(std::byte{0}));
}

TEST(OperationReceiver, TheEscapeChannelIsBoundedAndChecked) {
  Receiver receiver;
  receiver.config.transfer.escape_bytes_max = 2 * kMtu;
  wire::Packet refused = receiver.write(1);
  refused.reth.rkey ^= 1;
  EXPECT_EQ(receiver.keep(refused), DropReason::kEarlyInvalid);
  EXPECT_EQ(receiver.keep(receiver.write(1)), std::nullopt);
  EXPECT_EQ(receiver.keep(receiver.write(2)), std::nullopt);
  EXPECT_EQ(receiver.keep(receiver.write(3)), DropReason::kEscapeFull);
  EXPECT_EQ(receiver.operations.escape().size(), 2U);
}

TEST(OperationReceiver, WithoutABufferNothingEscapes) {
  Receiver receiver;
  receiver.state.early.begin(kMtu, kMtu, {}, receiver.environment.pools.segments);
  EXPECT_EQ(receiver.keep(receiver.write(1)), std::nullopt);
  EXPECT_EQ(receiver.keep(receiver.write(2)), DropReason::kHoldFull);
  EXPECT_EQ(receiver.operations.escape().size(), 1U);
}

TEST(OperationReceiver, TheStartReleasesWhatHasEscaped) {
  Receiver receiver;
  for (const std::uint32_t i : {1, 3, 2}) ASSERT_EQ(receiver.keep(receiver.write(i)), std::nullopt);
  EXPECT_FALSE(receiver.ack.pending());
  ASSERT_EQ(receiver.keep(receiver.write(0)), std::nullopt);
  EXPECT_TRUE(receiver.operations.escape().empty());
  EXPECT_EQ(receiver.count(Counter::kEscapeReleased), 3U);
  EXPECT_EQ(receiver.count(Counter::kOperationsComplete), 1U);
  EXPECT_TRUE(receiver.ack.forced());
  EXPECT_THAT(receiver.memory_of(1), Each(std::byte{2}));
  EXPECT_THAT(receiver.memory_of(2), Each(std::byte{3}));
  EXPECT_TRUE(receiver.record(1)->placed);
  EXPECT_FALSE(receiver.record(3)->placed) << "a last packet waits for all before it";
  EXPECT_THAT(receiver.memory_of(3), Each(std::byte{0}));
}

TEST(OperationReceiver, ReleasedDataIsNotWrittenOverThatOfLaterPackets) {
  Receiver receiver;
  ASSERT_EQ(receiver.keep(receiver.write(1)), std::nullopt);
  wire::Packet later = receiver.write(1);
  later.bth.psn = Psn{1020};
  receiver.state.early.note_placed(receiver.window.base(), later, receiver.bytes.data() + kMtu);
  ASSERT_EQ(receiver.keep(receiver.write(0)), std::nullopt);
  EXPECT_THAT(receiver.memory_of(1), Each(std::byte{0}));
}

// It is judged in order.
TEST(OperationReceiver, AFaultyPacketStaysHeld) {
  Receiver receiver;
  wire::Packet outside = receiver.write(1);
  outside.bxth.operation_packets = kPackets + 1;
  wire::Packet too_long = receiver.packet(3, RcOp::kWriteMiddle);  // only a last packet ends the message
  wire::Packet other_key = receiver.write(2);
  other_key.reth.rkey = receiver.add()->key;
  for (const auto& packet : {outside, too_long, other_key}) ASSERT_EQ(receiver.keep(packet), std::nullopt);
  ASSERT_EQ(receiver.keep(receiver.write(0)), std::nullopt);
  EXPECT_EQ(receiver.count(Counter::kEscapeReleased), 3U);
  for (const std::uint32_t i : {1, 2, 3}) {
    EXPECT_FALSE(receiver.record(i)->placed) << i;
    EXPECT_THAT(receiver.memory_of(i), Each(std::byte{0})) << i;
  }
  EXPECT_EQ(receiver.operations.look(receiver.write(1), kMtu), Match::kNew) << "the mask leaves it out";
}

TEST(OperationReceiver, ASendIsReleasedIntoItsReceive) {
  for (const bool there : {true, false}) {
    Receiver receiver;
    const Sge sge{kStart, kPackets * kMtu, receiver.region->key};
    ASSERT_TRUE(receiver.receives.post({1, {&sge, 1}}).ok());
    ASSERT_EQ(receiver.keep(receiver.packet(1, RcOp::kSendMiddle)), std::nullopt);
    if (!there) receiver.receives.pop();
    ASSERT_EQ(receiver.keep(receiver.packet(0, RcOp::kSendFirst)), std::nullopt);
    EXPECT_EQ(receiver.record(1)->placed, there);
    EXPECT_THAT(receiver.memory_of(1), Each(there ? std::byte{2} : std::byte{0}));
  }
}

TEST(OperationReceiver, WithoutAStartInTimeAPacketIsMissingAgain) {
  Receiver receiver;
  ASSERT_EQ(receiver.keep(receiver.write(1)), std::nullopt);
  ASSERT_EQ(receiver.keep(receiver.write(2)), std::nullopt);
  const Duration time = receiver.config.transfer.escape_time;
  EXPECT_EQ(receiver.operations.next_expiry(receiver.config.transfer, {}), receiver.now + time);
  receiver.now = receiver.now + time - 1_us;
  EXPECT_FALSE(receiver.expire());
  EXPECT_EQ(receiver.operations.escape().size(), 2U);
  receiver.now = receiver.now + 1_us;
  EXPECT_TRUE(receiver.expire());
  EXPECT_EQ(receiver.count(Counter::kEscapeExpired), 1U);
  EXPECT_EQ(receiver.record(1), nullptr);
  EXPECT_FALSE(receiver.window.has(Psn{1002}));
  EXPECT_NE(receiver.state.gaps.covering(Psn{1002}), nullptr);
  // Nothing beyond 1003: no gap could be seen there.
  EXPECT_NE(receiver.record(2), nullptr);
  EXPECT_TRUE(receiver.window.has(Psn{1003}));
  EXPECT_EQ(receiver.operations.next_expiry(receiver.config.transfer, {}), receiver.now + time);
  receiver.window.receive(Psn{1010});
  receiver.now = receiver.now + time;
  EXPECT_TRUE(receiver.expire());
  EXPECT_EQ(receiver.record(2), nullptr);
  EXPECT_TRUE(receiver.operations.escape().empty());
  EXPECT_FALSE(receiver.expire());
}

TEST(OperationReceiver, TheTimeIsFourRoundTripsAtLeast) {
  Receiver receiver;
  receiver.config.transfer.escape_time = 10_ms;
  ASSERT_EQ(receiver.keep(receiver.write(1)), std::nullopt);
  receiver.window.receive(Psn{1010});
  EXPECT_EQ(receiver.operations.next_expiry(receiver.config.transfer, 10_ms), receiver.now + 40_ms);
  receiver.now = receiver.now + 39_ms;
  EXPECT_FALSE(receiver.expire(10_ms));
  receiver.now = receiver.now + 1_ms;
  EXPECT_TRUE(receiver.expire(10_ms));
}

TEST(OperationReceiver, WithoutAGapRecordNothingIsDropped) {
  Receiver receiver;
  receiver.state.gaps.begin(0);
  ASSERT_EQ(receiver.keep(receiver.write(1)), std::nullopt);
  receiver.window.receive(Psn{1010});
  receiver.now = receiver.now + receiver.config.transfer.escape_time;
  EXPECT_FALSE(receiver.expire());
  EXPECT_NE(receiver.record(1), nullptr);
  EXPECT_EQ(receiver.operations.escape().size(), 1U);
}

TEST(OperationReceiver, APacketThatHasGoneDoesNotExpire) {
  Receiver receiver;
  ASSERT_EQ(receiver.keep(receiver.write(1)), std::nullopt);
  receiver.window.receive(Psn{1010});
  receiver.state.early.release(Psn{1002});
  receiver.now = receiver.now + receiver.config.transfer.escape_time;
  EXPECT_FALSE(receiver.expire());
  EXPECT_TRUE(receiver.window.has(Psn{1002}));
}

TEST(ReceivedOperations, AcknowledgementsLeaveOutEscapedPackets) {
  Receiver receiver;
  ASSERT_EQ(receiver.keep(receiver.write(1)), std::nullopt);  // 1002
  ASSERT_EQ(receiver.keep(receiver.write(2)), std::nullopt);  // 1003
  const auto hidden = [&](std::uint32_t base, std::uint32_t count) {
    std::byte bits{0xFF};
    receiver.operations.hide_escaped(Psn{base}, count, &bits);
    return std::to_integer<unsigned>(bits);
  };
  EXPECT_EQ(hidden(1000, 8), 0b1100'1111U);
  EXPECT_EQ(hidden(1000, 3), 0b1101'1111U) << "1003 is no bit of it";
  EXPECT_EQ(hidden(1003, 8), 0b0111'1111U) << "1002 is before it";
  EXPECT_EQ(receiver.operations.before_escaped(Psn{1010}), Psn{1002});
  EXPECT_EQ(receiver.operations.before_escaped(Psn{1001}), Psn{1001});
}

TEST(ReceivedOperations, AnExecutedPacketLeavesTheEscapeChannel) {
  Receiver receiver;
  ASSERT_EQ(receiver.keep(receiver.write(1)), std::nullopt);
  receiver.operations.forget_escaped(Psn{1001});
  EXPECT_EQ(receiver.operations.escape().size(), 1U);
  receiver.operations.forget_escaped(Psn{1002});
  EXPECT_TRUE(receiver.operations.escape().empty());
}

TEST(ReceivedOperations, ANewConnectionHasNone) {
  Receiver receiver;
  receiver.begin();
  wire::Packet other = receiver.write(1);
  other.bxth.operation = 1;
  ASSERT_EQ(receiver.keep(other), std::nullopt);
  receiver.operations.clear();
  EXPECT_EQ(receiver.operations.registered().size(), 0U);
  EXPECT_FALSE(receiver.operations.registered().used());
  EXPECT_TRUE(receiver.operations.escape().empty());
}

}  // namespace
}  // namespace brdma::qp
