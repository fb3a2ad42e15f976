// Destinations with a reduced rate, and its recovery. tests design WT-14, WT-15
#include <gtest/gtest.h>

#include "congestion/managed_list.h"

namespace brdma::congestion {
namespace {

constexpr Instant kStart = Instant{} + 1_s;
const IpAddress kPeer = IpAddress::v4(10, 0, 0, 1);
constexpr CongestionConfig kPacing;

Bandwidth mbps(std::uint64_t value) { return Bandwidth::from_bps(value * 1'000'000); }

TEST(ManagedList, LowersRateAndWeightOncePerVisit) {
  const WanConfig config{.visit_interval = 100_ms, .managed_rate_percent = 50, .managed_weight_percent = 40};
  ManagedList list;
  ManagedDestination* const it = list.lower(kPeer, mbps(1000), kPacing, config, kStart);
  ASSERT_NE(it, nullptr);
  EXPECT_EQ(it->pacer.rate(), mbps(500));
  EXPECT_EQ(it->weight_percent, 40u);
  EXPECT_EQ(list.next_visit(), kStart + 100_ms);
  EXPECT_EQ(list.lower(kPeer, mbps(1000), kPacing, config, kStart + 99_ms), it);
  EXPECT_EQ(it->pacer.rate(), mbps(500)) << "several reports of one congestion";
  list.lower(kPeer, mbps(1000), kPacing, config, kStart + 100_ms);
  EXPECT_EQ(it->pacer.rate(), mbps(250));
  EXPECT_EQ(it->weight_percent, 16u);
}

TEST(ManagedList, NeverBelowTheFloor) {
  const WanConfig config{
      .visit_interval = 1_ms, .managed_rate_percent = 1, .managed_weight_percent = 1, .managed_rate_min_mbps = 20};
  ManagedList list;
  for (int i = 0; i < 10; ++i) list.lower(kPeer, mbps(1000), kPacing, config, kStart + 1_ms * i);
  EXPECT_EQ(list.find(kPeer)->pacer.rate(), mbps(20));
  EXPECT_EQ(list.find(kPeer)->weight_percent, 1u);
}

TEST(ManagedList, AVisitRaisesOnlyWhereAcknowledgementsComeSoonAgain) {
  const WanConfig config{.visit_interval = 100_ms,
                         .managed_rate_percent = 50,
                         .managed_weight_percent = 50,
                         .managed_raise_percent = 50,
                         .managed_wait_percent = 150};
  ManagedList list;
  ManagedDestination& it = *list.lower(kPeer, mbps(1000), kPacing, config, kStart);
  EXPECT_EQ(ManagedList::visit(it, {.wait = 16_ms, .shortest = 10_ms}, config, kStart + 100_ms),
            ManagedList::Visit::kKept);
  EXPECT_EQ(it.pacer.rate(), mbps(500));
  EXPECT_EQ(ManagedList::visit(it, {.wait = 15_ms, .shortest = 10_ms}, config, kStart + 200_ms),
            ManagedList::Visit::kRaised);
  EXPECT_EQ(it.pacer.rate(), mbps(750));
  EXPECT_EQ(it.weight_percent, 75u);
  EXPECT_EQ(ManagedList::visit(it, {}, config, kStart + 300_ms), ManagedList::Visit::kDone) << "nothing is sent";
  EXPECT_EQ(it.pacer.rate(), mbps(1000));
  EXPECT_EQ(it.weight_percent, 100u);
  EXPECT_TRUE(list.remove(kPeer));
  EXPECT_FALSE(list.remove(kPeer));
}

// Half of a rate of which a tenth arrives is still five times what the link carries.
TEST(ManagedList, LowersFromWhatArrives) {
  const WanConfig config{.visit_interval = 100_ms, .managed_rate_percent = 50};
  ManagedList list;
  ManagedDestination& it = *list.lower(kPeer, mbps(1000), kPacing, config, kStart);
  list.lower(kPeer, mbps(60), kPacing, config, kStart + 100_ms);
  EXPECT_EQ(it.pacer.rate(), mbps(30));
  EXPECT_EQ(it.full, mbps(1000));
  list.lower(kPeer, {}, kPacing, config, kStart + 200_ms);
  EXPECT_EQ(it.pacer.rate(), mbps(15)) << "nothing is known of what arrives";
}

TEST(ManagedList, AVisitWhereAcknowledgementsAreLateLeavesNoMoreThanArrives) {
  const WanConfig config{.visit_interval = 100_ms, .managed_rate_percent = 50, .managed_rate_min_mbps = 20};
  ManagedList list;
  ManagedDestination& it = *list.lower(kPeer, mbps(1000), kPacing, config, kStart);
  EXPECT_EQ(ManagedList::visit(it, {16_ms, 10_ms, mbps(600)}, config, kStart + 100_ms), ManagedList::Visit::kKept);
  EXPECT_EQ(it.pacer.rate(), mbps(500));
  EXPECT_EQ(ManagedList::visit(it, {16_ms, 10_ms, mbps(50)}, config, kStart + 200_ms), ManagedList::Visit::kKept);
  EXPECT_EQ(it.pacer.rate(), mbps(50));
  EXPECT_EQ(ManagedList::visit(it, {16_ms, 10_ms, mbps(1)}, config, kStart + 300_ms), ManagedList::Visit::kKept);
  EXPECT_EQ(it.pacer.rate(), mbps(20)) << "nobody gets less";
}

// A queue that stands for longer than a round trip is remembered: later it looks like the path.
TEST(ManagedList, AQueueThatStandsIsNoShortestWait) {
  const WanConfig config{.visit_interval = 100_ms, .managed_rate_percent = 50};
  ManagedList list;
  ManagedDestination& it = *list.lower(kPeer, mbps(1000), kPacing, config, kStart);
  EXPECT_EQ(ManagedList::visit(it, {.wait = 40_ms, .shortest = 10_ms}, config, kStart + 100_ms),
            ManagedList::Visit::kKept);
  EXPECT_EQ(ManagedList::visit(it, {.wait = 40_ms, .shortest = 40_ms}, config, kStart + 200_ms),
            ManagedList::Visit::kKept);
  // Unless it lasts: then the path has become longer.
  const Instant late = kStart + 100_ms + ManagedList::kShortestKept;
  EXPECT_EQ(ManagedList::visit(it, {.wait = 40_ms, .shortest = 40_ms}, config, late), ManagedList::Visit::kRaised);
}

TEST(ManagedList, IsBounded) {
  ManagedList list;
  for (std::size_t i = 0; i < ManagedList::kDestinationsMax; ++i) {
    const auto low = static_cast<std::uint8_t>(i % 256), high = static_cast<std::uint8_t>(i / 256);
    ASSERT_NE(list.lower(IpAddress::v4(10, 1, high, low), mbps(1), kPacing, {}, kStart), nullptr);
  }
  EXPECT_EQ(list.lower(kPeer, mbps(1), kPacing, {}, kStart), nullptr);
}

}  // namespace
}  // namespace brdma::congestion
