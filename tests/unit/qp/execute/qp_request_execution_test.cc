// qp/execute/request_execution.h: WRITEs and SENDs in order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "support/responder_parts.h"

namespace brdma::qp {
namespace {

using Kind = ReceivedMessages::Kind;
using testing::IsEmpty;
using wire::RcOp;

constexpr std::uint32_t kMtu = test::ResponderParts::kMtu, kMsn = test::ResponderParts::kMsn;
constexpr std::uint64_t kStart = test::ResponderParts::kStart;

struct Executing : test::ResponderParts {
  Executing() {
    identity.attributes.access = kAccessRemoteWrite;
    bytes.fill(std::byte{0});
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(1 + i % 199);
  }
  // `size` bytes of `data` from `from` on.
  [[nodiscard]] wire::Packet packet(RcOp op, std::size_t size, std::size_t from = 0) const {
    wire::Packet packet;
    packet.op = op;
    packet.bitmap = true;
    packet.bth.psn = window.base();
    packet.payload = ConstBytes{data}.subspan(from, size);
    packet.reth = {.address = kStart + from, .rkey = region->key, .length = static_cast<std::uint32_t>(size)};
    return packet;
  }
  // One packet of a WRITE of so many bytes.
  [[nodiscard]] wire::Packet part(RcOp op, std::uint32_t length, std::size_t size, std::size_t from) const {
    wire::Packet part = packet(op, size, from);
    part.reth.length = length;
    return part;
  }
  Verdict execute(const wire::Packet& packet, bool placed = false) {
    return execution().execute(packet, placed, outcome, now);
  }
  // The region has these bytes of `data` there, and 0 on both sides.
  [[nodiscard]] bool has(std::size_t at, std::size_t from, std::size_t size) const {
    const auto none = [&](std::size_t i) { return bytes[i] == std::byte{0}; };
    return std::ranges::equal(ConstBytes{bytes}.subspan(at, size), ConstBytes{data}.subspan(from, size)) &&
           (at == 0 || none(at - 1)) && none(at + size);
  }
  // Nothing was written, completed or counted.
  void expect_no_effect() {
    EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; }));
    EXPECT_THAT(completions(), IsEmpty());
    EXPECT_EQ(messages.msn(), kMsn);
    EXPECT_FALSE(outcome.asks_something());
  }

  std::array<std::byte, 4 * kMtu> data{};
  Outcome outcome;
};

// --- WRITEs ---

TEST(ExecutionOfWrites, AnOnlyPacketIsWrittenAndCounted) {
  for (const std::size_t size : {1u, 8u, 1000u, kMtu}) {
    Executing responder;
    EXPECT_EQ(responder.execute(responder.packet(RcOp::kWriteOnly, size, 3)), Verdict::kDone);
    EXPECT_TRUE(responder.has(3, 3, size)) << size;
    EXPECT_EQ(responder.messages.msn(), kMsn + 1);
    EXPECT_EQ(responder.messages.rsn(), 0U);
    EXPECT_EQ(responder.count(Counter::kWriteRequests), 1U);
    EXPECT_THAT(responder.completions(), IsEmpty());
  }
}

TEST(ExecutionOfWrites, AnEmptyOneIsCountedToo) {
  Executing responder;
  EXPECT_EQ(responder.execute(responder.packet(RcOp::kWriteOnly, 0)), Verdict::kDone);
  EXPECT_EQ(responder.messages.msn(), kMsn + 1);
}

