// Every opcode over a wire that loses nothing, in each mode, at sizes around multiples of the path MTU.
#include <gmock/gmock.h>

#include "support/two_engines.h"

namespace brdma::test {
namespace {

struct Case {
  RecoveryMode mode;
  bool v6;
  bool ip_id_known;
  std::uint32_t segments_max;
};

class Opcodes : public testing::TestWithParam<Case> {
 protected:
  static PairOptions options() {
    const Case& c = GetParam();
    PairOptions options;
    options.mode[0] = options.mode[1] = c.mode;
    options.v6 = c.v6;
    options.ip_id_known = c.ip_id_known;
    options.segments_max = c.segments_max;
    return options;
  }
  static void expect_clean(const TwoEngines& pair) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(pair.accepted_and_dropped(i), pair.side[i].count(Counter::kReceivedPackets));
      EXPECT_EQ(pair.side[i].count(Counter::kAcceptedPackets), pair.side[i].count(Counter::kReceivedPackets));
      EXPECT_EQ(pair.side[i].count(Counter::kLocalAckTimeout), 0u);
      EXPECT_EQ(pair.side[i].count(Counter::kBitmapQps), GetParam().mode == RecoveryMode::kBitmap ? 1u : 0u);
    }
  }
};

constexpr std::uint32_t kSizes[] = {0, 1, 3, 4, 1023, 1024, 1025, 2048, 2049, 5000, 65536, 300'000};

TEST_P(Opcodes, WritePlacesEveryByteAndNoOther) {
  TwoEngines pair{options()};
  for (const std::uint32_t size : kSizes) {
    pair.fill(0, size + 1);
    std::fill(pair.side[1].memory.begin(), pair.side[1].memory.end(), std::byte{0});
    ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaWrite, 100, size, size, 4096)).ok());
    ASSERT_TRUE(pair.run_until_idle());
    const auto done = pair.poll(0);
    ASSERT_EQ(done.size(), 1u) << size;
    EXPECT_EQ(done[0].wr_id, size);
    EXPECT_EQ(done[0].status, CompletionStatus::kSuccess);
    EXPECT_EQ(done[0].opcode, CompletionOpcode::kRdmaWrite);
    EXPECT_TRUE(pair.same(100, size, 4096)) << size;
    EXPECT_EQ(pair.side[1].memory[4095], std::byte{0});
    EXPECT_EQ(pair.side[1].memory[4096 + size], std::byte{0});
  }
  expect_clean(pair);
}

TEST_P(Opcodes, SendFillsTheReceivesInOrder) {
  TwoEngines pair{options()};
  pair.fill(0, 7);
  std::uint64_t at = 0;
  for (const std::uint32_t size : kSizes) {
    ASSERT_TRUE(pair.post_receive(1, at, size, 100 + size).ok());
    auto request = pair.request(0, WorkOpcode::kSendWithImm, at, size, size);
    request.immediate_be = 0x12345678;
    ASSERT_TRUE(pair.post(0, request).ok());
    at += size;
  }
  ASSERT_TRUE(pair.run_until_idle());
  const auto sent = pair.poll(0);
  const auto received = pair.poll_receives(1);
  ASSERT_EQ(sent.size(), std::size(kSizes));
  ASSERT_EQ(received.size(), std::size(kSizes));
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    EXPECT_EQ(sent[i].wr_id, kSizes[i]);
    EXPECT_EQ(received[i].wr_id, 100 + kSizes[i]);
    EXPECT_EQ(received[i].byte_length, kSizes[i]);
    EXPECT_EQ(received[i].immediate_be, 0x12345678u);
    EXPECT_EQ(received[i].flags, kCompletionWithImm);
  }
  EXPECT_TRUE(pair.same(0, at));
  expect_clean(pair);
}

TEST_P(Opcodes, ReadFetchesEveryByte) {
  TwoEngines pair{options()};
  for (const std::uint32_t size : kSizes) {
    pair.fill(1, size + 3);
    ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 8, size, size, 40)).ok());
    ASSERT_TRUE(pair.run_until_idle());
    const auto done = pair.poll(0);
    ASSERT_EQ(done.size(), 1u) << size;
    EXPECT_EQ(done[0].opcode, CompletionOpcode::kRdmaRead);
    EXPECT_EQ(done[0].byte_length, size);
    EXPECT_TRUE(pair.same(8, size, 40)) << size;
  }
  expect_clean(pair);
}

