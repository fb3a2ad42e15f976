// The controller's decisions: design WT-11 to WT-13, the order of installation, damping, and the failure and return of
// a switch or of the controller itself.
#include <gtest/gtest.h>

#include <string>

#include "../../support/controlled_network.h"

namespace brdma::test {
namespace {

constexpr std::uint64_t kRate = 125'000'000;
Instant at(std::int64_t ms) { return Instant{} + 1_ms * ms; }
ctl::LinkReport calm() { return {true, kRate, kRate, 0, 0, 1000, 0}; }
ctl::LinkReport congested() { return {true, kRate, kRate, kRate, 900, 1000, 0}; }
ctl::LinkReport cut() { return {false, kRate, 0, 0, 0, 1000, 0}; }

// Two sites and three paths: 10 ms by a, 11 ms by b, 30 ms by c. Ports are named after their other ends.
ctl::NetworkMap three_ways() {
  ctl::NetworkMap map;
  const auto link = [&](const char* a, const char* b, Duration delay) {
    EXPECT_TRUE(map.add_link({a, std::string("to-") + b}, {b, std::string("to-") + a}, {Bandwidth{}, delay}));
  };
  link("s1", "a", 5_ms);
  link("a", "s2", 5_ms);
  link("s1", "b", 5500_us);
  link("b", "s2", 5500_us);
  link("s1", "c", 15_ms);
  link("c", "s2", 15_ms);
  EXPECT_TRUE(map.add_prefix(site(1), "s1"));
  EXPECT_TRUE(map.add_prefix(site(2), "s2"));
  return map;
}

class Decisions : public testing::Test {
 protected:
  void SetUp() override { begin(ctl::Settings{}); }
  void begin(const ctl::Settings& settings) {
    network_.emplace(three_ways(), settings, at(0));
    network_->connect_all(at(0));
    network_->settle(at(0));
    EXPECT_TRUE(controller().handle_host({"h1", {host_of_site(1)}}, at(1)));
    EXPECT_TRUE(controller().handle_host({"h2", {host_of_site(2)}}, at(1)));
  }
  ctl::Controller& controller() { return network_->controller(); }
  void active(const std::string& id, const std::string& port, const ctl::LinkReport& report, Instant now) {
    controller().handle_active(id, {port, report}, {{host_of_site(1), host_of_site(2)}}, now);
    network_->collect();
    network_->settle(now);
  }
  void links(const std::string& id, const std::string& port, const ctl::LinkReport& report, Instant now) {
    controller().handle_links(id, {{port, report}}, now);
    network_->collect();
    network_->settle(now);
  }
  std::string way() { return network_->ways("s1", site(2)); }