TEST(ExecutionOfWrites, RightsKeysAndLengthsAreChecked) {
  struct Case {
    const char* what;
    Verdict verdict;
    void (*change)(Executing&, wire::Packet&);
  };
  constexpr Case kCases[] = {
      {"no right", Verdict::kInvalidRequest,
       [](Executing& responder, wire::Packet&) { responder.identity.attributes.access = kAccessRemoteRead; }},
      {"too long", Verdict::kInvalidRequest,
       [](Executing&, wire::Packet& packet) { packet.reth.length = RequestChecks::kBytesMax + 1; }},
      {"another key", Verdict::kAccessError, [](Executing&, wire::Packet& packet) { ++packet.reth.rkey; }},
      {"out of its region", Verdict::kAccessError,
       [](Executing& responder, wire::Packet& packet) {
         packet.reth.address = kStart + responder.bytes.size() - packet.payload.size() + 1;
       }},
      {"more than stated", Verdict::kInvalidRequest, [](Executing&, wire::Packet& packet) { packet.reth.length -= 1; }},
      {"less than stated", Verdict::kInvalidRequest, [](Executing&, wire::Packet& packet) { packet.reth.length += 1; }},
      {"more than the MTU", Verdict::kInvalidRequest,
       [](Executing& responder, wire::Packet& packet) { packet = responder.packet(RcOp::kWriteOnly, kMtu + 1); }},
      {"inside another message", Verdict::kInvalidRequest,
       [](Executing& responder, wire::Packet&) { responder.messages.go_on(Kind::kSend, 1); }},
  };
  for (const Case& one : kCases) {
    for (const RcOp op : {RcOp::kWriteOnly, RcOp::kWriteOnlyImm}) {
      Executing responder;
      responder.post(1, 100);
      wire::Packet packet = responder.packet(op, 100);
      one.change(responder, packet);
      packet.op = op;
      EXPECT_EQ(responder.execute(packet), one.verdict) << one.what;
      responder.expect_no_effect();
    }
  }
}

TEST(ExecutionOfWrites, AMessageOfSeveralPacketsEndsWithItsLast) {
  for (const bool bitmap : {true, false}) {
    Executing responder;
    constexpr std::uint32_t kLength = 2 * kMtu + 10;
    wire::Packet packets[] = {responder.part(RcOp::kWriteFirst, kLength, kMtu, 0),
                              responder.part(RcOp::kWriteMiddle, kLength, kMtu, kMtu),
                              responder.part(RcOp::kWriteLast, kLength, 10, 2 * kMtu)};
    for (wire::Packet& packet : packets) packet.bitmap = bitmap;
    if (!bitmap) packets[1].reth = packets[2].reth = {};  // only its First has one
    EXPECT_EQ(responder.execute(packets[0]), Verdict::kDone);
    EXPECT_EQ(responder.execute(packets[1]), Verdict::kDone);
    EXPECT_TRUE(responder.messages.is_inside(Kind::kWrite));
    EXPECT_EQ(responder.messages.bytes(), 2 * kMtu);
    EXPECT_EQ(responder.messages.msn(), kMsn) << "it is not complete";
    EXPECT_EQ(responder.execute(packets[2]), Verdict::kDone);
    EXPECT_TRUE(responder.has(0, 0, kLength));
    EXPECT_FALSE(responder.messages.in_progress());
    EXPECT_EQ(responder.messages.msn(), kMsn + 1);
    EXPECT_EQ(responder.count(Counter::kWriteRequests), 1U);
  }
}

TEST(ExecutionOfWrites, PacketsFitTogether) {
  constexpr std::uint32_t kLength = 3 * kMtu;
  const auto second = [](Executing& responder, RcOp op, std::size_t size) {
    EXPECT_EQ(responder.execute(responder.part(RcOp::kWriteFirst, kLength, kMtu, 0)), Verdict::kDone);
    return responder.part(op, kLength, size, kMtu);
  };
  {
    Executing responder;
    EXPECT_EQ(responder.execute(second(responder, RcOp::kWriteLast, kMtu)), Verdict::kInvalidRequest) << "too short";
  }
  {
    Executing responder;
    EXPECT_EQ(responder.execute(second(responder, RcOp::kWriteMiddle, kMtu - 1)), Verdict::kInvalidRequest);
  }
  {
    Executing responder;
    EXPECT_EQ(responder.execute(second(responder, RcOp::kWriteFirst, kMtu)), Verdict::kInvalidRequest) << "another one";
  }
  {
    Executing responder;
    EXPECT_EQ(responder.execute(second(responder, RcOp::kSendMiddle, kMtu)), Verdict::kInvalidRequest);
  }
  {
    Executing responder;
    wire::Packet other = second(responder, RcOp::kWriteMiddle, kMtu);
    other.reth.address += kMtu;
    EXPECT_EQ(responder.execute(other), Verdict::kInvalidRequest) << "not its place";
  }
  {
    Executing responder;
    EXPECT_EQ(responder.execute(responder.part(RcOp::kWriteMiddle, kLength, kMtu, 0)), Verdict::kInvalidRequest);
    EXPECT_EQ(responder.execute(responder.part(RcOp::kWriteFirst, kMtu, kMtu, 0)), Verdict::kInvalidRequest)
        << "it would be whole";
    responder.expect_no_effect();
  }
}

