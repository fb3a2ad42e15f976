// Routes towards a prefix: the cheapest, those of equal cost, around congested or broken links, and over switches that
// keep their last routes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fabric/controller/route_choice.h"

namespace brdma::fabric::controller {
namespace {

// Switches by name, links "a-b" from port "to-b" to port "to-a" (a third part makes a parallel link's ports differ).
class Net {
 public:
  LinkIndex link(const std::string& a, const std::string& b, Duration delay, const std::string& which = "") {
    EXPECT_TRUE(map_.add_link({a, "to-" + b + which}, {b, "to-" + a + which}, {Bandwidth{}, delay}));
    const LinkIndex there = *map_.find_link(*map_.find_switch(a), "to-" + b + which);
    cost_.resize(map_.links().size());
    fixed_.resize(map_.switches().size());
    cost_[there] = cost_[NetworkMap::reverse(there)] = Cost{0, delay.ns()};
    return there;
  }
  void set(LinkIndex link, std::optional<Cost> cost) { cost_[link] = cost_[NetworkMap::reverse(link)] = cost; }
  void fix(const std::string& name, const NextLinks* links) { fixed_[*map_.find_switch(name)] = links; }
  Routes towards(const std::string& name) {
    const std::vector<SwitchIndex> destinations{*map_.find_switch(name)};
    return choose_routes({map_, cost_, destinations, fixed_, 50});
  }
  std::string ways(const Routes& routes, const std::string& from) {
    std::string text;
    for (const LinkIndex link : routes.next[*map_.find_switch(from)]) {
      text += (text.empty() ? "" : " ") + map_.links()[link].port;
    }
    return text;
  }

 private:
  NetworkMap map_;
  std::vector<std::optional<Cost>> cost_;
  std::vector<const NextLinks*> fixed_;
};

TEST(RouteChoice, TheShortestAndItsEquals) {
  Net net;
  net.link("s1", "s2", 10_ms);
  net.link("s1", "s3", 5_ms);
  net.link("s3", "s2", 5_ms);
  const LinkIndex second = net.link("s1", "s2", 10_ms, "b");
  EXPECT_EQ(net.ways(net.towards("s2"), "s1"), "to-s2 to-s3 to-s2b");
  EXPECT_EQ(net.ways(net.towards("s2"), "s3"), "to-s2");
  EXPECT_EQ(net.ways(net.towards("s2"), "s2"), "");
  net.set(second, Cost{0, 11'000'000});  // more than 5 % longer
  EXPECT_EQ(net.ways(net.towards("s2"), "s1"), "to-s2 to-s3");
  net.set(second, Cost{0, 10'400'000});  // not
  EXPECT_EQ(net.ways(net.towards("s2"), "s1"), "to-s2 to-s3 to-s2b");
}

TEST(RouteChoice, AroundCongestedLinksWhateverItCosts) {
  Net net;
  const LinkIndex direct = net.link("s1", "s2", 1_ms);
  const LinkIndex far = net.link("s1", "s3", 50_ms);
  net.link("s3", "s2", 50_ms);
  net.set(direct, Cost{1, 1'000'000});
  EXPECT_EQ(net.ways(net.towards("s2"), "s1"), "to-s3");
  net.set(far, Cost{1, 50'000'000});  // both: the shorter
  EXPECT_EQ(net.ways(net.towards("s2"), "s1"), "to-s2");
  net.set(direct, std::nullopt);
  EXPECT_EQ(net.ways(net.towards("s2"), "s1"), "to-s3");
  net.set(far, std::nullopt);
  const Routes none = net.towards("s2");
  EXPECT_EQ(net.ways(none, "s1"), "");
  EXPECT_FALSE(none.distance[0]);
}

TEST(RouteChoice, EqualCostPathsNeverLeadBack) {
  // s1 and s2 are 100 us apart, each 10 ms from the destination: the path over the other is within 5 %, but not nearer.
  Net net;
  net.link("s1", "s2", 100_us);
  net.link("s1", "d", 10_ms);
  net.link("s2", "d", 10_ms);
  const Routes routes = net.towards("d");
  EXPECT_EQ(net.ways(routes, "s1"), "to-d");
  EXPECT_EQ(net.ways(routes, "s2"), "to-d");
}

TEST(RouteChoice, AFixedSwitchIsTakenAsItIs) {
  Net net;
  const LinkIndex s1_s2 = net.link("s1", "s2", 1_ms), s2_d = net.link("s2", "d", 1_ms);
  net.link("s1", "d", 10_ms);
  const NextLinks back{NetworkMap::reverse(s1_s2)};
  net.fix("s2", &back);  // it sends to s1: no path for s1
  EXPECT_EQ(net.ways(net.towards("d"), "s1"), "to-d");
  EXPECT_EQ(net.ways(net.towards("d"), "s2"), "to-s1");
  const NextLinks either{NetworkMap::reverse(s1_s2), s2_d};  // may come back: no path either
  net.fix("s2", &either);
  EXPECT_EQ(net.ways(net.towards("d"), "s1"), "to-d");
  const NextLinks on{s2_d};
  net.fix("s2", &on);
  EXPECT_EQ(net.ways(net.towards("d"), "s1"), "to-s2");
  const NextLinks none;
  net.fix("s2", &none);
  EXPECT_EQ(net.ways(net.towards("d"), "s1"), "to-d");
}

}  // namespace
}  // namespace brdma::fabric::controller
