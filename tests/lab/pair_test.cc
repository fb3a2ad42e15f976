// `lab pair`: both programs, their outputs, their failures, and nothing left behind.

#include <gmock/gmock.h>
#include <signal.h>

#include <ctime>

#include "lab_fixture.h"

namespace brdma::lab_test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Pair : public LabTest {
 protected:
  [[nodiscard]] std::vector<std::string> pair(const std::string& mode, std::vector<std::string> options = {}) const {
    options.insert(options.end(), {"--", TRAFFIC_PATH, "pair", mode});
    return lab("pair", options);
  }
  [[nodiscard]] bool lab_is_gone() const { return run(lab("show")).exit_code == 1; }
};

TEST_P(Pair, ServerThenClientThenTheTable) {
  const Outcome outcome = run(pair("ok", {"--loss", "1%"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("h2| the client sent greeting to 10.77.0.1\n"));
  EXPECT_THAT(outcome.out, HasSubstr("h1| the server got greeting\n"));
  EXPECT_THAT(outcome.out, HasSubstr("network: loss 1%"));
  EXPECT_THAT(outcome.out, HasSubstr("packets offered"));
  EXPECT_TRUE(lab_is_gone());
}

TEST_P(Pair, JsonHoldsEverything) {
  const Outcome outcome = run(pair("ok", {"-j", "--loss", "1%"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << outcome.out;
  EXPECT_EQ(json.at("exit_code"), 0);
  EXPECT_EQ(json.at("hosts").at(0).at("role"), "server");
  EXPECT_EQ(json.at("hosts").at(0).at("output"), "the server got greeting\n");
  EXPECT_EQ(json.at("hosts").at(1).at("exit_code"), 0);
  EXPECT_GT(json.at("switch").at("total").at("offered"), 0);
}

// Of the path to the switch, in whole Mbit/s, rounded up.
TEST_P(Pair, ProgramsKnowTheirPortsRate) {
  const auto rate_of = [this](const std::vector<std::string>& network) {
    up(network);
    const Outcome outcome = run(on_host("h1", {"sh", "-c", "echo rate $BRDMA_PORT_RATE_MBPS"}));
    EXPECT_EQ(run(lab("down")).exit_code, 0);
    is_up_ = false;
    return outcome.out;
  };
  EXPECT_EQ(rate_of({"--loss", "0"}), "rate\n");
  EXPECT_EQ(rate_of({"--rate", "2.5gbit"}), "rate 2500\n");
  EXPECT_EQ(rate_of({"--rate", "2.5gbit", "--uplink", "500kbit"}), "rate 1\n");
  EXPECT_EQ(rate_of({"--rate", "2.5gbit", "--uplink", "off"}), "rate 2500\n");
}

TEST_P(Pair, AFailingServerEndsItBeforeTheClientStarts) {
  const Outcome outcome = run(pair("server-fails"));
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.out, Not(HasSubstr("the client")));
  EXPECT_TRUE(lab_is_gone());
}

TEST_P(Pair, TheClientsFailureIsPassedOn) {
  EXPECT_EQ(run(pair("client-fails")).exit_code, 4);
  EXPECT_TRUE(lab_is_gone());
}

TEST_P(Pair, AMissingProgramIsNamed) {
  const Outcome outcome = run(lab("pair", {"--", "/no/such/program"}));
  EXPECT_EQ(outcome.exit_code, 127);
  EXPECT_THAT(outcome.out + outcome.err, HasSubstr("/no/such/program"));
}

TEST_P(Pair, InterruptionLeavesNothing) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Command command{pair("client-hangs", {"--loss", "0"})};
    ASSERT_TRUE(command.wait_for_output("the client hangs"));
    const NetworkNamespace space{run(on_host("h2", {"readlink", "/proc/self/ns/net"})).out};
    ASSERT_TRUE(space.found());
    command.send_signal(signal);
    EXPECT_EQ(command.finish().exit_code, 128 + signal);
    EXPECT_TRUE(lab_is_gone());
    EXPECT_FALSE(space.is_inhabited());
  }
}

TEST_P(Pair, KillingItLeavesNothing) {
  Command command{pair("client-hangs", {"--loss", "0"})};
  ASSERT_TRUE(command.wait_for_output("the client hangs"));
  const NetworkNamespace space{run(on_host("h2", {"readlink", "/proc/self/ns/net"})).out};
  ASSERT_TRUE(space.found());
  command.send_signal(SIGKILL);
  EXPECT_EQ(command.finish().exit_code, 128 + SIGKILL);
  const timespec step{0, 5'000'000};
  bool gone = false;
  for (int i = 0; i < 2'000 && !gone; ++i) {  // the kernel needs a moment to end its processes
    gone = !space.is_inhabited() && lab_is_gone();
    nanosleep(&step, nullptr);
  }
  EXPECT_TRUE(gone);
}

INSTANTIATE_TEST_SUITE_P(Lab, Pair, testing::Values(User::kSelf, User::kNobody), user_name);

}  // namespace
}  // namespace brdma::lab_test
