// qp/execute/request_execution.h: READs, atomics, ATOMIC WRITEs and FLUSHes in order: their effect, and their response.
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "support/responder_parts.h"

namespace brdma::qp {
namespace {

using Kind = Response::Kind;
using wire::RcOp;

constexpr std::uint32_t kMtu = test::ResponderParts::kMtu, kMsn = test::ResponderParts::kMsn, kMessage = 3;
constexpr std::uint64_t kStart = test::ResponderParts::kStart;
constexpr std::uint32_t kAll = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic | kAccessFlushGlobal;
constexpr RcOp kOps[] = {RcOp::kReadRequest, RcOp::kFetchAdd, RcOp::kCompareSwap, RcOp::kAtomicWrite, RcOp::kFlush};

struct Answering : test::ResponderParts {
  Answering() { identity.attributes.access = kAll; }
  [[nodiscard]] wire::Packet packet(RcOp op) {
    wire::Packet packet;
    packet.op = op;
    packet.bitmap = true;
    packet.bth.psn = window.base();
    packet.bxth.msn = kMessage;
    packet.reth = {.address = kStart, .rkey = region->key, .length = 8};
    packet.atomic.address = kStart;
    packet.atomic.rkey = region->key;
    packet.feth.placement = wire::kFlushGlobal;
    if (op == RcOp::kAtomicWrite) packet.payload = word;
    return packet;
  }
  [[nodiscard]] wire::Packet read(std::uint32_t length) {
    wire::Packet request = packet(RcOp::kReadRequest);
    request.reth.length = length;
    return request;
  }
  Verdict execute(const wire::Packet& packet) { return execution().execute(packet, /*placed=*/false, outcome, now); }
  [[nodiscard]] std::uint64_t first_word() const {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  void set_first_word(std::uint64_t value) { std::memcpy(bytes.data(), &value, sizeof value); }
  // A WRITE of a later PSN lies over the first `size` bytes.
  void cover(std::size_t size) {
    room().begin();
    wire::Packet later = packet(RcOp::kWriteMiddle);
    later.bth.psn = window.base() + 1;
    later.payload = ConstBytes{bytes}.subspan(kMtu, size);
    out_of_order->early.note_placed(window.base(), later, bytes.data());
  }
  void expect_no_effect(std::uint64_t word_before) {
    EXPECT_EQ(first_word(), word_before);
    EXPECT_TRUE(resources.empty());
    EXPECT_EQ(messages.msn(), kMsn);
    EXPECT_EQ(resources.find_atomic(window.base()), nullptr);
  }

  std::array<std::byte, 8> word{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  Outcome outcome;
};

TEST(ExecutionOfAnswered, EachHasAResponseInItsTurn) {
  for (const RcOp op : kOps) {
    Answering responder;
    EXPECT_EQ(responder.execute(responder.packet(op)), Verdict::kDone);
    ASSERT_EQ(responder.resources.size(), 1U);
    const Response& response = responder.resources.front();
    EXPECT_EQ(response.kind, wire::is_atomic(op) ? Kind::kAtomic : Kind::kRead);
    EXPECT_TRUE(response.bitmap);
    EXPECT_FALSE(response.replay);
    EXPECT_EQ(response.psn, responder.window.base());
    EXPECT_EQ(response.msn, kMsn + 1) << "with itself";
    EXPECT_EQ(response.message, kMessage);
    EXPECT_EQ(response.bytes_left, op == RcOp::kReadRequest ? 8U : 0U);
    EXPECT_EQ(responder.messages.msn(), kMsn + 1);
    EXPECT_EQ(responder.messages.rsn(), 0U);
  }
}

TEST(ExecutionOfAnswered, InsideAnotherMessageTheyAreRefused) {
  for (const RcOp op : kOps) {
    Answering responder;
    const std::uint64_t before = responder.first_word();
    responder.messages.go_on(ReceivedMessages::Kind::kSend, 1);
    EXPECT_EQ(responder.execute(responder.packet(op)), Verdict::kInvalidRequest);
    responder.expect_no_effect(before);
  }
}

TEST(ExecutionOfAnswered, WithoutTheRightOrTheKeyTheyAreRefused) {
  for (const RcOp op : kOps) {
    Answering responder;
    const std::uint64_t before = responder.first_word();
    wire::Packet packet = responder.packet(op);
    ++packet.reth.rkey;
    ++packet.atomic.rkey;
    EXPECT_EQ(responder.execute(packet), Verdict::kAccessError);
    responder.identity.attributes.access = 0;
    EXPECT_EQ(responder.execute(responder.packet(op)), Verdict::kInvalidRequest);
    responder.expect_no_effect(before);
  }
}

TEST(ExecutionOfAnswered, WithoutRoomForTheResponseTheyAreNotReady) {
  for (const RcOp op : kOps) {
    Answering responder;
    const std::uint64_t before = responder.first_word();
    responder.fill_all();
    const std::size_t waiting = responder.resources.size();
    EXPECT_EQ(responder.execute(responder.packet(op)), Verdict::kNotReady);
    EXPECT_EQ(responder.resources.size(), waiting);
    EXPECT_EQ(responder.first_word(), before) << "it comes again";
    EXPECT_EQ(responder.messages.msn(), kMsn);
  }
}

TEST(ExecutionOfAnswered, EachKindIsCounted) {
  Answering responder;
  for (const RcOp op : kOps) EXPECT_EQ(responder.execute(responder.packet(op)), Verdict::kDone);
  EXPECT_EQ(responder.count(Counter::kReadRequests), 1U);
  EXPECT_EQ(responder.count(Counter::kAtomicRequests), 2U);
  EXPECT_EQ(responder.count(Counter::kAtomicWriteRequests), 1U);
  EXPECT_EQ(responder.count(Counter::kFlushRequests), 1U);
}

// --- READs ---

TEST(ExecutionOfReads, TheResponseStatesWhatIsToBeRead) {
  Answering responder;
  wire::Packet request = responder.read(3 * kMtu);
  request.reth.address += kMtu;
  request.bxth.packet_index = 2;
  EXPECT_EQ(responder.execute(request), Verdict::kDone);
  const Response& response = responder.resources.front();
  EXPECT_EQ(response.rkey, responder.region->key);
  EXPECT_EQ(response.address, kStart + kMtu);
  EXPECT_EQ(response.bytes_left, 3 * kMtu);
  EXPECT_EQ(response.packet_index, 2U);
  EXPECT_FALSE(response.started);
}

TEST(ExecutionOfReads, BitmapResponsesAreLoggedForReports) {
  Answering responder;
  EXPECT_EQ(responder.execute(responder.read(2 * kMtu)), Verdict::kDone);
  ASSERT_NE(responder.log, nullptr);
  const SentResponse* const logged = responder.log->find(responder.window.base() + 1);
  ASSERT_NE(logged, nullptr);
  EXPECT_EQ(logged->packets, 2U);
  EXPECT_TRUE(logged->is_read);
  EXPECT_EQ(logged->since, responder.now);
}

TEST(ExecutionOfReads, StandardOnesAreNot) {
  Answering responder;
  wire::Packet request = responder.read(2 * kMtu);
  request.bitmap = false;
  EXPECT_EQ(responder.execute(request), Verdict::kDone);
  EXPECT_FALSE(responder.resources.front().bitmap);
  EXPECT_EQ(responder.log, nullptr);
}

TEST(ExecutionOfReads, ResponsesTakeNoPsnOfAnotherRequest) {
  for (const std::uint32_t length : {kMtu, 2 * kMtu}) {
    Answering responder;
    responder.window.receive(responder.window.base() + 1);
    EXPECT_EQ(responder.execute(responder.read(length)), length == kMtu ? Verdict::kDone : Verdict::kInvalidRequest);
  }
}

// --- atomics ---

TEST(ExecutionOfAtomics, TheOriginalIsReturnedAndRemembered) {
  Answering responder;
  responder.set_first_word(40);
  wire::Packet add = responder.packet(RcOp::kFetchAdd);
  add.atomic.swap_or_add = 2;
  EXPECT_EQ(responder.execute(add), Verdict::kDone);
  EXPECT_EQ(responder.first_word(), 42U);
  EXPECT_EQ(responder.resources.front().original, 40U);
  const auto* const result = responder.resources.find_atomic(add.bth.psn);
  ASSERT_NE(result, nullptr);
  EXPECT_EQ(result->original, 40U);
  EXPECT_EQ(result->msn, kMsn + 1);
}

TEST(ExecutionOfAtomics, ASwapHappensWhereTheWordIsAsCompared) {
  Answering responder;
  responder.set_first_word(42);
  wire::Packet swap = responder.packet(RcOp::kCompareSwap);
  swap.atomic.compare = 41;
  swap.atomic.swap_or_add = 7;
  EXPECT_EQ(responder.execute(swap), Verdict::kDone);
  EXPECT_EQ(responder.first_word(), 42U);
  swap.atomic.compare = 42;
  EXPECT_EQ(responder.execute(swap), Verdict::kDone);
  EXPECT_EQ(responder.first_word(), 7U);
}

TEST(ExecutionOfAtomics, TheWordIsAligned) {
  Answering responder;
  const std::uint64_t before = responder.first_word();
  wire::Packet add = responder.packet(RcOp::kFetchAdd);
  add.atomic.address += 4;
  EXPECT_EQ(responder.execute(add), Verdict::kInvalidRequest);
  responder.expect_no_effect(before);
}

// --- ATOMIC WRITEs and FLUSHes ---

TEST(ExecutionOfConfirmed, AnAtomicWriteStoresItsBytes) {
  Answering responder;
  EXPECT_EQ(responder.execute(responder.packet(RcOp::kAtomicWrite)), Verdict::kDone);
  EXPECT_EQ(std::memcmp(responder.bytes.data(), responder.word.data(), 8), 0);
  EXPECT_EQ(responder.resources.find_atomic(responder.window.base()), nullptr) << "a duplicate needs no record";
  ASSERT_NE(responder.log, nullptr);
  ASSERT_NE(responder.log->find(responder.window.base()), nullptr);
  EXPECT_FALSE(responder.log->find(responder.window.base())->is_read);
}

TEST(ExecutionOfConfirmed, WhatALaterWriteHasCoveredStays) {
  Answering responder;
  const std::array<std::byte, 4> before{responder.bytes[0], responder.bytes[1], responder.bytes[2], responder.bytes[3]};
  responder.cover(4);
  EXPECT_EQ(responder.execute(responder.packet(RcOp::kAtomicWrite)), Verdict::kDone);
  EXPECT_EQ(std::memcmp(responder.bytes.data(), before.data(), 4), 0);
  EXPECT_EQ(std::memcmp(responder.bytes.data() + 4, responder.word.data() + 4, 4), 0);
}

TEST(ExecutionOfConfirmed, AWatcherSeesAnAtomicWrite) {
  Answering responder;
  ASSERT_TRUE(responder.memory.watch(responder.region, true, nullptr).ok());
  EXPECT_EQ(responder.execute(responder.packet(RcOp::kFlush)), Verdict::kDone);
  EXPECT_TRUE(responder.environment.notices.arrivals.empty());
  EXPECT_EQ(responder.execute(responder.packet(RcOp::kAtomicWrite)), Verdict::kDone);
  ASSERT_EQ(responder.environment.notices.arrivals.size(), 1U);
  EXPECT_EQ(responder.environment.notices.arrivals.front().length, 8U);
}

TEST(ExecutionOfConfirmed, AFlushChangesNoMemory) {
  Answering responder;
  const std::uint64_t before = responder.first_word();
  EXPECT_EQ(responder.execute(responder.packet(RcOp::kFlush)), Verdict::kDone);
  EXPECT_EQ(responder.first_word(), before);
}

}  // namespace
}  // namespace brdma::qp
