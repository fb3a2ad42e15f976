// A requester's work requests: READs and their limits, local faults, completions; and the negotiation of bitmap mode.
// One rule a test.
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <cerrno>

#include "support/two_engines.h"
#include "wire/control.h"

namespace brdma::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// --- READs ---

TEST(Reads, OnlyTheMissingResponsesAreRequestedAgain) {
  for (const RecoveryMode mode : {RecoveryMode::kBitmap, RecoveryMode::kStandard}) {
    PairOptions options;
    options.mode[0] = options.mode[1] = mode;
    TwoEngines pair{options};
    pair.fill(1, 4);
    pair.drop = [](const Sent& s) {  // third and fourth response, first copies
      return s.from == 1 && !s.data() && s.copy == 1 && (s.psn() == 1002 || s.psn() == 1003) &&
             s.bth().opcode < wire::kTransportControl;
    };
    ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 0, 15 * 1024, 1)).ok());
    ASSERT_TRUE(pair.run_until_idle());
    EXPECT_EQ(pair.poll(0).size(), 1u);
    EXPECT_TRUE(pair.same(0, 15 * 1024));
    std::vector<std::pair<std::uint32_t, std::uint32_t>> asked;
    for (const Sent& each : pair.wire) {
      if (each.from == 0 && each.data()) asked.emplace_back(each.psn(), each.packet().reth.length);
    }
    EXPECT_THAT(asked, ElementsAre(std::pair{1000u, 15u * 1024}, std::pair{1002u, 2u * 1024}));
    EXPECT_EQ(pair.side[0].count(Counter::kReadsReissued), 1u);
    EXPECT_EQ(pair.side[0].count(Counter::kLocalAckTimeout), 0u);
  }
}

TEST(Reads, ReorderedResponsesAreNotRequestedAgain) {
  TwoEngines pair;
  pair.fill(1, 5);
  pair.extra_delay = [](const Sent& s) { return s.from == 1 && s.psn() == 1002 ? 40_us : Duration{}; };
  pair.options.recovery.depth_max = 8;
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 0, 6 * 1024, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_TRUE(pair.same(0, 6 * 1024));
  EXPECT_EQ(pair.side[0].count(Counter::kReadsReissued), 0u);
}

TEST(Reads, AreCutToOwnCreditAndToMaxRdAtomic) {
  PairOptions options;
  options.receive_packets = 16;
  options.receive_bytes = 16 * 1024;
  options.max_rd_atomic = 2;
  options.capabilities.send_wr_max = 16;
  TwoEngines pair{options};
  pair.fill(1, 6);
  std::uint64_t most = 0;
  std::uint32_t messages = 0;
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 0, 300'000, 1)).ok());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kAtomicFetchAdd, 400'000, 8, 2)).ok());
  }
  for (int step = 0; step < 100'000 && pair.side[0].qp->requester().snapshot().work_requests > 0; ++step) {
    pair.run_for(1_us);
    const auto now = pair.side[0].qp->requester().snapshot();
    most = std::max(most, now.responses_bytes);
    messages = std::max(messages, now.responses_messages);
  }
  EXPECT_TRUE(pair.same(0, 300'000));
  // The share is never below eight packets of the largest path MTU.
  EXPECT_LE(most, 8u * 4096);
  EXPECT_EQ(messages, 2u);
  EXPECT_EQ(pair.poll(0).size(), 11u);
}

TEST(Reads, AFenceWaitsForThem) {
  TwoEngines pair;
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 0, 10'000, 1)).ok());
  auto fenced = pair.write(0, 20'000, 100, 2);
  fenced.flags |= kSendFence;
  ASSERT_TRUE(pair.post(0, fenced).ok());
  ASSERT_TRUE(pair.run_until_idle());
  Instant last_response, write;
  for (const Sent& each : pair.wire) {
    if (each.from == 1 && wire::is_read_response(each.packet().op) && !each.control(wire::Control::kBitmapAck)) {
      last_response = each.at;
    }
    if (each.from == 0 && each.data() && wire::is_write(each.packet().op)) write = each.at;
  }
  EXPECT_EQ((write - last_response).ns(), pair.options.one_way_delay.ns());
}

// --- local faults ---

TEST(LocalFaults, ABadKeyFailsInItsTurnAndFlushesTheRest) {
  TwoEngines pair;
  const Sge bad{pair.side[0].at(0), 3000, pair.side[0].key ^ 1};
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 3000, 1)).ok());
  auto request = pair.write(0, 0, 0, 2);
  request.sges = {&bad, 1};
  ASSERT_TRUE(pair.post(0, request).ok());
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 3000, 3)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  const auto done = pair.poll(0);
  ASSERT_EQ(done.size(), 3u);
  EXPECT_EQ(done[0].status, CompletionStatus::kSuccess);
  EXPECT_EQ(done[1].status, CompletionStatus::kLocalProtectionError);
  EXPECT_EQ(done[2].status, CompletionStatus::kFlushed);
  EXPECT_EQ(pair.state(0), QpState::kErr);
}

