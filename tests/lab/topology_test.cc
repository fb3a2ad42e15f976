// Several switches: packets find their path and take its time, links are cut and routes changed while traffic runs.

#include <gmock/gmock.h>
#include <unistd.h>

#include "lab_fixture.h"

namespace brdma::lab_test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

class Topology : public LabTest {
 protected:
  [[nodiscard]] Json link(const std::string& name) const {
    const Json shown = show();
    for (const auto& each : shown.at("topology_links")) {
      if (each.at("link") == name) return each;
    }
    ADD_FAILURE() << "no link " << name;
    return {};
  }
  [[nodiscard]] static long long there(const Json& link, const char* counter) {
    return link.at("directions").at(0).at(counter).get<long long>();
  }
  void change(const std::string& command, const std::vector<std::string>& words) {
    const Outcome outcome = run(lab(command, words));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  }
  void refuse(const std::string& command, const std::vector<std::string>& words, const char* why) {
    const Outcome outcome = run(lab(command, words));
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_THAT(outcome.err, HasSubstr(why));
  }
  // A hundred datagrams from h1 to h2.
  void send_into_the_void() {
    const Outcome sent = run(traffic("h1", {"send", "10.77.2.2", "4791", "100", "200", "1", "100", "0"}));
    EXPECT_EQ(sent.exit_code, 0) << sent.err;
  }
  // Round trips from h1.
  [[nodiscard]] Values ping(const std::string& address, int count = 20) {
    Command echo{traffic("h2", {"echo", "7777"})};
    EXPECT_TRUE(echo.wait_for_output("ready"));
    return values(run(traffic("h1", {"ping", address, "7777", std::to_string(count)})));
  }
};

