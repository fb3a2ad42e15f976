// The slot of a new lease, and the statistics of an ended one.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lease/shared_state.h"
#include "worker/quotas.h"

namespace brdma::daemon {
namespace {

constexpr std::uint32_t kAlice = 1000, kBob = 1001;

class Slots : public testing::Test {
 protected:
  std::uint32_t lease(std::uint32_t uid) {
    const auto slot = choose_slot(*state_, uid);
    EXPECT_TRUE(slot.has_value());
    SlotRecord& record = state_->slots[slot.value_or(2)];
    state_->slots_end = std::max(state_->slots_end, slot.value_or(2) + 1);
    record.state = SlotState::kLeased;
    record.has_owner = true;
    record.uid = uid;
    return slot.value_or(0);
  }
  void end(std::uint32_t slot) {
    state_->slots[slot].state = SlotState::kFree;
    state_->slots[slot].freed_at = ++state_->ending_count;
  }

  void add_ended(const std::string& device, const Statistics& statistics) {
    const std::uint32_t slot = lease(kAlice);
    io::put_text(state_->slots[slot].device, device);
    fold_ended(*state_, slot, statistics);
  }

  std::unique_ptr<SharedState> state_ = std::make_unique<SharedState>();
};

constexpr std::uint32_t kAll = io::kSlotCount - 2;

Quotas quotas_for(std::uint32_t user_leases) {
  Options options;
  options.system = true;
  options.user_leases = user_leases;
  return quotas_of(options, 65'536);
}

TEST_F(Slots, TheDaemonsOwnAreNeverLeased) {
  std::set<std::uint32_t> slots;
  for (std::uint32_t i = 0; i < kAll; ++i) slots.insert(lease(kAlice));
  EXPECT_EQ(slots.size(), kAll);
  EXPECT_EQ(*slots.begin(), 2u);
  EXPECT_EQ(*slots.rbegin(), io::kSlotCount - 1);
  EXPECT_EQ(choose_slot(*state_, kAlice), std::nullopt);
  EXPECT_EQ(leases_in_use(*state_), kAll);
  end(77);
  EXPECT_EQ(lease(kAlice), 77u) << "it has not rested, but there is no other";
}

TEST_F(Slots, NeverUsedOnesComeFirstThenTheLongestFree) {
  const std::uint32_t first = lease(kAlice), second = lease(kAlice);
  end(second);
  end(first);
  std::set<std::uint32_t> others;
  for (std::uint32_t i = 2; i < kRestingSlots; ++i) {
    const std::uint32_t slot = lease(kAlice);
    others.insert(slot);
    end(slot);
  }
  EXPECT_EQ(others.size(), kRestingSlots - 2);
  EXPECT_EQ(others.count(first) + others.count(second), 0u);
  EXPECT_EQ(lease(kAlice), second);
  EXPECT_FALSE(others.count(lease(kAlice))) << "fewer are free than should rest";
}

// A thousand programs of one user, one after another, leave the others' slots alone.
TEST_F(Slots, AUserWhoComesOftenLocksNobodyOut) {
  for (int i = 0; i < 10'000; ++i) end(lease(kAlice));
  EXPECT_LE(state_->slots_end, 2 + kRestingSlots);
  std::set<std::uint32_t> bobs;
  for (std::uint32_t i = 0; i < kAll - kRestingSlots; ++i) bobs.insert(lease(kBob));
  EXPECT_EQ(bobs.size(), kAll - kRestingSlots);
}

// All at once: a user gets a user's quota, and then rotates through its own slots; further ones are for others.
TEST_F(Slots, AUserAtHisQuotaLeavesTheOthersRoom) {
  const Quotas quotas = quotas_for(1000);
  const SlotLimits limits = quotas.slots();
  std::uint32_t had = 0;
  for (std::uint32_t i = 0; i < kAll; ++i) {
    const auto slot = choose_slot(*state_, kAlice, limits);
    if (!slot) break;
    state_->slots[*slot].state = SlotState::kLeased;
    state_->slots[*slot].has_owner = true;
    state_->slots[*slot].uid = kAlice;
    state_->slots_end = std::max(state_->slots_end, *slot + 1);
    ++had;
  }
  EXPECT_EQ(had, 1000 + kRestingSlots);
  EXPECT_TRUE(choose_slot(*state_, kBob, limits).has_value());
  EXPECT_TRUE(choose_slot(*state_, 0).has_value());
  end(9);
  EXPECT_EQ(choose_slot(*state_, kAlice, limits), 9u) << "his own, though it has not rested";
}

// For any number of users: some slots are reserved for root.
TEST_F(Slots, ManyUsersLeaveSomeForRoot) {
  const SlotLimits limits = quotas_for(1024).slots();
  for (std::uint32_t uid = 1; uid < kAll; ++uid) {
    const auto slot = choose_slot(*state_, uid, limits);
    if (!slot) break;
    state_->slots[*slot].state = SlotState::kLeased;
    state_->slots[*slot].has_owner = true;
    state_->slots[*slot].uid = uid;
    state_->slots_end = std::max(state_->slots_end, *slot + 1);
  }
  EXPECT_EQ(choose_slot(*state_, 7'777'777, limits), std::nullopt);
  for (int i = 0; i < 256; ++i) EXPECT_LT(lease(0), kExtraSlotsFirst);
}

TEST_F(Slots, ASlotStaysWithItsUser) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 0; i < kAll - 1; ++i) all.push_back(lease(kAlice));
  for (const std::uint32_t slot : all) end(slot);
  const std::uint32_t last = lease(kBob);
  EXPECT_EQ(choose_slot(*state_, kBob), std::nullopt);  // all but one are free, but Alice's
  EXPECT_TRUE(choose_slot(*state_, kAlice).has_value());
  end(last);
  EXPECT_EQ(choose_slot(*state_, kBob), last);
}

// Slots without a socket, for more numbers: the last ones, which leases do not take; given back they rest.
TEST_F(Slots, ExtraOnesAreTheLast) {
  std::set<std::uint32_t> slots;
  for (std::uint32_t i = 0; i < kExtraSlotsMax; ++i) {
    const auto slot = choose_extra_slot(*state_, 256);
    ASSERT_TRUE(slot.has_value());
    state_->slots[*slot].state = SlotState::kExtra;
    state_->slots[*slot].lessee = i % 2 == 0 ? 5 : 4;
    state_->slots[*slot].number = i;
    slots.insert(*slot);
  }
  EXPECT_EQ(*slots.begin(), io::kSlotCount - kExtraSlotsMax);
  EXPECT_EQ(*slots.rbegin(), io::kSlotCount - 1);
  EXPECT_EQ(choose_extra_slot(*state_, 256), std::nullopt);
  const auto extra = extra_slots(*state_);
  ASSERT_EQ(extra.size(), kExtraSlotsMax);
  EXPECT_EQ(extra.front().lessee, 4u);
  EXPECT_EQ(extra.back().lessee, 5u);
  EXPECT_EQ(lessee_of(*state_, extra.front().slot), 4u);
  EXPECT_EQ(lessee_of(*state_, 9), 9u);
  EXPECT_EQ(leases_in_use(*state_), 0u);
  state_->slots[8000].state = state_->slots[7900].state = SlotState::kFree;
  state_->slots[8000].freed_at = 2;
  state_->slots[7900].freed_at = 1;
  EXPECT_EQ(choose_extra_slot(*state_, 256), 7900u);
  EXPECT_EQ(choose_extra_slot(*state_, 7950), 8000u) << "the others have a socket";
}

// The XDP programs' table: every further slot's lessee, and 0 for slots that are free or leased themselves.
TEST_F(Slots, LesseesOfTheLastSlots) {
  const auto is_none = [](std::uint32_t lessee) { return lessee == 0; };
  EXPECT_TRUE(std::ranges::all_of(lessees(*state_), is_none));
  constexpr std::uint32_t kLent = io::kSlotCount - 1, kLeased = kExtraSlotsFirst;
  state_->slots[kLent].state = SlotState::kExtra;
  state_->slots[kLent].lessee = 5;
  state_->slots[kLeased].state = SlotState::kLeased;
  state_->slots[kLeased].lessee = 6;  // of an earlier lease
  EXPECT_EQ(lessees(*state_).back(), 5u);
  EXPECT_EQ(std::ranges::count_if(lessees(*state_), is_none), kExtraSlotsMax - 1);
  state_->slots[kLent].state = SlotState::kFree;
  EXPECT_TRUE(std::ranges::all_of(lessees(*state_), is_none));
}

TEST_F(Slots, AnOfferedSlotIsInUse) {
  const auto slot = choose_slot(*state_, kAlice);
  state_->slots[*slot].state = SlotState::kOffered;
  state_->slots_end = *slot + 1;
  EXPECT_NE(choose_slot(*state_, kAlice), slot);
  EXPECT_EQ(leases_in_use(*state_), 1u);
}

TEST_F(Slots, EndedStatisticsAddUpByDevice) {
  Statistics one;
  one.add(Counter::kSentPackets);
  add_ended("brdma_a", one);
  add_ended("brdma_b", one);
  add_ended("brdma_a", one);
  ASSERT_EQ(state_->device_count, 2u);
  EXPECT_EQ(state_->devices[0].ended.get(Counter::kSentPackets), 2u);
  EXPECT_EQ(io::get_text(state_->devices[1].device), "brdma_b");
}

TEST_F(Slots, DevicesBeyondTheTableShareOneEntry) {
  Statistics one;
  one.add(Counter::kSentPackets);
  for (std::size_t i = 0; i < kDevicesMax + 10; ++i) add_ended("brdma_" + std::to_string(i), one);
  ASSERT_EQ(state_->device_count, kDevicesMax);
  EXPECT_EQ(io::get_text(state_->devices.back().device), "(others)");
  EXPECT_EQ(state_->devices.back().ended.get(Counter::kSentPackets), 11u);
  add_ended("brdma_0", one);
  EXPECT_EQ(state_->devices[0].ended.get(Counter::kSentPackets), 2u);
}

}  // namespace
}  // namespace brdma::daemon