TEST(LocalFaults, AReadIntoMemoryThatMayNotBeWrittenIsNeverSent) {
  TwoEngines pair;
  MemoryRegion* region =
      pair.side[0].engine->register_memory(pair.side[0].pd, pair.side[0].at(0), 4096, pair.side[0].at(0), 0).value();
  const Sge sge{pair.side[0].at(0), 4096, pair.side[0].engine->info(region).lkey};
  auto request = pair.request(0, WorkOpcode::kRdmaRead, 0, 0, 1);
  request.sges = {&sge, 1};
  ASSERT_TRUE(pair.post(0, request).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).at(0).status, CompletionStatus::kLocalProtectionError);
  EXPECT_EQ(pair.sent_by(0, [](const Sent& s) { return s.data(); }), 0u);
}

TEST(LocalFaults, PostingRefusesWhatCannotBe) {
  TwoEngines pair;
  const auto refused = [&](SendRequest request) { return pair.post(0, request).error(); };
  auto request = pair.write(0, 0, 100, 1);
  request.opcode = WorkOpcode::kBindMw;
  EXPECT_EQ(refused(request), EINVAL);
  request.opcode = static_cast<WorkOpcode>(77);
  EXPECT_EQ(refused(request), EINVAL);
  request = pair.write(0, 0, 100, 1);
  request.flags |= 1u << 20;
  EXPECT_EQ(refused(request), EINVAL);
  const std::vector<Sge> five(5, Sge{pair.side[0].at(0), 8, pair.side[0].key});
  request = pair.write(0, 0, 100, 1);
  request.sges = five;
  EXPECT_EQ(refused(request), EINVAL);
  request.flags |= kSendInline;
  EXPECT_EQ(refused(request), 0) << "inline pieces are copied: their number does not matter";
  request = pair.write(0, 0, 257, 1);
  request.flags |= kSendInline;
  EXPECT_EQ(refused(request), EINVAL);
  request = pair.request(0, WorkOpcode::kRdmaRead, 0, 8, 1);
  request.flags |= kSendInline;
  EXPECT_EQ(refused(request), EINVAL);
  EXPECT_EQ(refused(pair.request(0, WorkOpcode::kAtomicFetchAdd, 0, 7, 1)), EINVAL);
  EXPECT_EQ(refused(pair.request(0, WorkOpcode::kAtomicWrite, 0, 7, 1)), EINVAL);
  EXPECT_EQ(refused(pair.request(0, WorkOpcode::kAtomicWrite, 0, 16, 1)), EINVAL);
  EXPECT_EQ(refused(pair.request(0, WorkOpcode::kAtomicWrite, 0, 8, 1, 4)), EINVAL);
  auto flush = pair.request(0, WorkOpcode::kFlush, 0, 0, 1);
  for (const std::uint64_t kind : {0x0, 0x4, 0x201}) {  // no placement, an unknown one, an unknown selectivity
    flush.swap = kind;
    EXPECT_EQ(refused(flush), EINVAL) << kind;
  }
  flush.swap = wire::kFlushGlobal;
  flush.compare_or_add = std::uint64_t{1} << 32;
  EXPECT_EQ(refused(flush), EINVAL);
  const std::vector<Sge> huge(4, Sge{pair.side[0].at(0), 1u << 29, pair.side[0].key});
  request = pair.write(0, 0, 100, 1);
  request.sges = huge;
  EXPECT_EQ(refused(request), EINVAL);
  // A count that leads beyond the list is refused before the list is read: its page may not be there.
  Sge* const nowhere = static_cast<Sge*>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(nowhere, MAP_FAILED);
  request.sges = {nowhere, std::size_t{1} << 31};
  EXPECT_EQ(refused(request), EINVAL);
  request.flags |= kSendInline;
  EXPECT_EQ(refused(request), EINVAL);
  munmap(nowhere, 4096);
  ASSERT_TRUE(pair.run_until_idle());
  pair.poll(0);
  for (std::uint32_t n = 0; n < pair.options.capabilities.send_wr_max; ++n) {
    ASSERT_EQ(refused(pair.write(0, 0, 100, n)), 0);
  }
  EXPECT_EQ(refused(pair.write(0, 0, 100, 1)), ENOMEM);
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), pair.options.capabilities.send_wr_max);
}

