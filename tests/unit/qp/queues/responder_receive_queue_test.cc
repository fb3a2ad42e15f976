#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "qp/queues/receive_queue.h"

namespace brdma::qp {
namespace {

class ReceiveQueueTest : public testing::Test {
 protected:
  ReceiveQueueTest() {
    pd = table.alloc_pd();
    memory.resize(4096);
    region = table.add(pd, address(), memory.size(), address(), kAccessLocalWrite).value();
  }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(memory.data()); }
  [[nodiscard]] Sge sge(std::uint64_t offset, std::uint32_t length) const {
    return {address() + offset, length, region->key};
  }
  static Status post(ReceiveQueue& queue, std::uint64_t wr_id, std::vector<Sge> sges) {
    return queue.post({wr_id, sges});
  }
  memory::MemoryTable table{SecretRandom{1, "keys"}};
  ProtectionDomain* pd = nullptr;
  std::vector<std::byte> memory;
  MemoryRegion* region = nullptr;
};

TEST_F(ReceiveQueueTest, KeepsOrderWhileItGrowsAndWraps) {
  ReceiveQueue queue{100, 2};
  std::uint64_t posted = 0, popped = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 7 && queue.size() < 100; ++i) {
      EXPECT_TRUE(post(queue, posted, {sge(0, static_cast<std::uint32_t>(posted)), sge(0, 1)}).ok());
      ++posted;
    }
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(queue[0].wr_id, popped);
      EXPECT_EQ(queue[0].bytes, popped + 1);
      queue.pop();
      ++popped;
    }
    for (std::size_t i = 0; i < queue.size(); ++i) EXPECT_EQ(queue[i].wr_id, popped + i);
  }
  EXPECT_EQ(queue.size(), posted - popped);
}

TEST_F(ReceiveQueueTest, RefusesWhatItWasNotMadeForAndChangesNothing) {
  ReceiveQueue queue{2, 1};
  EXPECT_EQ(post(queue, 1, {sge(0, 1), sge(0, 1)}).error(), EINVAL);
  EXPECT_TRUE(queue.empty());
  EXPECT_TRUE(post(queue, 1, {}).ok());
  EXPECT_TRUE(post(queue, 2, {sge(0, 1)}).ok());
  EXPECT_EQ(post(queue, 3, {sge(0, 1)}).error(), ENOMEM);
  EXPECT_EQ(queue.size(), 2u);
  ReceiveQueue none{0, 0};  // a queue pair that only sends
  EXPECT_EQ(post(none, 1, {}).error(), ENOMEM);
}

TEST_F(ReceiveQueueTest, LengthsThatAddUpBeyondThirtyTwoBits) {
  ReceiveQueue queue{2, 2};
  EXPECT_TRUE(post(queue, 1, {sge(0, 0xFFFF'FFFF), sge(0, 0xFFFF'FFFF)}).ok());
  EXPECT_EQ(queue[0].bytes, 0x1'FFFF'FFFEu);
}

TEST_F(ReceiveQueueTest, ScattersAcrossElementsFromAnyOffset) {
  ReceiveQueue queue{4, 4};
  std::vector<std::byte> payload(30);
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i + 1);
  for (std::size_t offset = 0; offset + payload.size() <= 64; ++offset) {
    std::fill(memory.begin(), memory.end(), std::byte{0});
    ReceiveQueue fresh{4, 4};
    ASSERT_TRUE(post(fresh, 1, {sge(100, 10), sge(200, 0), sge(300, 1), sge(400, 60)}).ok());
    ASSERT_EQ(fresh.scatter(table, pd, 0, offset, payload), memory::Fault::kNone);
    std::vector<std::byte> flat;
    for (const auto& [at, size] : {std::pair{100, 10}, {300, 1}, {400, 60}}) {
      flat.insert(flat.end(), memory.begin() + at, memory.begin() + at + size);
    }
    EXPECT_EQ(0, std::memcmp(flat.data() + offset, payload.data(), payload.size())) << offset;
    const auto touched = std::count_if(memory.begin(), memory.end(), [](std::byte b) { return b != std::byte{0}; });
    EXPECT_EQ(touched, 30) << offset;
  }
}

TEST_F(ReceiveQueueTest, KeysAreLookedUpWhenTheyAreUsed) {
  ReceiveQueue queue{4, 2};
  const std::vector<std::byte> payload(20);
  ASSERT_TRUE(post(queue, 1, {sge(0, 10), {address(), 10, region->key + 1}}).ok());
  ASSERT_TRUE(post(queue, 2, {sge(memory.size() - 10, 20)}).ok());
  EXPECT_EQ(queue.scatter(table, pd, 0, 0, ConstBytes{payload}.first(10)), memory::Fault::kNone);
  EXPECT_EQ(queue.scatter(table, pd, 0, 5, ConstBytes{payload}.first(10)), memory::Fault::kBadKey);
  EXPECT_EQ(queue.scatter(table, pd, 1, 0, payload), memory::Fault::kOutOfBounds);
  ASSERT_TRUE(table.remove(region).ok());
  EXPECT_EQ(queue.scatter(table, pd, 0, 0, ConstBytes{payload}.first(10)), memory::Fault::kBadKey);
}

}  // namespace
}  // namespace brdma::qp
