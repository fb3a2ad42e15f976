// tests design BR-33, BR-38 (an idle queue pair costs its base length; state per queue pair). The memory that a queue
// pair reports is the memory that the allocator gets back when it is destroyed, in every state; and an idle one costs
// little.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <new>

#include "support/two_engines.h"

namespace {

// Bytes allocated and not freed. The size stands before each block.
std::size_t live_bytes = 0;
constexpr std::size_t kHead = alignof(std::max_align_t);

void* take(std::size_t bytes) {
  auto* const head = static_cast<std::byte*>(std::malloc(bytes + kHead));
  if (head == nullptr) throw std::bad_alloc();
  ::new (head) std::size_t{bytes};
  live_bytes += bytes;
  return head + kHead;
}

void give(void* block) {
  if (block == nullptr) return;
  std::byte* const head = static_cast<std::byte*>(block) - kHead;
  live_bytes -= *reinterpret_cast<const std::size_t*>(head);
  std::free(head);
}

}  // namespace

void* operator new(std::size_t bytes) { return take(bytes); }
void* operator new[](std::size_t bytes) { return take(bytes); }
void operator delete(void* block) noexcept { give(block); }
void operator delete[](void* block) noexcept { give(block); }
void operator delete(void* block, std::size_t) noexcept { give(block); }
void operator delete[](void* block, std::size_t) noexcept { give(block); }

namespace brdma::test {
namespace {

constexpr std::size_t kRecoveryMax = 66;  // all that bitmap recovery adds, windows apart
// Of the 2,048 bytes that a program may see, the verbs object takes 416, the allocator and tables some 60.
constexpr std::size_t kConnectedMax = 1552;

qp::MemoryUse memory_of(const TwoEngines& pair, int i) { return qp::memory_use(*pair.side[i].qp); }

void print(const char* what, const qp::MemoryUse& use) {
  std::printf("%-28s windows %6zu  recovery %5zu  transport %5zu  queues %6zu  total %6zu\n", what, use.windows,
              use.recovery, use.transport, use.queues, use.total());
}

// Destroys the queue pair of side `i`: that must free as much as it reported.
void expect_true(TwoEngines& pair, int i) {
  Engine& engine = *pair.side[i].engine;
  const std::size_t said = memory_of(pair, i).total();
  const std::size_t live = live_bytes, pooled = engine.recovery_status().pool_bytes;
  ASSERT_TRUE(engine.destroy_qp(pair.side[i].qp).ok());
  const std::size_t returned = engine.recovery_status().pool_bytes - pooled;
  EXPECT_EQ(said, live - live_bytes + returned);
  pair.side[i].qp = nullptr;
}

void expect_true(TwoEngines& pair) {
  for (int i = 0; i < 2; ++i) expect_true(pair, i);
}

// Of each kind some, in both directions.
void exchange(TwoEngines& pair, std::uint64_t rounds) {
  for (std::uint64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(pair.post_receive(1 - i, 512 * 1024, 8192, round).ok());
      EXPECT_TRUE(pair.post(i, pair.write(i, 0, 32 * 1024, round)).ok());
      EXPECT_TRUE(pair.post(i, pair.request(i, WorkOpcode::kSend, 0, 4096, round)).ok());
      EXPECT_TRUE(pair.post(i, pair.request(i, WorkOpcode::kRdmaRead, 64 * 1024, 16 * 1024, round)).ok());
    }
    EXPECT_TRUE(pair.run_until_idle());
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(pair.poll(i).size(), 3u);
      EXPECT_EQ(pair.poll_receives(i).size(), 1u);
    }
  }
}

PairOptions small_queues() {
  PairOptions options;  // as in tests/bench/idle_qps.cc
  options.capabilities = {.send_wr_max = 16, .receive_wr_max = 16, .send_sge_max = 1, .receive_sge_max = 1};
  return options;
}

TEST(DeviceMemory, AnIdleQueuePairCostsLittle) {
  TwoEngines pair{small_queues()};
  const qp::MemoryUse use = memory_of(pair, 0);
  print("connected, never used", use);
  EXPECT_LE(use.recovery, kRecoveryMax);
  EXPECT_LE(use.total(), kConnectedMax);
  expect_true(pair);
}

TEST(DeviceMemory, OneThatHasBeenUsedGivesBackItsWindows) {
  TwoEngines pair{small_queues()};
  const qp::MemoryUse fresh = memory_of(pair, 0);
  exchange(pair, 4);
  const qp::MemoryUse use = memory_of(pair, 0);
  print("used, idle again", use);
  EXPECT_LE(use.recovery, kRecoveryMax);
  EXPECT_LE(use.windows, fresh.windows + 2 * 64) << "at most short directories stay";
  expect_true(pair);
}

TEST(DeviceMemory, AfterLossesTheRecordsAreGone) {
  TwoEngines pair{small_queues()};
  pair.drop = [n = 0](const Sent& sent) mutable { return sent.data() && ++n % 11 == 0; };
  exchange(pair, 8);
  const qp::MemoryUse use = memory_of(pair, 0);
  print("after losses, idle again", use);
  EXPECT_LE(use.recovery, kRecoveryMax);
  EXPECT_LE(use.windows, 512u);
  expect_true(pair);
}

TEST(DeviceMemory, TheAccountIsRightInTheMiddleOfIt) {
  for (const bool inlined : {false, true}) {
    PairOptions options;
    options.recovery.granularity = inlined ? 4 : 1;
    TwoEngines pair{options};
    pair.drop = [n = 0](const Sent& sent) mutable { return sent.data() && ++n % 7 == 0; };
    for (std::uint64_t i = 0; i < 24; ++i) {
      SendRequest request = pair.write(0, 4096 * i, inlined ? 200 : 30'000, i);
      if (inlined) request.flags |= kSendInline;
      ASSERT_TRUE(pair.post(0, request).ok());
    }
    pair.run_for(30_us);
    ASSERT_GT(pair.side[1].engine->recovery_status().gaps, 0u);
    print("sender of many", memory_of(pair, 0));
    print("receiver with gaps", memory_of(pair, 1));
    expect_true(pair);
  }
}

TEST(DeviceMemory, PathsAndLargeTransfersAreInTheAccount) {
  PairOptions options;
  options.transfer[0] = options.transfer[1] = {.threshold_bytes = 1024, .segment_bytes = 16 * 1024};
  TwoEngines pair{options};
  pair.drop = [n = 0](const Sent& sent) mutable { return sent.data() && ++n % 13 == 0; };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 512 * 1024, 1)).ok());
  pair.run_for(40_us);
  print("sender of operations", memory_of(pair, 0));
  print("receiver of operations", memory_of(pair, 1));
  expect_true(pair);
}

}  // namespace
}  // namespace brdma::test