TEST(Completions, UnsignaledOnesAreSilentUnlessEverySignalIsWanted) {
  for (const bool all : {false, true}) {
    PairOptions options;
    options.signal_all = all;
    TwoEngines pair{options};
    for (std::uint64_t n = 0; n < 4; ++n) {
      auto request = pair.write(0, 0, 100, n);
      if (n != 2) request.flags = 0;
      ASSERT_TRUE(pair.post(0, request).ok());
    }
    ASSERT_TRUE(pair.run_until_idle());
    const auto done = pair.poll(0);
    ASSERT_EQ(done.size(), all ? 4u : 1u);
    if (!all) {
      EXPECT_EQ(done[0].wr_id, 2u);
    }
    EXPECT_EQ(pair.side[0].qp->requester().snapshot().work_requests, 0u) << "what is behind it is acknowledged too";
  }
}

TEST(Completions, ErrorFlushesInOrder) {
  TwoEngines pair;
  pair.paused[1] = true;
  for (std::uint64_t n = 0; n < 10; ++n) ASSERT_TRUE(pair.post(0, pair.write(0, 0, 5000, n)).ok());
  for (std::uint64_t n = 0; n < 5; ++n) ASSERT_TRUE(pair.post_receive(0, 0, 100, 100 + n).ok());
  pair.round();
  ASSERT_TRUE(pair.modify(0, QpState::kErr, kQpAttrState).ok());
  const auto done = pair.poll(0);
  ASSERT_EQ(done.size(), 10u);
  for (std::uint64_t n = 0; n < 10; ++n) {
    EXPECT_EQ(done[n].wr_id, n);
    EXPECT_EQ(done[n].status, CompletionStatus::kFlushed);
  }
  const auto received = pair.poll_receives(0);
  ASSERT_EQ(received.size(), 5u);
  for (std::uint64_t n = 0; n < 5; ++n) EXPECT_EQ(received[n].wr_id, 100 + n);
  EXPECT_EQ(pair.side[0].count(Counter::kFlushedCompletions), 15u);
  EXPECT_FALSE(pair.side[0].engine->next_timeout().has_value());
}

// --- negotiation ---

TEST(Negotiation, SendsEightQueriesWithDoublingPauses) {
  PairOptions options;
  options.mode[1] = RecoveryMode::kStandard;
  options.settle = false;
  TwoEngines pair{options};
  pair.run_for(1_s);
  std::vector<std::int64_t> pauses;
  Instant before;
  for (const Sent& each : pair.wire) {
    if (!each.control(wire::Control::kCaps)) continue;
    EXPECT_EQ(each.from, 0);
    if (before != Instant{}) pauses.push_back((each.at - before).ns() / 1000);
    before = each.at;
  }
  EXPECT_THAT(pauses, ElementsAre(500, 1000, 2000, 4000, 8000, 16000, 32000));
  EXPECT_EQ(pair.side[0].count(Counter::kBitmapQps), 0u);
  EXPECT_EQ(pair.side[1].count(DropReason::kUnknownOpcode), 8u);
  pair.fill(0, 1);
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 5000, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_TRUE(pair.same(0, 5000)) << "standard packets need no agreement";
}

TEST(Negotiation, SurvivesTheLossOfEitherDirection) {
  for (int lost = 0; lost < 2; ++lost) {
    PairOptions options;
    options.settle = false;
    TwoEngines pair{options};
    int left = 2;
    pair.drop = [&](const Sent& s) { return s.from == lost && s.control(wire::Control::kCaps) && left-- > 0; };
    pair.run_for(20_ms);
    EXPECT_EQ(pair.side[0].count(Counter::kBitmapQps), 1u);
    EXPECT_EQ(pair.side[1].count(Counter::kBitmapQps), 1u);
  }
}

TEST(Negotiation, DifferentPathMtusStayStandard) {
  PairOptions options;
  options.connect = false;
  TwoEngines pair{options};
  pair.connect(0);
  pair.options.mtu = PathMtu::k2048;
  pair.connect(1);
  pair.run_for(20_ms);
  EXPECT_EQ(pair.side[0].count(Counter::kBitmapQps) + pair.side[1].count(Counter::kBitmapQps), 0u);
  EXPECT_GT(pair.side[0].count(Counter::kCapsReceived), 0u);
}

TEST(Negotiation, WhatWasSentBeforeTheAgreementIsRepairedInBitmapPackets) {
  PairOptions options;
  options.settle = false;
  TwoEngines pair{options};
  pair.fill(0, 8);
  pair.drop = [](const Sent& s) { return s.from == 0 && s.data() && s.psn() == 1002 && s.copy == 1; };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 20 * 1024, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_TRUE(pair.same(0, 20 * 1024));
  EXPECT_EQ(pair.poll(0).size(), 1u);
  for (const Sent& each : pair.wire) {
    if (each.from == 0 && each.data() && each.copy == 2) {
      EXPECT_TRUE(each.packet().bitmap);
    }
  }
}

}  // namespace
}  // namespace brdma::test