TEST_P(Opcodes, AtomicsReturnTheOriginal) {
  TwoEngines pair{options()};
  const auto word = [&](int i, std::size_t at) -> std::uint64_t& {
    return *reinterpret_cast<std::uint64_t*>(pair.side[i].memory.data() + at);
  };
  word(1, 64) = 41;
  auto add = pair.request(0, WorkOpcode::kAtomicFetchAdd, 0, 8, 1, 64);
  add.compare_or_add = 2;
  auto swap = pair.request(0, WorkOpcode::kAtomicCmpSwap, 8, 8, 2, 64);
  swap.compare_or_add = 43;
  swap.swap = 99;
  auto miss = pair.request(0, WorkOpcode::kAtomicCmpSwap, 16, 8, 3, 64);
  miss.compare_or_add = 43;
  miss.swap = 7;
  for (const auto& request : {add, swap, miss}) ASSERT_TRUE(pair.post(0, request).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), 3u);
  EXPECT_EQ(word(0, 0), 41u);
  EXPECT_EQ(word(0, 8), 43u);
  EXPECT_EQ(word(0, 16), 99u);
  EXPECT_EQ(word(1, 64), 99u);
  expect_clean(pair);
}

TEST_P(Opcodes, AtomicWriteAndFlushAreConfirmed) {
  TwoEngines pair{options()};
  pair.fill(0, 21);
  constexpr std::uint32_t kBytes = 4000;
  auto write = pair.request(0, WorkOpcode::kRdmaWrite, 0, kBytes, 1, 4096);
  auto word = pair.request(0, WorkOpcode::kAtomicWrite, 8192, 8, 2, 8192);
  auto range = pair.request(0, WorkOpcode::kFlush, 0, 0, 3, 4096);
  range.sges = {};
  range.compare_or_add = kBytes;
  range.swap = wire::kFlushGlobal | wire::kFlushRange << 8;
  auto region = range;
  region.wr_id = 4;
  region.remote_address = 0;  // not looked at
  region.swap = wire::kFlushGlobal | wire::kFlushRegion << 8;
  const Sge pieces[] = {{pair.side[0].at(100), 3, pair.side[0].key}, {pair.side[0].at(200), 5, pair.side[0].key}};
  auto scattered = pair.request(0, WorkOpcode::kAtomicWrite, 0, 0, 5, 8200);
  scattered.sges = pieces;
  std::uint64_t value = 0x1122334455667788;
  const Sge inlined[] = {{reinterpret_cast<std::uint64_t>(&value), 8, 0}};
  auto immediate = pair.request(0, WorkOpcode::kAtomicWrite, 0, 0, 6, 8208);
  immediate.sges = inlined;
  immediate.flags |= kSendInline | kSendFence;
  for (const auto& request : {write, word, range, region, scattered, immediate}) {
    ASSERT_TRUE(pair.post(0, request).ok());
  }
  ASSERT_TRUE(pair.run_until_idle());
  const auto done = pair.poll(0);
  ASSERT_EQ(done.size(), 6u);
  constexpr CompletionOpcode kExpected[] = {CompletionOpcode::kRdmaWrite,   CompletionOpcode::kAtomicWrite,
                                            CompletionOpcode::kFlush,       CompletionOpcode::kFlush,
                                            CompletionOpcode::kAtomicWrite, CompletionOpcode::kAtomicWrite};
  for (std::size_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i].wr_id, i + 1);
    EXPECT_EQ(done[i].status, CompletionStatus::kSuccess);
    EXPECT_EQ(done[i].opcode, kExpected[i]);
  }
  EXPECT_TRUE(pair.same(0, kBytes, 4096));
  EXPECT_TRUE(pair.same(8192, 8));
  EXPECT_TRUE(pair.same(100, 3, 8200) && pair.same(200, 5, 8203));
  EXPECT_EQ(std::memcmp(pair.side[1].memory.data() + 8208, &value, sizeof value), 0);
  EXPECT_EQ(pair.side[1].count(Counter::kAtomicWriteRequests), 3u);
  EXPECT_EQ(pair.side[1].count(Counter::kFlushRequests), 2u);
  expect_clean(pair);
}

TEST_P(Opcodes, WriteWithImmediateConsumesAReceive) {
  TwoEngines pair{options()};
  pair.fill(0, 9);
  ASSERT_TRUE(pair.post_receive(1, 0, 0, 77).ok());
  auto request = pair.request(0, WorkOpcode::kRdmaWriteWithImm, 0, 5000, 1);
  request.immediate_be = 0xAABBCCDD;
  ASSERT_TRUE(pair.post(0, request).ok());
  ASSERT_TRUE(pair.run_until_idle());
  const auto received = pair.poll_receives(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].opcode, CompletionOpcode::kReceiveRdmaWithImm);
  EXPECT_EQ(received[0].byte_length, 5000u);
  EXPECT_EQ(received[0].immediate_be, 0xAABBCCDDu);
  EXPECT_TRUE(pair.same(0, 5000));
  expect_clean(pair);
}

