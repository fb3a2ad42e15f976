// A controller over the lab's switches: routes leave a cut link by themselves, stay when the controller is killed, and
// move once it is there again.

#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lab_fixture.h"

namespace brdma::lab_test {
namespace {

using Json = nlohmann::json;

class Controlled : public LabTest {
 protected:
  void SetUp() override {
    LabTest::SetUp();
    if (IsSkipped()) return;
    folder_ = std::filesystem::temp_directory_path() / ("brdma-" + name_);
    std::filesystem::create_directory(folder_);
    make_keys({"*"});
    begin();
  }
  void make_keys(const std::vector<std::string>& names) {
    std::vector<std::string> command{
        "/bin/sh", "-c",  "cd \"$0\" && rm -f keys && exec \"$@\"", folder_.string(), CONTROLLER_PATH, "keygen",
        "--out",   keys()};
    command.insert(command.end(), names.begin(), names.end());
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  }
  void TearDown() override {
    controller_.reset();
    LabTest::TearDown();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  [[nodiscard]] std::string keys() const { return (folder_ / "keys").string(); }
  [[nodiscard]] std::string where() const { return "unix:" + (folder_ / "controller").string(); }
  void begin() {
    controller_ = std::make_unique<Command>(std::vector<std::string>{
        CONTROLLER_PATH, "--listen", where(), "--key", keys(), "--control", "@brdma-test-" + name_, "--ready-fd", "1"});
    ASSERT_TRUE(controller_->wait_for_output("ready"));
  }
  // The port of the switch `at` (from 0) towards the other site.
  [[nodiscard]] std::string via(std::size_t at) const {
    const std::string prefix = at == 0 ? "10.77.2.0/24" : "10.77.1.0/24";
    const Json shown = show();
    for (const Json& route : shown.at("switches").at(at).at("routes")) {
      if (route.at("prefix") == prefix) return route.at("via").dump();
    }
    return "none";
  }
  [[nodiscard]] bool becomes(const char* one, const char* other) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < end) {
      if (via(0) == one && via(1) == other) return true;
    }
    return false;
  }
  // The output of `brdma -j controller WORDS`; only its exit code if that is not 0.
  [[nodiscard]] Json ask(std::vector<std::string> words) const {
    std::vector<std::string> command{BRDMA_PATH, "-j", "controller"};
    command.insert(command.end(), words.begin(), words.end());
    command.insert(command.end(), {"at", "@brdma-test-" + name_});
    const Outcome outcome = run(command);
    return outcome.exit_code == 0 && !outcome.out.empty() ? Json::parse(outcome.out) : Json(outcome.exit_code);
  }
  void link(const char* name, const char* state) {
    const Outcome outcome = run(lab("link", {name, state}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  }

  std::filesystem::path folder_;
  std::unique_ptr<Command> controller_;
};

TEST_P(Controlled, RoutesLeaveACutLinkAndStayWhenTheControllerDies) {
  up({"--topology", "parallel", "--controller", where(), "--controller-key", keys()});
  link("s1-s2", "down");
  ASSERT_TRUE(becomes(R"(["s2.2"])", R"(["s1.2"])"));
  const Values seen = send_stream({.address = "10.77.2.2", .count = 500, .batch = 1, .gap_us = 100});
  EXPECT_EQ(seen.at("received"), 500);
  controller_->send_signal(SIGKILL);
  controller_.reset();
  link("s1-s2", "up");
  link("s1-s2.2", "down");
  EXPECT_EQ(via(0), R"(["s2.2"])");
  begin();
  EXPECT_TRUE(becomes(R"(["s2"])", R"(["s1"])"));
}

TEST_P(Controlled, TheCommandLineSaysWhatTheControllerKnows) {
  EXPECT_EQ(ask({}).at(0).at("switches"), 0);
  up({"--topology", "parallel", "--controller", where(), "--controller-key", keys()});
  link("s1-s2", "down");
  ASSERT_TRUE(becomes(R"(["s2.2"])", R"(["s1.2"])"));
  const Json summary = ask({"show"});
  EXPECT_EQ(summary.at(0).at("switches"), 2);
  EXPECT_EQ(summary.at(0).at("links"), 4);
  const Json links = ask({"show", "links"});
  ASSERT_EQ(links.size(), 4u);
  for (const Json& each : links) EXPECT_EQ(each.at("usable"), each.at("port").get<std::string>().ends_with(".2"));
  std::vector<std::string> from;  // nlohmann-json 3.10's iterators are no ranges'
  for (const Json& each : links) from.push_back(each.at("from"));
  EXPECT_TRUE(std::is_sorted(from.begin(), from.end()));
  // In the order of their names, whichever greeted first.
  const Json switches = ask({"show", "switches"});
  ASSERT_EQ(switches.size(), 2u);
  const Json there = {{"prefix", "10.77.2.0/24"}, {"via", {"s2.2"}}};
  const Json back = {{"prefix", "10.77.1.0/24"}, {"via", {"s1.2"}}};
  EXPECT_EQ(switches.at(0).at("switch"), "s1");
  EXPECT_EQ(switches.at(0).at("routes").at(0), there);
  EXPECT_EQ(switches.at(1).at("switch"), "s2");
  EXPECT_EQ(switches.at(1).at("routes").at(0), back);
  EXPECT_EQ(ask({"show", "prefixes"}).size(), 4u);
  EXPECT_TRUE(ask({"show", "hosts"}).empty());
  EXPECT_TRUE(ask({"show", "counters"}).at(0).is_object());
  EXPECT_EQ(ask({"links", "stop"}), 2);
  EXPECT_EQ(ask({"stop"}), 0);
  EXPECT_EQ(ask({"show"}), 1);
}

// Each switch and host with a key of its own under its name.
TEST_P(Controlled, EveryMemberMayHaveItsOwnKey) {
  controller_.reset();
  make_keys({"s1", "s2", "h1", "h2"});
  begin();
  up({"--topology", "parallel", "--controller", where(), "--controller-key", keys()});
  Command program{lab("exec", {"h2", "--", "ibv_rc_pingpong", "-g", "1"})};  // its brdmad has a session
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (ask({"show", "hosts"}).empty() && std::chrono::steady_clock::now() < end) continue;
  const Json hosts = ask({"show", "hosts"});
  ASSERT_EQ(hosts.size(), 1u);
  EXPECT_EQ(hosts.at(0).at("host"), "h2");
  EXPECT_EQ(ask({}).at(0).at("switches"), 2);
  program.send_signal(SIGTERM);
}

INSTANTIATE_TEST_SUITE_P(Lab, Controlled, testing::Values(User::kSelf), user_name);

}  // namespace
}  // namespace brdma::lab_test
