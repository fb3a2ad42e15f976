// sim/wake_list.h: order, changes, and passes that items join, against a walk over all items.
#include "sim/wake_list.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/random.h"

namespace brdma::sim {
namespace {

Instant at(std::int64_t ns) { return Instant::from_ns(ns); }

std::vector<std::uint32_t> pass(WakeList& list, std::int64_t now) {
  std::vector<std::uint32_t> items;
  list.begin_pass(at(now));
  while (const auto item = list.next_due()) items.push_back(*item);
  return items;
}

TEST(WakeList, TheEarliestComesFirstAndOfOneInstantTheLowest) {
  WakeList list;
  EXPECT_FALSE(list.next());
  list.set(7, at(50), at(0));
  list.set(3, at(50), at(0));
  list.set(5, at(20), at(0));
  EXPECT_EQ(list.next(), at(20));
  EXPECT_EQ(pass(list, 50), (std::vector<std::uint32_t>{3, 5, 7}));
  EXPECT_FALSE(list.next());
}

TEST(WakeList, TimesChangeAndEnd) {
  WakeList list;
  list.set(0, at(10), at(0));
  list.set(1, at(20), at(0));
  list.set(0, at(30), at(0));
  EXPECT_EQ(list.next(), at(20));
  list.set(1, std::nullopt, at(0));
  EXPECT_EQ(list.next(), at(30));
  list.set(0, at(5), at(12));  // in the past: now
  EXPECT_EQ(list.next(), at(12));
}

TEST(WakeList, AnItemThatBecomesDueJoinsThePassIfItIsStillToCome) {
  WakeList list;
  list.set(2, at(10), at(0));
  list.set(6, at(10), at(0));
  list.begin_pass(at(10));
  EXPECT_EQ(list.next_due(), 2u);
  list.set(4, at(10), at(10));
  list.set(1, at(10), at(10));
  EXPECT_EQ(list.next_due(), 4u);
  EXPECT_EQ(list.next_due(), 6u);
  EXPECT_FALSE(list.next_due());
  EXPECT_EQ(list.next(), at(10));  // 1, and 4, whose time was not set again
}

TEST(WakeList, RandomTimesComeInTheOrderOfAWalk) {
  Random random{1, "wakes"};
  WakeList list;
  std::map<std::uint32_t, std::int64_t> model;
  for (std::int64_t now = 0; now < 20'000; ++now) {
    const auto item = static_cast<std::uint32_t>(random.below(100));
    const auto when = now + static_cast<std::int64_t>(random.below(300));
    list.set(item, at(when), at(now));
    model[item] = when;
    std::vector<std::uint32_t> due;
    for (const auto& each : model) {
      if (each.second <= now) due.push_back(each.first);
    }
    for (const std::uint32_t each : due) model.erase(each);
    ASSERT_EQ(pass(list, now), due) << now;
  }
}

}  // namespace
}  // namespace brdma::sim