  std::optional<ControlledNetwork> network_;
};

TEST_F(Decisions, RoutesAreInstalledWhenTheSwitchesHaveCome) {
  EXPECT_EQ(way(), "to-a");
  EXPECT_EQ(network_->ways("a", site(2)), "to-s2");
  EXPECT_EQ(network_->ways("s2", site(2)), "-");  // behind it: its own affair
  EXPECT_EQ(network_->ways("s2", site(1)), "to-a");
  EXPECT_EQ(controller().counters().repairs, 2u);
  EXPECT_EQ(controller().counters().changes_done, 2u);
  EXPECT_FALSE(controller().recovering());
}

// tests design WT-12: up to the threshold of congested links, routes are changed
TEST_F(Decisions, ActiveFeedbackUpToTheThresholdMovesRoutes) {
  active("s1", "to-a", congested(), at(5000));
  EXPECT_EQ(way(), "to-b");
  EXPECT_EQ(network_->ways("s2", site(1)), "to-a");  // the other direction is not congested
  EXPECT_TRUE(network_->lowered.empty());
  active("s1", "to-b", congested(), at(8000));
  EXPECT_EQ(way(), "to-c");
  EXPECT_TRUE(network_->lowered.empty());
  EXPECT_EQ(controller().congested_links(), 2u);
}

// tests design WT-13: above it, the sender gets a control packet
TEST_F(Decisions, ActiveFeedbackAboveTheThresholdNotifiesTheSender) {
  ctl::Settings settings;
  settings.congested_links_max = 1;
  begin(settings);
  active("s1", "to-b", congested(), at(5000));
  EXPECT_EQ(network_->lowered.size(), 1u);  // routes do not help senders on that path
  network_->lowered.clear();
  active("s1", "to-a", congested(), at(6000));
  EXPECT_EQ(way(), "to-a");
  ASSERT_EQ(network_->lowered.size(), 1u);
  EXPECT_EQ(network_->lowered[0].host_id, "h1");
  EXPECT_EQ(network_->lowered[0].destination, host_of_site(2));
  EXPECT_EQ(network_->lowered[0].congested_links, 2u);
  active("s1", "to-a", congested(), at(6499));  // again within the interval
  EXPECT_EQ(network_->lowered.size(), 1u);
  EXPECT_EQ(controller().counters().control_packets_limited, 1u);
  active("s1", "to-a", congested(), at(6500));
  EXPECT_EQ(network_->lowered.size(), 2u);
  // Repairs are made all the same.
  links("s1", "to-a", cut(), at(7000));
  EXPECT_EQ(way(), "to-c");
}

// tests design WT-11: passive feedback that a sender forwards changes routes
TEST_F(Decisions, PassiveFeedbackMovesTheRoutesOfItsDestination) {
  ctl::Settings settings;
  settings.congested_links_max = 0;
  begin(settings);
  EXPECT_TRUE(controller().handle_switch(
      {"s1", 0, {{"to-a", "a", "to-s1", {Bandwidth{}, 5_ms}, 3}}, {}, {{site(2), {"to-a"}}}, 1}, at(2000)));
  controller().handle_passive("h1", {host_of_site(1), host_of_site(2)}, {{1, 3, congested()}, {7, 1, calm()}},
                              at(5000));
  network_->collect();
  network_->settle(at(5000));
  EXPECT_EQ(way(), "to-b");
  EXPECT_TRUE(network_->lowered.empty());
  controller().handle_passive("stranger", {host_of_site(1), host_of_site(2)}, {{1, 3, congested()}}, at(9000));
  EXPECT_EQ(controller().counters().unknown_members, 1u);
  EXPECT_EQ(controller().counters().unknown_ports, 1u);  // switch 7
  EXPECT_EQ(way(), "to-b");
}

TEST_F(Decisions, WithoutABetterPathTheSenderIsNotifiedBelowTheThresholdToo) {
  active("s1", "to-a", congested(), at(5000));
  links("s1", "to-c", cut(), at(5001));
  active("s1", "to-b", congested(), at(9000));
  EXPECT_EQ(way(), "to-b");
  ASSERT_EQ(network_->lowered.size(), 1u);
  EXPECT_EQ(network_->lowered[0].host_id, "h1");
  // The port of a host: nothing leads around it.
  controller().handle_active("s2", {"h2", congested()}, {{host_of_site(1), host_of_site(2)}}, at(9600));
  network_->collect();
  EXPECT_EQ(network_->lowered.size(), 2u);
}

TEST_F(Decisions, ACutLinkIsLeftAtOnceAndComesBackLater) {
  links("s1", "to-a", cut(), at(2));  // within the dwell of the first routes
  EXPECT_EQ(way(), "to-b");
  EXPECT_EQ(network_->ways("s2", site(1)), "to-b");  // the cable is cut, both directions
  links("s1", "to-a", calm(), at(100));
  network_->pass_settled(at(1099));
  EXPECT_EQ(way(), "to-b");
  network_->pass_settled(at(20'000));
  EXPECT_EQ(way(), "to-b");  // 10 % shorter is not worth a change
  links("s1", "to-b", cut(), at(20'001));
  EXPECT_EQ(way(), "to-a");
}

TEST_F(Decisions, ImprovementsWaitForTheDwell) {
  active("s1", "to-a", congested(), at(5000));
  EXPECT_EQ(way(), "to-b");
  active("s1", "to-b", congested(), at(5100));
  EXPECT_EQ(way(), "to-b");
  EXPECT_GE(controller().counters().improvements_held, 1u);
  network_->pass_settled(at(5999));
  EXPECT_EQ(way(), "to-b");
  network_->pass_settled(at(6000));
  EXPECT_EQ(way(), "to-c");
  EXPECT_TRUE(network_->lowered.empty());  // it was going to move
}

TEST_F(Decisions, ItReturnsToAMuchShorterPathWhenThatIsCalm) {
  active("s1", "to-a", congested(), at(5000));
  active("s1", "to-b", congested(), at(8000));
  EXPECT_EQ(way(), "to-c");
  links("s1", "to-b", calm(), at(9000));
  network_->pass_settled(at(10'999));
  EXPECT_EQ(way(), "to-c");
  network_->pass_settled(at(15'000));
  EXPECT_EQ(way(), "to-b");
}

TEST_F(Decisions, TheDestinationsSideIsChangedFirst) {
  // s1 - x - y - s2 with a second path x - z - y. All routes to x wait until the new path beyond it stands.
  ctl::NetworkMap map;
  const auto link = [&](const char* a, const char* b, Duration delay) {
    EXPECT_TRUE(map.add_link({a, std::string("to-") + b}, {b, std::string("to-") + a}, {Bandwidth{}, delay}));
  };
  link("s1", "x", 1_ms);
  link("x", "y", 1_ms);
  link("x", "z", 1_ms);
  link("z", "y", 1_ms);
  EXPECT_TRUE(map.add_prefix(site(2), "y"));
  network_.emplace(map, ctl::Settings{}, at(0));
  network_->connect_all(at(0));
  network_->settle(at(0));
  EXPECT_EQ(network_->ways("z", site(2)), "to-y");
  // z to y breaks: z must go over x; x stays.
  controller().handle_links("z", {{"to-y", cut()}}, at(5000));
  network_->collect();
  network_->settle(at(5000));
  EXPECT_EQ(network_->ways("z", site(2)), "to-x");
  // It is mended and x to y breaks, so the two turn round: x may send to z only when z no longer sends to x.
  controller().handle_links("z", {{"to-y", calm()}}, at(6000));
  network_->collect();
  network_->pass(at(6999));
  controller().handle_links("x", {{"to-y", cut()}}, at(6999));
  network_->pass(at(7000));
  EXPECT_EQ(network_->on_their_way("z"), 1u);
  EXPECT_EQ(network_->on_their_way("x"), 0u);
  EXPECT_TRUE(network_->deliver("z"));
  EXPECT_EQ(network_->on_their_way("x"), 0u);
  EXPECT_TRUE(network_->acknowledge("z", at(7010)));
  EXPECT_EQ(network_->on_their_way("x"), 1u);
  network_->settle(at(7020));
  EXPECT_EQ(network_->ways("x", site(2)), "to-z");
}

TEST_F(Decisions, ASwitchWhoseRoutesStayIsNoReasonNotToWaitForThoseBehindIt) {
  // v sends to w, before and after. Before, w sends to u; after, u sends to v: not before w has turned round.
  ctl::NetworkMap map;
  const auto link = [&](const char* a, const char* b) {
    EXPECT_TRUE(map.add_link({a, std::string("to-") + b}, {b, std::string("to-") + a}, {Bandwidth{}, 1_ms}));
  };
  link("u", "v");
  link("v", "w");
  link("w", "u");
  link("u", "d");
  link("w", "d");
  EXPECT_TRUE(map.add_prefix(site(2), "d"));
  ctl::Settings settings;
  settings.links.age_max = 100_s;
  network_.emplace(map, settings, at(0));
  network_->connect_all(at(0));
  controller().handle_links("v", {{"to-u", congested()}}, at(1));
  controller().handle_links("u", {{"to-w", congested()}}, at(1));
  controller().handle_links("w", {{"to-d", cut()}}, at(1));
  network_->collect();
  network_->settle(at(1));
  network_->pass_settled(at(5000));
  EXPECT_EQ(network_->ways("v", site(2)), "to-w");
  EXPECT_EQ(network_->ways("w", site(2)), "to-u");
  controller().handle_links("w", {{"to-d", calm()}}, at(6000));
  network_->pass(at(6999));
  controller().handle_links("u", {{"to-d", cut()}}, at(6999));
  network_->pass(at(7000));
  EXPECT_EQ(network_->on_their_way("w"), 1u);
  EXPECT_EQ(network_->on_their_way("u"), 0u);
  network_->settle(at(7001));
  EXPECT_EQ(network_->ways("u", site(2)), "to-v");
  EXPECT_EQ(network_->ways("v", site(2)), "to-w");
}

TEST_F(Decisions, ASwitchWithoutSessionKeepsItsRoutesAndIsTakenAsItIs) {
  network_->disconnect("a", 0, at(1000));
  EXPECT_EQ(way(), "to-a");  // it still forwards
  links("s2", "to-a", cut(), at(2000));
  EXPECT_EQ(way(), "to-b");  // and would send into a cut link
  EXPECT_EQ(network_->ways("a", site(2)), "to-s2");
  network_->connect("a", at(3000));
  network_->settle(at(3000));
  EXPECT_EQ(network_->ways("a", site(2)), "to-s1");  // it has reported its routes, and gets the right ones
}

TEST_F(Decisions, ASwitchThatDoesNotAcknowledgeIsCutOff) {
  controller().handle_links("s1", {{"to-a", cut()}}, at(1000));
  network_->collect();
  EXPECT_EQ(network_->on_their_way("s1"), 1u);
  network_->deliver("s1");
  network_->pass(at(3999));
  EXPECT_TRUE(network_->cut_off.empty());
  network_->pass(at(4000));
  ASSERT_FALSE(network_->cut_off.empty());
  EXPECT_EQ(network_->cut_off[0], "s1");
  network_->connect("s1", at(5000));
  network_->settle(at(5000));
  EXPECT_EQ(way(), "to-b");
}

TEST_F(Decisions, ARefusedInstallationIsNotRepeatedAtOnce) {
  links("s1", "to-a", calm(), at(4000));
  controller().handle_active("s1", {"to-a", congested()}, {}, at(5000));
  network_->collect();
  EXPECT_EQ(network_->on_their_way("s1"), 1u);
  const std::uint64_t sent = controller().counters().installs_sent;
  controller().handle_acknowledgement("s1", controller().epoch(), false, at(5001));
  network_->collect();
  EXPECT_EQ(controller().counters().installs_refused, 1u);
  EXPECT_EQ(controller().counters().installs_sent, sent);
  controller().handle_acknowledgement("s1", controller().epoch(), true, at(5002));
  EXPECT_EQ(controller().counters().acknowledgements_stale, 1u);
}

TEST_F(Decisions, ANewControllerBeginsWithWhatIsInstalled) {
  active("s1", "to-a", congested(), at(5000));
  EXPECT_EQ(way(), "to-b");
  const std::uint64_t changes = network_->changes(), epoch = controller().epoch();
  network_->restart_controller(three_ways(), at(10'000));
  network_->connect("s1", at(10'100));
  network_->connect("a", at(10'100));
  EXPECT_TRUE(controller().recovering());
  network_->connect("b", at(10'200));
  network_->connect("c", at(10'200));
  network_->connect("s2", at(10'300));
  network_->settle(at(10'300));
  EXPECT_FALSE(controller().recovering());
  EXPECT_EQ(network_->changes(), changes);  // 10 % shorter is not worth a change
  EXPECT_GE(controller().epoch(), epoch);
  EXPECT_EQ(way(), "to-b");
}

TEST_F(Decisions, RoutesThatASwitchHasAreKnownBeforeTheirDestinationIs) {
  // Nothing is configured: all comes from the switches. s1 has the longer path installed.
  network_.reset();
  ctl::Controller controller{ctl::NetworkMap{}, ctl::Settings{}, at(0)};
  const std::vector<ctl::PortPeer> links_1{{"p", "s2", "p", {Bandwidth{}, 10_ms}, 0},
                                           {"q", "s2", "q", {Bandwidth{}, 11_ms}, 1}};
  const std::vector<ctl::PortPeer> links_2{{"p", "s1", "p", {Bandwidth{}, 10_ms}, 0},
                                           {"q", "s1", "q", {Bandwidth{}, 11_ms}, 1}};
  ASSERT_TRUE(controller.handle_switch({"s1", 7, links_1, {site(1)}, {{site(2), {"q"}}}, 1}, at(0)));
  ASSERT_TRUE(controller.handle_switch({"s2", 7, links_2, {site(2)}, {{site(1), {"p"}}}, 2}, at(1)));
  EXPECT_FALSE(controller.recovering());
  EXPECT_FALSE(controller.poll());
  EXPECT_EQ(controller.counters().repairs, 0u);
  EXPECT_EQ(controller.epoch(), 7u);
}

TEST_F(Decisions, ANewControllerWaitsForMissingSwitchesOnlyForAWhile) {
  network_->restart_controller(three_ways(), at(10'000));
  network_->connect("s1", at(10'100));
  controller().handle_links("s1", {{"to-a", cut()}}, at(10'200));
  network_->settle(at(10'200));
  EXPECT_EQ(way(), "to-a");
  network_->pass_settled(at(12'000));
  EXPECT_FALSE(controller().recovering());
  EXPECT_EQ(way(), "to-a");  // nothing is known of the others: nothing is better
  network_->connect("b", at(13'000));
  network_->settle(at(13'000));
  EXPECT_EQ(way(), "to-b");
}

// A switch that nobody has configured. Its ports are named after their other ends.
ctl::SwitchHello newcomer(const std::string& id, const std::vector<std::string>& neighbours) {
  ctl::SwitchHello hello{id, 0, {}, {}, {}, 9};
  for (const std::string& each : neighbours) {
    const auto number = static_cast<std::uint32_t>(hello.links.size());
    hello.links.push_back({"to-" + each, each, "to-" + id, {Bandwidth{}, 1_ms}, number});
  }
  return hello;
}

TEST_F(Decisions, ASwitchThatJoinsDuringAChangeGetsItsRoutesInTheNextOne) {
  controller().handle_links("s1", {{"to-a", cut()}}, at(5000));
  network_->collect();
  ASSERT_EQ(network_->on_their_way("s1"), 1u);
  ASSERT_TRUE(controller().handle_switch(newcomer("new", {"s1", "s2"}), at(5001)));
  network_->collect();
  EXPECT_EQ(network_->on_their_way("new"), 0u);  // the change that waits began before it came
  EXPECT_EQ(network_->on_their_way("s1"), 1u);
  network_->settle(at(5002));
  EXPECT_EQ(way(), "to-b");
  while (network_->deliver("new")) continue;
  EXPECT_EQ(network_->ways("new", site(1)), "to-s1");
  EXPECT_EQ(network_->ways("new", site(2)), "to-s2");
}

// A hello names more: the peers of its links, and prefixes behind it, which waiting changes do not know either.
TEST_F(Decisions, AHelloThatEnlargesTheMapMuchLeavesWaitingChangesAsTheyWere) {
  controller().handle_links("s1", {{"to-a", cut()}}, at(5000));
  network_->collect();
  ctl::SwitchHello hello = newcomer("new", {"s1"});
  for (int i = 0; i < 200; ++i) {
    hello.links.push_back({"p" + std::to_string(i), "n" + std::to_string(i), "p", {Bandwidth{}, 1_ms}, 0});
  }
  for (std::uint8_t i = 3; i < 30; ++i) hello.prefixes.push_back(site(i));
  hello.prefixes.push_back(site(2));  // as s2, the destination of the change
  ASSERT_TRUE(controller().handle_switch(hello, at(5001)));
  network_->collect();
  EXPECT_EQ(network_->on_their_way("s1"), 2u);  // its first change waits; routes to the new prefixes
  EXPECT_EQ(controller().counters().changes_abandoned, 0u);
  EXPECT_TRUE(controller().changing(*controller().map().find_prefix(site(2))));
}

// An epoch that cannot be exceeded would be the last one that the other switches accept.
TEST_F(Decisions, ASwitchsEpochIsNotThatOfTheOthers) {
  constexpr std::uint64_t kMax = ~std::uint64_t{0};
  EXPECT_FALSE(controller().handle_switch({"c", kMax, {}, {}, {}, 5}, at(10)));
  EXPECT_EQ(controller().counters().hellos_refused, 1u);
  EXPECT_TRUE(controller().handle_switch({"c", ctl::Controller::kEpochMax, {}, {}, {}, 5}, at(11)));
  network_->collect();
  links("s1", "to-a", cut(), at(5000));
  EXPECT_EQ(way(), "to-b");
  EXPECT_LT(network_->epoch("s1"), 1000u);
}

// Feedback of the switch's ports would count for those of another one.
TEST_F(Decisions, ASwitchDoesNotTakeTheNumberOfAnother) {
  const ctl::SwitchHello thief{"thief", 0, {{"to-a", "x", "y", {Bandwidth{}, 1_ms}, 0}}, {}, {}, 1};
  const std::size_t known = controller().map().switches().size();
  EXPECT_FALSE(controller().handle_switch(thief, at(10)));
  EXPECT_EQ(controller().counters().hellos_refused, 1u);
  EXPECT_EQ(controller().map().switches().size(), known) << "nothing has changed";
  controller().handle_switch_gone("s1", at(20));
  EXPECT_FALSE(controller().handle_switch(thief, at(30))) << "it may return";
  network_->connect("s1", at(40));
  EXPECT_EQ(controller().counters().hellos_refused, 2u);
  EXPECT_TRUE(controller().handle_switch({"s1", 0, {}, {}, {}, 70}, at(50)));
  EXPECT_TRUE(controller().handle_switch(thief, at(60))) << "it has another number now";
}

TEST_F(Decisions, WhatDoesNotFitIsRefusedAndCounted) {
  EXPECT_FALSE(controller().handle_switch({"", 0, {}, {}, {}, 0}, at(1)));
  // A port that leads elsewhere already: the rest of the hello counts.
  EXPECT_TRUE(controller().handle_switch({"s1", 0, {{"to-a", "b", "x", {}, 0}}, {}, {}, 0}, at(1)));
  EXPECT_EQ(controller().counters().hellos_refused, 2u);
  EXPECT_FALSE(controller().handle_host({"", {}}, at(1)));
  controller().handle_links("nobody", {}, at(1));
  EXPECT_EQ(controller().counters().unknown_members, 1u);
  controller().handle_links("s1", {{"h1", calm()}}, at(1));
  EXPECT_EQ(controller().counters().unknown_ports, 1u);
  active("s1", "to-a", congested(), at(2));
  controller().handle_active("s1", {"to-a", congested()}, {{host_of_site(9), host_of_site(2)}}, at(5000));
  controller().handle_active("s1", {"to-a", congested()}, {{host_of_site(1), host_of_site(9)}}, at(5000));
  EXPECT_EQ(controller().counters().unknown_prefixes, 1u);
}

}  // namespace
}  // namespace brdma::test