TEST(ExecutionOfWrites, TheKeyIsLookedUpForEachPacket) {
  Executing responder;
  EXPECT_EQ(responder.execute(responder.part(RcOp::kWriteFirst, 2 * kMtu, kMtu, 0)), Verdict::kDone);
  const wire::Packet last = responder.part(RcOp::kWriteLast, 2 * kMtu, kMtu, kMtu);
  ASSERT_TRUE(responder.memory.remove(responder.region).ok());
  EXPECT_EQ(responder.execute(last), Verdict::kAccessError);
}

TEST(ExecutionOfWrites, ImmediateDataTakesAReceive) {
  Executing responder;
  wire::Packet packet = responder.packet(RcOp::kWriteOnlyImm, 100);
  packet.immediate_be = 77;
  EXPECT_EQ(responder.execute(packet), Verdict::kNotReady);
  EXPECT_EQ(responder.count(Counter::kWriteRequests), 0U) << "it comes again";
  responder.expect_no_effect();
  responder.post(5, 10);
  EXPECT_EQ(responder.execute(packet), Verdict::kDone);
  EXPECT_TRUE(responder.has(0, 0, 100));
  const auto made = responder.completions();
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0].wr_id, 5U);
  EXPECT_EQ(made[0].byte_length, 100U);
  EXPECT_EQ(made[0].immediate_be, 77U);
  EXPECT_EQ(responder.messages.rsn(), 1U);
}

TEST(ExecutionOfWrites, WhatIsPlacedIsNotWrittenAgain) {
  Executing responder;
  const wire::Packet packet = responder.packet(RcOp::kWriteOnly, 100);
  EXPECT_EQ(responder.execute(packet, /*placed=*/true), Verdict::kDone);
  EXPECT_EQ(responder.bytes[0], std::byte{0});
  EXPECT_EQ(responder.messages.msn(), kMsn + 1);
}

TEST(ExecutionOfWrites, DataOfLaterPacketsStays) {
  Executing responder;
  responder.room().begin();
  wire::Packet later = responder.packet(RcOp::kWriteMiddle, kMtu, 0);
  later.bth.psn = responder.window.base() + 5;
  responder.out_of_order->early.note_placed(responder.window.base(), later, responder.bytes.data() + 100);
  EXPECT_EQ(responder.execute(responder.packet(RcOp::kWriteOnly, 500)), Verdict::kDone);
  EXPECT_TRUE(responder.has(0, 0, 100));
}

TEST(ExecutionOfWrites, AWatcherSeesWholeMessages) {
  Executing responder;
  int watcher = 0;
  ASSERT_TRUE(responder.memory.watch(responder.region, true, &watcher).ok());
  EXPECT_EQ(responder.execute(responder.part(RcOp::kWriteFirst, 2 * kMtu, kMtu, 0)), Verdict::kDone);
  EXPECT_TRUE(responder.environment.notices.arrivals.empty());
  EXPECT_EQ(responder.execute(responder.part(RcOp::kWriteLast, 2 * kMtu, kMtu, kMtu)), Verdict::kDone);
  ASSERT_EQ(responder.environment.notices.arrivals.size(), 1U);
  EXPECT_EQ(responder.environment.notices.arrivals.front().address, kStart);
  EXPECT_EQ(responder.environment.notices.arrivals.front().length, 2 * kMtu);
  EXPECT_EQ(responder.environment.notices.arrivals.front().user, &watcher);
  EXPECT_EQ(responder.execute(responder.packet(RcOp::kWriteOnly, 8)), Verdict::kDone);
  EXPECT_EQ(responder.environment.notices.arrivals.size(), 2U);
}

// --- SENDs ---

TEST(ExecutionOfSends, TheOldestReceiveTakesIt) {
  Executing responder;
  responder.post(1, 200, 1000);
  responder.post(2, 200, 2000);
  EXPECT_EQ(responder.execute(responder.packet(RcOp::kSendOnly, 100)), Verdict::kDone);
  EXPECT_TRUE(responder.has(1000, 0, 100));
  const auto made = responder.completions();
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0].wr_id, 1U);
  EXPECT_EQ(made[0].status, CompletionStatus::kSuccess);
  EXPECT_EQ(made[0].byte_length, 100U);
  EXPECT_EQ(responder.messages.msn(), kMsn + 1);
  EXPECT_EQ(responder.messages.rsn(), 1U);
  EXPECT_EQ(responder.receives.size(), 1U);
}

