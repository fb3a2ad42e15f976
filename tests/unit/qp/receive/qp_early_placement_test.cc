// Early packets: room for them (qp/receive/early_room.h), and which are placed, held or dropped
// (qp/receive/early_placement.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>

#include "support/responder_parts.h"

namespace brdma::qp {
namespace {

using testing::Each;
using wire::RcOp;

constexpr std::uint32_t kMtu = test::ResponderParts::kMtu;
constexpr std::uint64_t kStart = test::ResponderParts::kStart;

// --- room ---

TEST(EarlyRoom, StateForMissingPacketsBeginsWithTheFirstAndEndsInOrder) {
  test::ResponderParts responder;
  EXPECT_FALSE(responder.out_of_order);
  EXPECT_EQ(responder.out_of_order.records_bytes(), 0U);
  responder.room().begin();
  OutOfOrderState* const state = responder.out_of_order.get();
  ASSERT_NE(state, nullptr);
  responder.room().begin();
  EXPECT_EQ(responder.out_of_order.get(), state) << "it has begun";
  responder.window.receive(responder.window.base() + 2);
  responder.room().end_if_in_order();
  EXPECT_TRUE(responder.out_of_order) << "packets are missing";
  responder.window = bitmap::ReceiveWindow{Psn{1010}, {}, responder.environment.pools.segments};
  responder.room().end_if_in_order();
  EXPECT_FALSE(responder.out_of_order);
}

TEST(EarlyRoom, NothingIsLeftForTheNextQueuePair) {
  test::ResponderParts responder;
  responder.room().begin();
  OutOfOrderState& state = *responder.out_of_order;
  wire::Packet packet;
  packet.bth.psn = responder.window.base() + 1;
  ASSERT_TRUE(state.early.hold(responder.window.base(), packet));
  state.gaps.open(Psn{1009}, Psn{1011}, /*path=*/0, responder.now, responder.now);
  EXPECT_GT(responder.out_of_order.records_bytes(), 0U);
  state.watch.judge_at = responder.now;
  state.feedback.look = true;
  state.go_back.active = true;
  state.receive_wait.refused = true;
  state.gaps_looked_at = 5;
  responder.room().end();
  responder.room().begin();
  const OutOfOrderState& next = *responder.out_of_order;
  ASSERT_EQ(&next, &state) << "the same one, from the pool";
  EXPECT_TRUE(next.early.empty());
  EXPECT_TRUE(next.gaps.empty());
  EXPECT_FALSE(next.watch.judge_at || next.feedback.look || next.go_back.active || next.receive_wait.refused);
  EXPECT_EQ(next.gaps_looked_at, 0U);
}

TEST(EarlyRoom, HalfOfTheAllowedStateIsTheReceivers) {
  test::ResponderParts responder;
  EXPECT_FALSE(responder.room().is_full());
  responder.recovery.state_bytes_max = static_cast<std::uint32_t>(2 * responder.window.allocated_bytes());
  EXPECT_FALSE(responder.room().is_full());
  responder.room().begin();
  wire::Packet packet;
  packet.bth.psn = responder.window.base() + 1;
  ASSERT_TRUE(responder.out_of_order->early.hold(responder.window.base(), packet));
  EXPECT_TRUE(responder.room().is_full()) << "records count, too";
}

// --- packets ---

struct Placing : test::ResponderParts {
  Placing() {
    identity.attributes.access = kAccessRemoteWrite | kAccessRemoteRead;
    bytes.fill(std::byte{0});
    data.fill(std::byte{7});
    room().begin();
  }
  // PSN 1010 is missing. Packet `index` of a message that begins there.
  [[nodiscard]] wire::Packet packet(RcOp op, std::uint32_t index, std::size_t size = kMtu) const {
    wire::Packet packet;
    packet.op = op;
    packet.bitmap = true;
    packet.bth.psn = window.base() + index;
    packet.bxth.packet_index = index;
    packet.reth = {.address = kStart + std::uint64_t{index} * kMtu, .rkey = region->key, .length = 8 * kMtu};
    packet.payload = ConstBytes{data}.first(size);
    return packet;
  }
  std::optional<DropReason> keep(const wire::Packet& packet) { return placement().keep(packet, now); }
  [[nodiscard]] const EarlyPackets::Record* record(std::uint32_t index) const {
    return out_of_order->early.find(window.base() + index);
  }
  [[nodiscard]] bool placed(std::uint32_t index) const {
    return record(index) != nullptr && record(index)->placed && count(Counter::kPlacedEarly) == 1;
  }
  [[nodiscard]] bool held(std::uint32_t index) const {
    return record(index) != nullptr && !record(index)->placed && count(Counter::kHeldPackets) == 1;
  }
  // Neither kept, nor with an effect.
  void expect_nothing_kept() {
    EXPECT_TRUE(out_of_order->early.empty());
    EXPECT_EQ(count(Counter::kPlacedEarly) + count(Counter::kHeldPackets), 0U);
    EXPECT_THAT(bytes, Each(std::byte{0}));
  }
  [[nodiscard]] bool is_written(std::size_t at, std::size_t size) const {
    const auto written = [](std::byte byte) { return byte == std::byte{7}; };
    return std::ranges::all_of(ConstBytes{bytes}.subspan(at, size), written) &&
           std::ranges::count_if(bytes, written) == static_cast<std::ptrdiff_t>(size);
  }

