// Null regions in every kind of queue pair: zeros leave, arrivals vanish, whatever the address.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/two_engines.h"

namespace brdma::test {
namespace {

class NullMemory : public testing::TestWithParam<QpType> {
 protected:
  static constexpr std::size_t kBytes = 1 << 16;
  NullMemory() {
    for (int i = 0; i < 2; ++i) key[i] = pair.side[i].engine->info(null_region(i)).lkey;
    std::ranges::fill(pair.side[1].memory, std::byte{0xA5});
    std::ranges::fill(pair.side[0].memory, std::byte{0x5A});
  }
  MemoryRegion* null_region(int i) {
    return pair.side[i].engine->register_null(pair.side[i].pd, zeros.data(), sink.data()).value();
  }
  void send_from_nowhere(std::uint32_t bytes) {
    const Sge sge{~std::uint64_t{0} - 5, bytes, key[0]};
    SendRequest request = pair.request(0, WorkOpcode::kSend, 0, bytes, 1);
    request.sges = {&sge, 1};
    ASSERT_TRUE(pair.post(0, request).ok());
    ASSERT_TRUE(pair.run_until_idle());
    ASSERT_EQ(pair.poll(0).at(0).status, CompletionStatus::kSuccess);
    ASSERT_EQ(pair.poll_receives(1).at(0).status, CompletionStatus::kSuccess);
  }
  [[nodiscard]] std::uint32_t grh() const { return GetParam() == QpType::kUd ? 40 : 0; }

  static PairOptions options() {
    PairOptions made;
    made.type = GetParam();
    return made;
  }
  TwoEngines pair{options()};
  std::vector<std::byte> zeros = std::vector<std::byte>(kBytes), sink = std::vector<std::byte>(kBytes);
  std::uint32_t key[2] = {0, 0};
};

TEST_P(NullMemory, IsZeroOnTheWire) {
  for (const std::uint32_t bytes : {1u, 64u, 1000u}) {
    ASSERT_TRUE(pair.post_receive(1, 0, bytes + grh(), 1).ok());
    send_from_nowhere(bytes);
    const auto begin = pair.side[1].memory.begin() + grh();
    EXPECT_EQ(std::count(begin, begin + bytes, std::byte{}), bytes);
    EXPECT_EQ(*(begin + bytes), std::byte{0xA5});
    std::ranges::fill(pair.side[1].memory, std::byte{0xA5});
  }
}

TEST_P(NullMemory, KeepsNothingThatArrives) {
  const Sge into{123, 1000 + grh(), key[1]};
  ASSERT_TRUE(pair.side[1].engine->post_receive(pair.side[1].qp, {7, std::span<const Sge>{&into, 1}}, pair.now).ok());
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, 0, 1000, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  const auto received = pair.poll_receives(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].status, CompletionStatus::kSuccess);
  EXPECT_EQ(received[0].byte_length, 1000 + grh());
  EXPECT_TRUE(std::ranges::all_of(zeros, [](std::byte at) { return at == std::byte{}; }));
  EXPECT_TRUE(std::ranges::all_of(pair.side[1].memory, [](std::byte at) { return at == std::byte{0xA5}; }));
}

INSTANTIATE_TEST_SUITE_P(Types, NullMemory, testing::Values(QpType::kRc, QpType::kUc, QpType::kUd));

// Requests one after the other use a region that the cursor has found before.
TEST(NullMemoryOfOneQueuePair, AndOrdinaryMemoryAlternate) {
  TwoEngines pair;
  std::vector<std::byte> zeros(1 << 16), sink(1 << 16);
  auto& side = pair.side[0];
  MemoryRegion* const region = side.engine->register_null(side.pd, zeros.data(), sink.data()).value();
  const std::uint32_t key = side.engine->info(region).lkey;
  std::ranges::fill(side.memory, std::byte{0x5A});
  for (std::uint64_t n = 0; n < 8; ++n) {
    SendRequest request = pair.write(0, 1000 * n, 1000, n);
    const Sge nowhere{n << 60, 1000, key};
    if (n % 2 == 0) request.sges = {&nowhere, 1};
    ASSERT_TRUE(pair.post(0, request).ok());
  }
  ASSERT_TRUE(pair.run_until_idle());
  for (const Completion& each : pair.poll(0)) EXPECT_EQ(each.status, CompletionStatus::kSuccess);
  for (std::size_t n = 0; n < 8; ++n)
    EXPECT_EQ(pair.side[1].memory[1000 * n + 500], n % 2 == 0 ? std::byte{} : std::byte{0x5A}) << n;
  EXPECT_EQ(side.engine->change_memory(region, 4, *region).error(), EINVAL);
  EXPECT_EQ(side.engine->locate(side.pd, key, 5, (1u << 30) + 1ull, 0).reason().error(), EFAULT);
  EXPECT_EQ(side.engine->locate(side.pd, key, 5, 1, kAccessRemoteRead).reason().error(), EPERM);
  EXPECT_EQ(side.engine->locate(side.pd, key ^ 0x1000, 5, 1, 0).reason().error(), ENOENT);
  EXPECT_TRUE(side.engine->deregister_memory(region).ok());
}

}  // namespace
}  // namespace brdma::test