TEST(ExecutionOfSends, SeveralPacketsFillOneReceive) {
  Executing responder;
  responder.post(1, 3 * kMtu);
  EXPECT_EQ(responder.execute(responder.packet(RcOp::kSendFirst, kMtu)), Verdict::kDone);
  EXPECT_EQ(responder.execute(responder.packet(RcOp::kSendMiddle, kMtu, kMtu)), Verdict::kDone);
  EXPECT_THAT(responder.completions(), IsEmpty());
  EXPECT_EQ(responder.messages.packets(), 2U);
  EXPECT_EQ(responder.execute(responder.packet(RcOp::kSendLast, 10, 2 * kMtu)), Verdict::kDone);
  EXPECT_TRUE(responder.has(0, 0, 2 * kMtu + 10));
  const auto made = responder.completions();
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0].byte_length, 2 * kMtu + 10);
  EXPECT_FALSE(responder.messages.in_progress());
}

TEST(ExecutionOfSends, WithoutAReceiveItIsNotReady) {
  Executing responder;
  EXPECT_EQ(responder.execute(responder.packet(RcOp::kSendOnly, 100)), Verdict::kNotReady);
  responder.expect_no_effect();
}

TEST(ExecutionOfSends, OneThatIsTooLongFailsItsReceive) {
  Executing responder;
  responder.post(1, 99);
  EXPECT_EQ(responder.execute(responder.packet(RcOp::kSendOnly, 100)), Verdict::kInvalidRequest);
  const auto made = responder.completions();
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0].status, CompletionStatus::kLocalLengthError);
  EXPECT_EQ(responder.messages.msn(), kMsn);
  EXPECT_EQ(responder.bytes[0], std::byte{0});
}

TEST(ExecutionOfSends, AReceiveAtFaultIsOurs) {
  Executing responder;
  const Sge sge{kStart, 200, responder.region->key + 1};
  ASSERT_TRUE(responder.receives.post({1, {&sge, 1}}).ok());
  EXPECT_EQ(responder.execute(responder.packet(RcOp::kSendOnly, 100)), Verdict::kOperationError);
  const auto made = responder.completions();
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0].status, CompletionStatus::kLocalProtectionError);
}

TEST(ExecutionOfSends, OneThatWasPlacedMustBeWhereItsNumbersSay) {
  const auto placed = [](std::uint32_t rsn, std::uint32_t index) {
    Executing responder;
    responder.post(1, 2 * kMtu);
    wire::Packet packet = responder.packet(RcOp::kSendFirst, kMtu);
    packet.bxth.rsn = rsn;
    packet.bxth.packet_index = index;
    const Verdict verdict = responder.execute(packet, /*placed=*/true);
    EXPECT_EQ(responder.bytes[0], std::byte{0}) << "its data is there already";
    return verdict;
  };
  EXPECT_EQ(placed(0, 0), Verdict::kDone);
  EXPECT_EQ(placed(1, 0), Verdict::kInvalidRequest);
  EXPECT_EQ(placed(0, 1), Verdict::kInvalidRequest);
}

TEST(ExecutionOfSends, AKeyIsInvalidatedBeforeItIsReported) {
  Executing responder;
  responder.post(1, 200);
  wire::Packet packet = responder.packet(RcOp::kSendOnlyInvalidate, 100);
  packet.invalidate_rkey = responder.region->key;
  EXPECT_EQ(responder.execute(packet), Verdict::kAccessError) << "a region's key is not the peer's to end";
  EXPECT_THAT(responder.completions(), IsEmpty());
  EXPECT_EQ(responder.messages.msn(), kMsn);
}

TEST(ExecutionOfSends, PacketsFitTogether) {
  Executing responder;
  responder.post(1, 4 * kMtu);
  EXPECT_EQ(responder.execute(responder.packet(RcOp::kSendLast, 10)), Verdict::kInvalidRequest) << "nothing has begun";
  EXPECT_EQ(responder.execute(responder.packet(RcOp::kSendFirst, kMtu - 1)), Verdict::kInvalidRequest);
  EXPECT_EQ(responder.execute(responder.packet(RcOp::kSendFirst, kMtu)), Verdict::kDone);
  EXPECT_EQ(responder.execute(responder.packet(RcOp::kSendOnly, 10)), Verdict::kInvalidRequest);
  EXPECT_EQ(responder.execute(responder.packet(RcOp::kWriteLast, 10)), Verdict::kInvalidRequest);
}

}  // namespace
}  // namespace brdma::qp
