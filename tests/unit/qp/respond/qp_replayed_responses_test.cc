// Duplicates of READs, atomics, ATOMIC WRITEs and FLUSHes are answered again (qp/respond/replayed_responses.h).
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "qp/respond/replayed_responses.h"
#include "support/responder_parts.h"

namespace brdma::qp {
namespace {

using Kind = Response::Kind;
using wire::RcOp;

constexpr std::uint32_t kMtu = test::ResponderParts::kMtu, kMessage = 3;
constexpr RcOp kConfirmed[] = {RcOp::kAtomicWrite, RcOp::kFlush};

struct Answering : test::ResponderParts {
  static wire::Packet request(RcOp op, std::uint32_t psn) {
    wire::Packet packet;
    packet.op = op;
    packet.bitmap = packet.bxth.retransmitted = true;
    packet.bth.psn = Psn{psn};
    packet.bxth.msn = kMessage;
    return packet;
  }
  [[nodiscard]] wire::Packet read(std::uint32_t psn, std::uint32_t length) const {
    wire::Packet packet = request(RcOp::kReadRequest, psn);
    packet.reth = {.address = kStart, .rkey = region->key, .length = length};
    return packet;
  }
  // Why the duplicate is dropped.
  std::optional<DropReason> answer(const wire::Packet& packet) { return replayed().answer(packet, now); }
  // A switch has reported the response, so it has left again.
  void leave_after_report(std::uint32_t psn) {
    (void)repeated().on_report({.first = Psn{psn}, .last = Psn{psn}, .responses = true}, now);
    ASSERT_EQ(resources.size(), 1U);
    on_left_again(environment, log.get(), resources.front(), now);
    resources.pop();
  }
  // Batches of two responses leave over two paths in turn, from PSN 990 on.
  void spray() {
    config.source_ports = {0xC000, 0xC001};
    paths = std::make_unique<ResponsePaths>(2, Spraying::kRoundRobin);
    for (std::uint32_t first = 990; first < 1002; first += 2) {
      const std::uint8_t path = paths->choose({}, std::nullopt, now);
      (void)paths->sent(path, Psn{first}, false);
      (void)paths->sent(path, Psn{first + 1}, false);
      paths->batch_left(path, now);
    }
  }
  // All responses on the second path are requested again.
  std::optional<DropReason> lose_second_path() {
    std::optional<DropReason> last;
    for (const std::uint32_t psn : {992u, 996u, 1000u}) last = answer(read(psn, 2 * kMtu));
    return last;
  }
};

// --- READs ---

TEST(ReplayedResponses, AReadsDataIsReadAgain) {
  Answering responder;
  wire::Packet request = responder.read(1001, 2 * kMtu + 100);
  request.reth.address += kMtu;
  request.bxth.packet_index = 1;
  EXPECT_EQ(responder.answer(request), std::nullopt);
  ASSERT_EQ(responder.resources.size(), 1U);
  const Response& response = responder.resources.front();
  EXPECT_EQ(response.kind, Kind::kRead);
  EXPECT_TRUE(response.bitmap && response.replay);
  EXPECT_FALSE(response.started || response.by_reference || response.unasked);
  EXPECT_EQ(response.psn, Psn{1001});
  EXPECT_EQ(response.msn, Answering::kMsn);
  EXPECT_EQ(response.rkey, responder.region->key);
  EXPECT_EQ(response.address, Answering::kStart + kMtu);
  EXPECT_EQ(response.bytes_left, 2 * kMtu + 100);
  EXPECT_EQ(response.message, kMessage);
  EXPECT_EQ(response.packet_index, 1U);
}

TEST(ReplayedResponses, AStandardOneIsAnsweredSo) {
  Answering responder;
  wire::Packet request = responder.read(1001, kMtu);
  request.bitmap = false;
  EXPECT_EQ(responder.answer(request), std::nullopt);
  EXPECT_FALSE(responder.resources.front().bitmap);
}

TEST(ReplayedResponses, TheRightIsCheckedAgain) {
  Answering responder;
  responder.identity.attributes.access = 0;
  EXPECT_EQ(responder.answer(responder.read(1001, kMtu)), DropReason::kEarlyInvalid);
  EXPECT_TRUE(responder.resources.empty());
}

TEST(ReplayedResponses, AReadReachesAtMostTheBase) {
  Answering responder;
  EXPECT_EQ(responder.answer(responder.read(1009, 2 * kMtu)), DropReason::kOutOfWindow);
  EXPECT_TRUE(responder.resources.empty());
  EXPECT_EQ(responder.answer(responder.read(1008, 2 * kMtu)), std::nullopt);
}

TEST(ReplayedResponses, ByReferenceItTakesOnePsn) {
  Answering responder;
  wire::Packet request = responder.read(1009, 2 * kMtu);
  request.bxth.operation = wire::Bxth::kByReference;
  EXPECT_EQ(responder.answer(request), std::nullopt);
  EXPECT_TRUE(responder.resources.front().by_reference);
}

TEST(ReplayedResponses, WhatWaitsIsNotQueuedAgain) {
  Answering responder;
  EXPECT_EQ(responder.answer(responder.read(1000, 4 * kMtu)), std::nullopt);
  EXPECT_EQ(responder.answer(responder.read(1001, 2 * kMtu)), DropReason::kDuplicate);
  EXPECT_EQ(responder.resources.size(), 1U);
  EXPECT_EQ(responder.answer(responder.read(1003, 2 * kMtu)), std::nullopt) << "a part of it does not wait";
}

TEST(ReplayedResponses, WhatHasJustLeftAfterAReportIsNotSentAgain) {
  Answering responder;
  const wire::Packet request = responder.read(1001, kMtu);
  log_response(responder.log, responder.identity, read_response_of(request, 1), /*is_read=*/true, kMtu, responder.now);
  responder.leave_after_report(1001);
  EXPECT_EQ(responder.answer(request), DropReason::kDuplicate);
  EXPECT_EQ(responder.count(Counter::kReplaysEdn), 1U);
  EXPECT_TRUE(responder.resources.empty());
}

// --- atomics ---

TEST(ReplayedResponses, AnAtomicsResultWasKept) {
  for (const RcOp op : {RcOp::kCompareSwap, RcOp::kFetchAdd}) {
    Answering responder;
    responder.resources.remember_atomic(Psn{1005}, 42, 5);
    EXPECT_EQ(responder.answer(Answering::request(op, 1005)), std::nullopt);
    ASSERT_EQ(responder.resources.size(), 1U);
    const Response& response = responder.resources.front();
    EXPECT_EQ(response.kind, Kind::kAtomic);
    EXPECT_TRUE(response.bitmap && response.replay);
    EXPECT_EQ(response.psn, Psn{1005});
    EXPECT_EQ(response.msn, 5U) << "as it was then";
    EXPECT_EQ(response.original, 42U);
    EXPECT_EQ(response.message, kMessage);
  }
}

TEST(ReplayedResponses, AnAtomicsResultThatWaitsIsNotQueuedAgain) {
  Answering responder;
  responder.resources.remember_atomic(Psn{1005}, 42, 5);
  EXPECT_EQ(responder.answer(Answering::request(RcOp::kFetchAdd, 1005)), std::nullopt);
  EXPECT_EQ(responder.answer(Answering::request(RcOp::kFetchAdd, 1005)), DropReason::kDuplicate);
  EXPECT_EQ(responder.resources.size(), 1U);
}

TEST(ReplayedResponses, AForgottenAtomicIsNotExecuted) {
  Answering responder;
  responder.resources.remember_atomic(Psn{1005}, 42, 5);
  EXPECT_EQ(responder.answer(Answering::request(RcOp::kFetchAdd, 1004)), DropReason::kDuplicate);
  EXPECT_TRUE(responder.resources.empty());
}

TEST(ReplayedResponses, AnAtomicsResultThatHasJustLeftIsNotSentAgain) {
  Answering responder;
  responder.resources.remember_atomic(Psn{1005}, 42, 5);
  responder.leave_after_report(1005);
  EXPECT_EQ(responder.answer(Answering::request(RcOp::kFetchAdd, 1005)), DropReason::kDuplicate);
  EXPECT_EQ(responder.count(Counter::kReplaysEdn), 1U);
}

// --- ATOMIC WRITEs and FLUSHes ---

TEST(ReplayedResponses, AConfirmationHasNoData) {
  for (const RcOp op : kConfirmed) {
    Answering responder;
    wire::Packet request = Answering::request(op, 1005);
    request.reth = {.address = Answering::kStart, .rkey = 77, .length = 8};
    EXPECT_EQ(responder.answer(request), std::nullopt) << "it was executed: the key does not matter";
    ASSERT_EQ(responder.resources.size(), 1U);
    const Response& response = responder.resources.front();
    EXPECT_EQ(response.kind, Kind::kRead);
    EXPECT_TRUE(response.bitmap && response.replay);
    EXPECT_EQ(response.psn, Psn{1005});
    EXPECT_EQ(response.msn, Answering::kMsn);
    EXPECT_EQ(response.message, kMessage);
    EXPECT_EQ(response.bytes_left, 0U);
    EXPECT_EQ(responder.answer(request), DropReason::kDuplicate) << "it waits";
    EXPECT_EQ(responder.resources.size(), 1U);
  }
}

TEST(ReplayedResponses, AConfirmationThatHasJustLeftIsNotSentAgain) {
  for (const RcOp op : kConfirmed) {
    Answering responder;
    const wire::Packet request = Answering::request(op, 1005);
    log_response(responder.log, responder.identity, confirmation_of(request, 1), /*is_read=*/false, kMtu,
                 responder.now);
    responder.leave_after_report(1005);
    EXPECT_EQ(responder.answer(request), DropReason::kDuplicate);
    EXPECT_EQ(responder.count(Counter::kReplaysEdn), 1U);
  }
}

// --- all of them ---

TEST(ReplayedResponses, APeerOfBitmapModeGetsAnAcknowledgementToo) {
  Answering responder;
  EXPECT_EQ(responder.answer(Answering::request(RcOp::kFetchAdd, 1005)), DropReason::kDuplicate);
  EXPECT_TRUE(responder.ack.forced());
}

TEST(ReplayedResponses, AStandardPeerGetsNone) {
  Answering responder;
  responder.bitmap = false;
  EXPECT_EQ(responder.answer(responder.read(1001, kMtu)), std::nullopt);
  EXPECT_FALSE(responder.ack.pending());
}

TEST(ReplayedResponses, WithoutRoomThePeerAsksAgain) {
  Answering responder;
  responder.resources.remember_atomic(Psn{1005}, 42, 5);
  responder.fill();
  const std::size_t full = responder.resources.size();
  EXPECT_EQ(responder.answer(responder.read(1001, kMtu)), DropReason::kHoldFull);
  EXPECT_EQ(responder.answer(Answering::request(RcOp::kFetchAdd, 1005)), DropReason::kHoldFull);
  EXPECT_EQ(responder.answer(Answering::request(RcOp::kFlush, 1006)), DropReason::kHoldFull);
  EXPECT_EQ(responder.resources.size(), full);
}

TEST(ReplayedResponses, OnSeveralPathsOneIsEvidenceOfALoss) {
  Answering responder;
  responder.spray();
  EXPECT_EQ(responder.lose_second_path(), std::nullopt);
  EXPECT_EQ(responder.count(Counter::kPathSilent), 1U);
}

TEST(ReplayedResponses, ADroppedOneIsNoEvidence) {
  Answering responder;
  responder.spray();
  responder.fill();
  EXPECT_EQ(responder.lose_second_path(), DropReason::kHoldFull);
  EXPECT_EQ(responder.count(Counter::kPathSilent), 0U);
}

TEST(ReplayedResponses, TheFirstResponseIsNoReplay) {
  const Answering responder;
  EXPECT_FALSE(read_response_of(responder.read(1010, kMtu), 1).replay);
  EXPECT_FALSE(confirmation_of(Answering::request(RcOp::kFlush, 1010), 1).replay);
}

}  // namespace
}  // namespace brdma::qp