TEST_P(Opcodes, ScatterListsAndInlineData) {
  TwoEngines pair{options()};
  pair.fill(0, 11);
  const Sge list[] = {{pair.side[0].at(0), 1000, pair.side[0].key},
                      {pair.side[0].at(5000), 0, pair.side[0].key},
                      {pair.side[0].at(6000), 1, pair.side[0].key},
                      {pair.side[0].at(7000), 3000, pair.side[0].key}};
  auto request = pair.request(0, WorkOpcode::kRdmaWrite, 0, 0, 1, 20000);
  request.sges = list;
  ASSERT_TRUE(pair.post(0, request).ok());
  char text[] = "inline data is copied at post";
  const Sge inlined[] = {{reinterpret_cast<std::uint64_t>(text), sizeof text, 0}};
  auto second = pair.request(0, WorkOpcode::kRdmaWrite, 0, 0, 2, 30000);
  second.sges = inlined;
  second.flags |= kSendInline;
  ASSERT_TRUE(pair.post(0, second).ok());
  std::memset(text, '?', sizeof text);
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), 2u);
  EXPECT_TRUE(pair.same(0, 1000, 20000));
  EXPECT_TRUE(pair.same(6000, 1, 21000));
  EXPECT_TRUE(pair.same(7000, 3000, 21001));
  EXPECT_STREQ(reinterpret_cast<const char*>(pair.side[1].memory.data() + 30000), "inline data is copied at post");
  // And the reverse: READ responses go into several pieces.
  auto read = pair.request(0, WorkOpcode::kRdmaRead, 0, 0, 3, 40000);
  read.sges = list;
  pair.fill(1, 12);
  ASSERT_TRUE(pair.post(0, read).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_TRUE(pair.same(0, 1000, 40000));
  EXPECT_TRUE(pair.same(6000, 1, 41000));
  EXPECT_TRUE(pair.same(7000, 3000, 41001));
  expect_clean(pair);
}

TEST_P(Opcodes, MixedWorkCompletesInPostingOrderInBothDirections) {
  TwoEngines pair{options()};
  pair.fill(0, 13);
  pair.fill(1, 14);
  const auto left = pair.side[0].memory, right = pair.side[1].memory;
  for (int i = 0; i < 2; ++i) {
    const std::uint64_t area = i == 0 ? 0 : 500'000;
    for (std::uint64_t n = 0; n < 20; ++n) {
      const std::uint64_t at = area + n * 20'000;
      const auto length = static_cast<std::uint32_t>(n * 997);
      const auto opcode = n % 3 == 0 ? WorkOpcode::kRdmaRead : n % 3 == 1 ? WorkOpcode::kRdmaWrite : WorkOpcode::kSend;
      if (opcode == WorkOpcode::kSend) {
        ASSERT_TRUE(pair.post_receive(1 - i, at, length, n).ok());
      }
      auto request = pair.request(i, opcode, at, length, n);
      if (n % 4 == 3) request.flags |= kSendFence;
      ASSERT_TRUE(pair.post(i, request).ok());
    }
  }
  ASSERT_TRUE(pair.run_until_idle());
  for (int i = 0; i < 2; ++i) {
    const auto done = pair.poll(i);
    ASSERT_EQ(done.size(), 20u);
    for (std::uint64_t n = 0; n < 20; ++n) EXPECT_EQ(done[n].wr_id, n);
    const std::uint64_t area = i == 0 ? 0 : 500'000;
    for (std::uint64_t n = 0; n < 20; ++n) EXPECT_TRUE(pair.same(area + n * 20'000, n * 997)) << i << " " << n;
  }
  expect_clean(pair);
}

INSTANTIATE_TEST_SUITE_P(
    Modes, Opcodes,
    testing::Values(Case{RecoveryMode::kBitmap, false, true, 16}, Case{RecoveryMode::kBitmap, true, false, 64},
                    Case{RecoveryMode::kBitmap, false, false, 1}, Case{RecoveryMode::kStandard, false, true, 16},
                    Case{RecoveryMode::kStandard, false, false, 1}, Case{RecoveryMode::kStandard, true, false, 8},
                    Case{RecoveryMode::kGoBackN, false, false, 16}));

}  // namespace
}  // namespace brdma::test