TEST_P(Topology, HostsReachEachOtherBySwitchesAndTheirDelays) {
  up({"--topology", "parallel"});
  for (const char* address : {"10.77.2.2", "fd77:0:0:2::2"}) {
    const Values trips = ping(address);
    EXPECT_GE(trips.at("min_us"), 20'000) << address;
    EXPECT_EQ(trips.at("lost"), 0) << address;
  }
  EXPECT_GE(there(link("s1-s2"), "forwarded"), 40);
  EXPECT_EQ(there(link("s1-s2.2"), "forwarded"), 0);
  change("route", {"s1", "replace", "10.77.2.0/24", "via", "s2.2"});
  EXPECT_GE(ping("10.77.2.2").at("min_us"), 25'000);
  EXPECT_GE(there(link("s1-s2.2"), "forwarded"), 20);
  change("link", {"s1-s2.2", "set", "--delay", "1ms"});
  EXPECT_GE(ping("10.77.2.2").at("min_us"), 11'000);
}

TEST_P(Topology, EqualCostPathsAreSharedByFlows) {
  up({"--topology", "leaf-spine"});
  Command echo{traffic("h2", {"echo", "7777"})};
  ASSERT_TRUE(echo.wait_for_output("ready"));
  for (int port = 0; port < 16; ++port) {
    const auto trips = values(run(traffic("h1", {"ping", "10.77.2.2", "7777", "10", std::to_string(20'000 + port)})));
    EXPECT_EQ(trips.at("lost"), 0);
  }
  const long long one = there(link("leaf1-spine1"), "forwarded"), other = there(link("leaf1-spine2"), "forwarded");
  EXPECT_GE(one + other, 160);
  EXPECT_GT(one, 0);
  EXPECT_GT(other, 0);
}

TEST_P(Topology, ACutLosesOnlyWhatItCountsAndRoutesLeadAround) {
  up({"--topology", "parallel"});
  change("link", {"s1-s2", "down"});
  EXPECT_FALSE(link("s1-s2").at("up").get<bool>());
  send_into_the_void();
  EXPECT_GE(there(link("s1-s2"), "refused_down"), 100);
  change("route", {"s1", "replace", "10.77.2.0/24", "via", "s2.2"});
  change("route", {"s2", "replace", "10.77.1.0/24", "via", "s1.2"});
  Values seen = send_stream({.address = "10.77.2.2", .count = 1'000, .size = 200, .batch = 1, .gap_us = 100});
  EXPECT_EQ(seen["received"], 1'000);
  EXPECT_EQ(seen["late"] + seen["duplicates"], 0);
  change("link", {"s2-s1", "up"});
  change("route", {"s1", "del", "10.77.2.0/24"});
  send_into_the_void();
  EXPECT_GE(show().at("switches").at(0).at("no_route").get<long long>(), 100);
}

// tests design WT-7
TEST_P(Topology, EveryHopAnswersAnInquiry) {
  up({"--topology", "triangle"});
  change("route", {"s1", "replace", "10.77.2.0/24", "via", "s3"});
  Values answers = values(run(traffic("h1", {"inquire", "10.77.2.2", "3"})));
  EXPECT_EQ(answers["answered"], 3);
  EXPECT_EQ(answers["hop0"], 1);
  EXPECT_EQ(answers["hop1"], 3);
  EXPECT_EQ(answers["hop2"], 2);
  EXPECT_LE(answers["longest"], 80);  // no longer than the inquiry
  change("set", {"--link-state", "off"});
  answers = values(run(traffic("h1", {"inquire", "10.77.2.2", "3"})));
  EXPECT_EQ(answers["answered"], 0);
  EXPECT_TRUE(show().at("switches").at(0).at("link_state").is_null());
}

TEST_P(Topology, ACongestedPortIsReported) {
  up({"--topology", "parallel"});
  const auto reports = [this] { return show().at("switches").at(0).at("link_state").at("reports").get<int>(); };
  EXPECT_EQ(reports(), 0);
  change("link", {"s1-s2", "set", "--rate", "100mbit"});  // a tenth of what it was built for
  for (int looks = 0; looks < 100 && reports() == 0; ++looks) usleep(20'000);
  EXPECT_GE(reports(), 1);  // again after a second
  bool over = false;
  const Json shown = show();
  for (const auto& port : shown.at("switches").at(0).at("link_state").at("ports")) {
    if (port.at("port") == "s2") over = port.at("over_limits").get<bool>();
  }
  EXPECT_TRUE(over);
}

TEST_P(Topology, MistakesChangeNothing) {
  up({"--topology", "triangle", "--loss", "1%"});
  EXPECT_EQ(link("s1-s2").at("options").at("loss"), "1%");
  EXPECT_EQ(link("h1-s1").at("options").at("loss"), "0");
  refuse("link", {"s1-s4", "down"}, "no link 's1-s4'");
  refuse("link", {"s1-s2", "sideways"}, "expected");
  refuse("link", {"s1-s2", "set", "--paths", "2"}, "no option of a link");
  refuse("link", {"s1-s2", "set", "--uplink", "off"}, "no option of a link between switches");
  change("link", {"h1-s1", "set", "--rate", "2gbit", "--uplink", "1gbit"});
  EXPECT_EQ(link("h1-s1").at("options").at("uplink"), "1gbit");
  EXPECT_FALSE(link("s1-s2").at("options").contains("uplink"));
  refuse("route", {"s4", "replace", "10.77.2.0/24", "via", "s2"}, "no switch 's4'");
  refuse("route", {"s1", "add", "10.77.2.0/24", "via", "s2"}, "already");
  refuse("route", {"s1", "replace", "10.77.2.1/24", "via", "s2"}, "prefix");
  refuse("route", {"s1", "replace", "10.77.2.0/24", "via", "s2,s9"}, "no port 's9'");
  refuse("route", {"s1", "del", "10.99.0.0/16"}, "no route");
  change("set", {"--loss", "0"});
  EXPECT_EQ(link("s1-s2").at("options").at("loss"), "0");
  EXPECT_EQ(link("s1-s2").at("options").at("delay"), "10ms");
  EXPECT_EQ(ping("10.77.2.2", 5).at("lost"), 0);
  refuse("up", {"--topology", "no-such"}, "leaf-spine");
  refuse("up", {"--topology", "triangle", "--hosts", "3"}, "--hosts");
  refuse("up", {"--link-state", "on"}, "--topology");
}

INSTANTIATE_TEST_SUITE_P(Lab, Topology, testing::Values(User::kSelf, User::kNobody), user_name);

}  // namespace
}  // namespace brdma::lab_test
