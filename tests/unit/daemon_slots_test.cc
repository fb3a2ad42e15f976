// Which slot a new lease gets, and what becomes of the statistics of an ended one.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "shared_state.h"

namespace brdma::daemon {
namespace {

constexpr std::uint32_t kAlice = 1000, kBob = 1001;

class Slots : public testing::Test {
 protected:
  std::uint32_t lease(std::uint32_t uid) {
    const auto slot = choose_slot(*state_, uid);
    EXPECT_TRUE(slot.has_value());
    SlotRecord& record = state_->slots[slot.value_or(2)];
    record.state = SlotState::kLeased;
    record.has_owner = true;
    record.uid = uid;
    return slot.value_or(0);
  }
  void end(std::uint32_t slot) {
    state_->slots[slot].state = SlotState::kFree;
    state_->slots[slot].freed_at = ++state_->ending_count;
  }

  std::unique_ptr<SharedState> state_ = std::make_unique<SharedState>();
};

TEST_F(Slots, TheDaemonsOwnAreNeverLeased) {
  std::set<std::uint32_t> slots;
  for (int i = 0; i < 254; ++i) slots.insert(lease(kAlice));
  EXPECT_EQ(slots.size(), 254u);
  EXPECT_EQ(*slots.begin(), 2u);
  EXPECT_EQ(*slots.rbegin(), 255u);
  EXPECT_EQ(choose_slot(*state_, kAlice), std::nullopt);
  EXPECT_EQ(leases_in_use(*state_), 254u);
}

TEST_F(Slots, NeverUsedOnesComeFirstThenTheLongestFree) {
  const std::uint32_t first = lease(kAlice), second = lease(kAlice);
  end(second);
  end(first);
  for (int i = 0; i < 252; ++i) {
    const std::uint32_t slot = lease(kAlice);
    EXPECT_NE(slot, first);
    EXPECT_NE(slot, second);
  }
  EXPECT_EQ(lease(kAlice), second);
  EXPECT_EQ(lease(kAlice), first);
}

TEST_F(Slots, ASlotStaysWithItsUser) {
  for (int i = 0; i < 253; ++i) end(lease(kAlice));
  const std::uint32_t last = lease(kBob);
  EXPECT_EQ(choose_slot(*state_, kBob), std::nullopt);  // 253 are free, but Alice's
  EXPECT_TRUE(choose_slot(*state_, kAlice).has_value());
  end(last);
  EXPECT_EQ(choose_slot(*state_, kBob), last);
}

TEST_F(Slots, AnOfferedSlotIsInUse) {
  const auto slot = choose_slot(*state_, kAlice);
  state_->slots[*slot].state = SlotState::kOffered;
  EXPECT_NE(choose_slot(*state_, kAlice), slot);
  EXPECT_EQ(leases_in_use(*state_), 1u);
}

TEST_F(Slots, EndedStatisticsAddUpByDevice) {
  Statistics one;
  one.add(Counter::kSentPackets);
  add_ended(*state_, "brdma_a", one);
  add_ended(*state_, "brdma_b", one);
  add_ended(*state_, "brdma_a", one);
  ASSERT_EQ(state_->device_count, 2u);
  EXPECT_EQ(state_->devices[0].ended.get(Counter::kSentPackets), 2u);
  EXPECT_EQ(io::get_text(state_->devices[1].device), "brdma_b");
}

TEST_F(Slots, DevicesBeyondTheTableShareOneEntry) {
  Statistics one;
  one.add(Counter::kSentPackets);
  for (std::size_t i = 0; i < kDevicesMax + 10; ++i) add_ended(*state_, "brdma_" + std::to_string(i), one);
  ASSERT_EQ(state_->device_count, kDevicesMax);
  EXPECT_EQ(io::get_text(state_->devices.back().device), "(others)");
  EXPECT_EQ(state_->devices.back().ended.get(Counter::kSentPackets), 11u);
  add_ended(*state_, "brdma_0", one);
  EXPECT_EQ(state_->devices[0].ended.get(Counter::kSentPackets), 2u);
}

}  // namespace
}  // namespace brdma::daemon
