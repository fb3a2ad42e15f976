// Queue pair numbers of an engine with several slots. device/qp_table.h
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <vector>

#include "device/engine.h"
#include "io/daemon/lease_protocol.h"

namespace brdma::test {
namespace {

constexpr std::uint32_t kBits = io::kSlotBits, kMask = io::kSlotCount - 1;
constexpr std::size_t kOfASlot = (std::size_t{1} << (24 - kBits)) / 2;

class SlotsOfAnEngine : public testing::Test {
 protected:
  static EngineConfig config() {
    EngineConfig config;
    config.slot = 300;
    config.slot_bits = kBits;
    return config;
  }
  Result<QueuePair*, Status> create() {
    QpCreate request;
    request.pd = pd;
    request.send_cq = request.receive_cq = cq;
    return engine.create_qp(request);
  }
  // Until there are none left.
  void create_all() {
    while (engine.has_queue_pair_numbers()) {
      const auto made = create();
      ASSERT_TRUE(made.ok());
      all.push_back(made.value());
      ASSERT_TRUE(numbers.insert(engine.qp_num(made.value())).second);
    }
  }
  void expect_all_found() {
    for (const std::uint32_t number : numbers) {
      const auto report = engine.report(number);
      ASSERT_TRUE(report.has_value()) << number;
    }
  }
  std::size_t of_slot(std::uint32_t slot) const {
    return static_cast<std::size_t>(
        std::count_if(numbers.begin(), numbers.end(), [slot](std::uint32_t n) { return (n & kMask) == slot; }));
  }
  Statistics statistics;
  Engine engine{config(), statistics, nullptr};
  ProtectionDomain* pd = engine.alloc_pd();
  CompletionQueue* cq = engine.create_cq(16, nullptr).value();
  std::vector<QueuePair*> all;
  std::set<std::uint32_t> numbers;
};

// Known numbers do not reveal the next.
TEST_F(SlotsOfAnEngine, NumbersAreNotCountedUp) {
  std::set<std::uint32_t> steps;
  std::uint32_t last = 0;
  for (int i = 0; i < 200; ++i) {
    const auto made = create();
    ASSERT_TRUE(made.ok());
    all.push_back(made.value());
    const std::uint32_t number = engine.qp_num(made.value());
    EXPECT_EQ(number & kMask, 300u);
    steps.insert((number - last) & 0xFF'FFFF);
    last = number;
  }
  EXPECT_GT(steps.size(), 150u);
}

TEST_F(SlotsOfAnEngine, OneIsUsedUpAndAnotherHelps) {
  create_all();
  EXPECT_EQ(numbers.size(), kOfASlot);
  EXPECT_EQ(of_slot(300), kOfASlot);
  const auto refused = create();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.reason().error(), ENOMEM);
  engine.add_slot(8191);
  engine.add_slot(8190);
  EXPECT_EQ(engine.slots(), (std::vector<std::uint32_t>{300, 8191, 8190}));
  expect_all_found();
  create_all();
  EXPECT_EQ(numbers.size(), 3 * kOfASlot);
  EXPECT_EQ(of_slot(300) + of_slot(8191) + of_slot(8190), numbers.size());
  EXPECT_EQ(numbers.count(0xFF'FFFF), 0u) << "multicast's";
  expect_all_found();
  for (const std::uint32_t number : numbers) {
    EXPECT_NE(number >> kBits, 0u);
    const std::uint32_t stranger = (number & ~kMask) | 4711;
    EXPECT_FALSE(engine.report(stranger).has_value());
  }
}

// Numbers of destroyed queue pairs are reused, and never one that is in use.
TEST_F(SlotsOfAnEngine, NumbersComeBack) {
  engine.add_slot(7);
  create_all();
  for (int round = 0; round < 5; ++round) {
    for (std::size_t i = 0; i < all.size(); i += 3) {
      const std::uint32_t number = engine.qp_num(all[i]);
      ASSERT_TRUE(engine.destroy_qp(all[i]).ok());
      EXPECT_FALSE(engine.report(number).has_value());
      numbers.erase(number);
      all[i] = nullptr;
    }
    std::erase(all, nullptr);
    create_all();
    EXPECT_EQ(numbers.size(), 2 * kOfASlot);
    expect_all_found();
  }
}

}  // namespace
}  // namespace brdma::test