  std::array<std::byte, 2 * kMtu> data{};
};

TEST(EarlyPlacement, AWritesFirstAndMiddlePacketsArePlaced) {
  for (const auto& [op, index] : {std::pair{RcOp::kWriteMiddle, 3u}, {RcOp::kWriteFirst, 0u}}) {
    Placing responder;
    wire::Packet packet = responder.packet(op, index);
    packet.bth.psn = responder.window.base() + 3;
    EXPECT_EQ(responder.keep(packet), std::nullopt);
    EXPECT_TRUE(responder.placed(3));
    EXPECT_TRUE(responder.is_written(std::size_t{index} * kMtu, kMtu));
  }
}

TEST(EarlyPlacement, ALastPacketIsHeldBecauseProgramsPollOnIt) {
  for (const RcOp op : {RcOp::kWriteLast, RcOp::kWriteOnly}) {
    Placing responder;
    EXPECT_EQ(responder.keep(responder.packet(op, 3, 100)), std::nullopt);
    EXPECT_TRUE(responder.held(3));
    EXPECT_THAT(responder.bytes, Each(std::byte{0}));
  }
}

TEST(EarlyPlacement, StandardPacketsDoNotNameTheirPlace) {
  Placing responder;
  wire::Packet packet = responder.packet(RcOp::kWriteMiddle, 3);
  packet.bitmap = false;
  EXPECT_EQ(responder.keep(packet), std::nullopt);
  EXPECT_TRUE(responder.held(3));
  EXPECT_THAT(responder.bytes, Each(std::byte{0}));
}

TEST(EarlyPlacement, ReadsAreHeld) {
  Placing responder;
  wire::Packet packet = responder.packet(RcOp::kReadRequest, 3, 0);
  packet.reth.length = 100;
  EXPECT_EQ(responder.keep(packet), std::nullopt);
  EXPECT_TRUE(responder.held(3));
}

TEST(EarlyPlacement, AWriteMustBeAllowedAsAWhole) {
  struct Case {
    const char* what;
    void (*change)(Placing&, wire::Packet&);
  };
  constexpr Case kCases[] = {
      {"no right", [](Placing& responder, wire::Packet&) { responder.identity.attributes.access = 0; }},
      {"another key", [](Placing&, wire::Packet& packet) { ++packet.reth.rkey; }},
      {"it would end the message", [](Placing&, wire::Packet& packet) { packet.reth.length = 4 * kMtu; }},
      {"the message ends outside", [](Placing&, wire::Packet& packet) { packet.reth.length = 17 * kMtu; }},
      {"the message begins outside", [](Placing&, wire::Packet& packet) { packet.reth.address -= kMtu; }},
      {"not the MTU", [](Placing&, wire::Packet& packet) { packet.payload = packet.payload.first(kMtu - 1); }},
  };
  for (const Case& one : kCases) {
    Placing responder;
    wire::Packet packet = responder.packet(RcOp::kWriteMiddle, 3);
    one.change(responder, packet);
    EXPECT_EQ(responder.keep(packet), DropReason::kEarlyInvalid) << one.what;
    responder.expect_nothing_kept();
  }
}

TEST(EarlyPlacement, DataOfLaterPacketsStays) {
  Placing responder;
  wire::Packet later = responder.packet(RcOp::kWriteMiddle, 5);
  later.bxth.packet_index = 3;
  later.reth.address = kStart + 3 * kMtu;
  EXPECT_EQ(responder.keep(later), std::nullopt);
  responder.data.fill(std::byte{9});
  EXPECT_EQ(responder.keep(responder.packet(RcOp::kWriteMiddle, 3)), std::nullopt);
  EXPECT_TRUE(responder.is_written(3 * kMtu, kMtu));
}

TEST(EarlyPlacement, ASendGoesToTheReceiveOfItsNumber) {
  Placing responder;
  responder.post(1, 100);
  responder.post(2, 4 * kMtu, 8 * kMtu);
  wire::Packet packet = responder.packet(RcOp::kSendMiddle, 3);
  packet.bxth.rsn = 1;
  EXPECT_EQ(responder.keep(packet), std::nullopt);
  EXPECT_TRUE(responder.placed(3));
  EXPECT_TRUE(responder.is_written(11 * kMtu, kMtu));
}

TEST(EarlyPlacement, ASendWithoutItsReceiveIsDropped) {
  for (const RcOp op : {RcOp::kSendMiddle, RcOp::kSendLast}) {
    Placing responder;
    responder.post(1, 8 * kMtu);
    wire::Packet packet = responder.packet(op, 3);
    packet.bxth.rsn = 1;
    EXPECT_EQ(responder.keep(packet), DropReason::kEarlyNoReceive);
    responder.expect_nothing_kept();
  }
}

TEST(EarlyPlacement, ASendFitsIntoItsReceive) {
  Placing responder;
  responder.post(1, 4 * kMtu - 1);
  EXPECT_EQ(responder.keep(responder.packet(RcOp::kSendMiddle, 3)), DropReason::kEarlyInvalid);
  responder.expect_nothing_kept();
}

TEST(EarlyPlacement, AReceiveAtFaultIsJudgedInOrder) {
  Placing responder;
  const Sge sge{kStart, 8 * kMtu, responder.region->key + 1};
  ASSERT_TRUE(responder.receives.post({1, {&sge, 1}}).ok());
  EXPECT_EQ(responder.keep(responder.packet(RcOp::kSendMiddle, 3)), DropReason::kEarlyInvalid);
  responder.expect_nothing_kept();
}

TEST(EarlyPlacement, WithoutABufferAPacketIsDropped) {
  Placing responder;
  responder.room().end();
  responder.recovery.hold_bytes_max = kMtu;
  responder.room().begin();
  EXPECT_EQ(responder.keep(responder.packet(RcOp::kWriteOnly, 3)), std::nullopt);
  EXPECT_EQ(responder.keep(responder.packet(RcOp::kWriteOnly, 4)), DropReason::kHoldFull);
  EXPECT_EQ(responder.record(4), nullptr);
}

TEST(EarlyPlacement, AnOperationsPacketsWaitForItsStart) {
  Placing responder;
  wire::Packet packet = responder.packet(RcOp::kWriteMiddle, 3);
  packet.bxth.operation_packets = 8;
  EXPECT_EQ(responder.keep(packet), std::nullopt);
  EXPECT_FALSE(responder.record(3)->placed);
  EXPECT_EQ(responder.count(Counter::kEscapedPackets), 1U);
  EXPECT_THAT(responder.bytes, Each(std::byte{0}));
  wire::Packet start = responder.packet(RcOp::kWriteFirst, 0);
  start.bth.psn = responder.window.base() + 1;
  start.bxth.operation_packets = 8;
  start.bxth.operation_start = true;
  EXPECT_EQ(responder.keep(start), std::nullopt);
  EXPECT_TRUE(responder.record(1)->placed);
  EXPECT_TRUE(responder.record(3)->placed) << "it had escaped";
  wire::Packet next = responder.packet(RcOp::kWriteMiddle, 4);
  next.bxth.operation_packets = 8;
  EXPECT_EQ(responder.keep(next), std::nullopt);
  EXPECT_TRUE(responder.record(4)->placed);
  EXPECT_EQ(responder.bytes[4 * kMtu], std::byte{7});
}

}  // namespace
}  // namespace brdma::qp
