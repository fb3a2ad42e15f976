// The controller's view of a link: hysteresis, ageing, and links that flap.
#include <gtest/gtest.h>

#include "fabric/controller/change_damper.h"
#include "fabric/controller/link_health.h"

namespace brdma::fabric::controller {
namespace {

constexpr std::uint64_t kRate = 125'000'000;
LinkReport with_queue(std::uint64_t permille) { return {true, kRate, kRate, 0, permille, 1000, 0}; }
LinkReport with_speed(std::uint64_t permille) { return {true, kRate, kRate / 1000 * permille, 0, 0, 1000, 0}; }
LinkReport with_load(std::uint64_t permille) { return {true, kRate, kRate, kRate / 1000 * permille, 0, 1000, 0}; }
LinkReport down() { return {false, kRate, 0, 0, 0, 1000, 0}; }
Instant at(std::int64_t ms) { return Instant{} + 1_ms * ms; }

// Lets time pass as the controller does.
void pass(LinkHealth& health, const LinkLimits& limits, Instant until) {
  while (const auto due = health.next_timeout(limits)) {
    if (*due > until) break;
    health.handle_timeout(limits, *due);
  }
}

// tests design WT-12: a queue above its limit, a speed below its limit
TEST(LinkHealth, ACongestedLinkIsOneUntilItHasBeenCalmForAWhile) {
  const LinkLimits limits;
  LinkHealth health;
  health.handle_report(with_queue(749), limits, at(0));
  EXPECT_FALSE(health.congested());
  health.handle_report(with_queue(750), limits, at(1));
  EXPECT_TRUE(health.congested());
  health.handle_report(with_queue(400), limits, at(2));  // in between: neither
  EXPECT_TRUE(health.congested());
  EXPECT_EQ(health.next_timeout(limits), at(2) + limits.age_max);
  health.handle_report(with_queue(375), limits, at(10));
  pass(health, limits, at(2009));
  EXPECT_TRUE(health.congested());
  pass(health, limits, at(2010));
  EXPECT_FALSE(health.congested());
  health.handle_report(with_speed(499), limits, at(3000));
  EXPECT_TRUE(health.congested());
  health.handle_report(with_speed(750), limits, at(3001));
  health.handle_report(with_speed(700), limits, at(4000));  // not calm any more
  health.handle_report(with_speed(900), limits, at(4500));
  pass(health, limits, at(6499));
  EXPECT_TRUE(health.congested());
  pass(health, limits, at(6500));
  EXPECT_FALSE(health.congested());
}

// tests design WT-9: the hop's limits decide, which may differ from ours
TEST(LinkHealth, ALinkThatItsSwitchTakesForCongestedIsCongested) {
  const LinkLimits limits;
  LinkHealth health;
  health.handle_report(with_queue(400), limits, at(0), /*over_limits=*/true);
  EXPECT_TRUE(health.congested());
  health.handle_report(with_queue(400), limits, at(200));
  EXPECT_TRUE(health.congested()) << "in between";
  health.handle_report(with_queue(100), limits, at(400));
  pass(health, limits, at(2400));
  EXPECT_FALSE(health.congested());
}

TEST(LinkHealth, OldLoadsAreForgottenButNotThatALinkIsDown) {
  const LinkLimits limits;
  LinkHealth health;
  health.handle_report(with_queue(900), limits, at(0));
  pass(health, limits, at(10'000));
  EXPECT_FALSE(health.congested());
  EXPECT_FALSE(health.last_report());
  health.handle_report(down(), limits, at(10'001));
  pass(health, limits, at(100'000));
  EXPECT_FALSE(health.usable());
}

TEST(LinkHealth, ALinkThatFlapsWaitsLongerEachTime) {
  const LinkLimits limits;
  LinkHealth health;
  std::int64_t now = 0;
  for (const std::int64_t wait : {1000, 2000, 4000, 8000, 16'000, 32'000, 60'000, 60'000}) {
    health.handle_report(down(), limits, at(now += 10));
    EXPECT_FALSE(health.usable());
    health.handle_report(with_load(0), limits, at(now += 10));
    pass(health, limits, at(now + wait - 1));
    EXPECT_FALSE(health.usable()) << wait;
    pass(health, limits, at(now += wait));
    EXPECT_TRUE(health.usable()) << wait;
  }
  // Up for long enough: as if it had never been down.
  health.handle_report(down(), limits, at(now += 200'000));
  health.handle_report(with_load(0), limits, at(now += 10));
  pass(health, limits, at(now + 1000));
  EXPECT_TRUE(health.usable());
}

TEST(LinkHealth, LoadCountsInSteps) {
  const LinkLimits limits;
  LinkHealth health;
  const auto cost = [&](std::uint64_t permille) {
    health.handle_report(with_load(permille), limits, at(0));
    return health.cost(1_ms).ns;
  };
  EXPECT_EQ(cost(0), 1'000'000);
  EXPECT_EQ(cost(600), 1'000'000);
  EXPECT_EQ(cost(601), 1'500'000);
  EXPECT_EQ(cost(500), 1'500'000);
  EXPECT_EQ(cost(499), 1'000'000);
  EXPECT_EQ(cost(960), 3'000'000);
  EXPECT_EQ(cost(850), 3'000'000);
  EXPECT_EQ(cost(849), 2'000'000);
  EXPECT_EQ(cost(0), 1'000'000);
  EXPECT_EQ(health.cost_without_load(1_ms).ns, 1'000'000);
}

TEST(LinkHealth, NumbersAreAPeersAndMayBeAnything) {
  const LinkLimits limits;
  LinkHealth health;
  const std::uint64_t most = ~std::uint64_t{0};
  health.handle_report({true, 1, most, most, most, 1, most}, limits, at(0));
  EXPECT_TRUE(health.congested());
  EXPECT_EQ(health.cost(1_ms).ns, 3'000'000);
  health.handle_report({true, 0, 0, most, most, 0, 0}, limits, at(1));  // nothing to compare with
  pass(health, limits, at(5000));
  EXPECT_FALSE(health.congested());
}

TEST(ChangeDamper, EachChangeSoonAfterAnotherWaitsTwiceAsLong) {
  const DampingLimits limits{1_s, 4_s};
  ChangeDamper damper;
  EXPECT_LE(damper.free_at(limits), at(0));
  damper.changed(limits, at(0));
  EXPECT_EQ(damper.free_at(limits), at(1000));
  damper.changed(limits, at(1000));
  EXPECT_EQ(damper.free_at(limits), at(3000));
  damper.changed(limits, at(3000));
  EXPECT_EQ(damper.free_at(limits), at(7000));
  damper.changed(limits, at(7000));
  EXPECT_EQ(damper.free_at(limits), at(11'000));
  damper.changed(limits, at(200'000));  // quiet for long
  EXPECT_EQ(damper.free_at(limits), at(201'000));
}

}  // namespace
}  // namespace brdma::fabric::controller
