// tests design WT-16: packets to a managed destination leave with the DSCP of wan.managed_dscp, of whatever kind, while
// the destination is managed; else, and without the setting, with the program's traffic class. ECN bits stay.
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <utility>

#include "support/two_engines.h"

namespace brdma::test {
namespace {

constexpr std::uint8_t kProgram = 46 << 2 | 1;  // expedited forwarding, ECT(1)
constexpr int kLow = 8 << 2 | 1;                // DSCP 8

struct Dscp final : RecoveryEditor {
  explicit Dscp(std::optional<std::uint8_t> dscp, EcnField ecn = EcnField::kAuto) : dscp(dscp), ecn(ecn) {}
  void edit(RecoveryConfig& config, bool) const override {
    config.wan.managed_dscp = dscp;
    config.congestion.ecn = ecn;
  }
  std::optional<std::uint8_t> dscp;
  EcnField ecn;
};

class ManagedClass : public testing::Test {
 protected:
  static PairOptions options() {
    PairOptions options;
    options.traffic_class = kProgram;
    options.recovery.wan.visit_interval = 60_s;
    return options;
  }
  Engine& engine() { return *pair.side[0].engine; }
  IpAddress peer() { return pair.side[1].address; }
  void set(const Dscp& settings) { ASSERT_TRUE(engine().change_recovery(std::nullopt, settings, pair.now).ok()); }
  void manage() { ASSERT_TRUE(engine().manage_destination(peer(), pair.now).ok()); }
  // Traffic classes of the packets of a WRITE, a READ and acknowledgements, by side.
  std::pair<std::set<int>, std::set<int>> classes() {
    pair.wire.clear();
    EXPECT_TRUE(pair.post(0, pair.write(0, 0, 8'192, 1)).ok());
    EXPECT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 0, 8'192, 2)).ok());
    EXPECT_TRUE(pair.post(1, pair.write(1, 0, 8'192, 3)).ok());
    pair.run_for(50_ms);  // never idle: the managed destination is to be visited
    EXPECT_EQ(pair.poll(0).size(), 2u);
    EXPECT_EQ(pair.poll(1).size(), 1u);
    std::pair<std::set<int>, std::set<int>> seen;
    for (const Sent& sent : pair.wire) (sent.from == 0 ? seen.first : seen.second).insert(sent.traffic_class);
    return seen;
  }
  using Seen = std::pair<std::set<int>, std::set<int>>;
  TwoEngines pair{options()};
};

TEST_F(ManagedClass, WithoutTheSettingTheProgramsStays) {
  manage();
  EXPECT_EQ(classes(), Seen({kProgram}, {kProgram}));
}

TEST_F(ManagedClass, IsOfPacketsToAManagedDestinationAlone) {
  set(Dscp{8});
  EXPECT_EQ(classes(), Seen({kProgram}, {kProgram})) << "not managed yet";
  manage();
  EXPECT_EQ(classes(), Seen({kLow}, {kProgram}));
  ASSERT_TRUE(engine().release_destination(peer(), pair.now).ok());
  EXPECT_EQ(classes(), Seen({kProgram}, {kProgram}));
}

TEST_F(ManagedClass, TheSettingAppliesAtOnceAndEcnStays) {
  manage();
  set(Dscp{63});
  EXPECT_EQ(classes().first, std::set<int>{63 << 2 | 1});
  set(Dscp{0});
  EXPECT_EQ(classes().first, std::set<int>{1}) << "0 is a DSCP like others";
  set(Dscp{8, EcnField::kEct0});
  EXPECT_EQ(classes().first, std::set<int>{8 << 2 | 2});
  set(Dscp{8, EcnField::kOff});
  EXPECT_EQ(classes().first, std::set<int>{8 << 2});
  set(Dscp{std::nullopt, EcnField::kEct0});
  EXPECT_EQ(classes().first, std::set<int>{46 << 2 | 2});
}

// A later queue pair to the destination, too.
TEST_F(ManagedClass, AConnectionMadeAgainIsManagedStill) {
  set(Dscp{8});
  manage();
  for (int side = 0; side < 2; ++side) ASSERT_TRUE(pair.modify(side, QpState::kReset, kQpAttrState).ok());
  for (int side = 0; side < 2; ++side) pair.connect(side);
  pair.run_for(5_ms);
  EXPECT_EQ(classes(), Seen({kLow}, {kProgram}));
}

}  // namespace
}  // namespace brdma::test
