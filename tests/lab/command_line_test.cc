// brdma's command line, accepted and refused: exit codes 0, 1, 2 and messages with a remedy.

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <thread>

#include "lab_fixture.h"

namespace brdma::lab_test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

using CommandLine = LabTest;

TEST_P(CommandLine, HelpAndVersion) {
  EXPECT_EQ(run(brdma({"help"})).exit_code, 0);
  EXPECT_EQ(run(brdma({"lab", "help"})).exit_code, 0);
  EXPECT_THAT(run(brdma({"lab", "help"})).out, HasSubstr("--burst-loss P,LEN"));
  EXPECT_THAT(run(brdma({"-V"})).out, HasSubstr("brdma "));
  EXPECT_EQ(run(brdma({})).exit_code, 2);
}

TEST_P(CommandLine, MisuseIsRefusedWithTwo) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"nonsense"},
           {"-x"},
           {"lab", "nonsense"},
           {"lab", "up", "--loss", "1"},
           {"lab", "up", "--loss"},
           {"lab", "up", "--hosts", "0"},
           {"lab", "up", "--hosts", "65"},
           {"lab", "up", "--name", "a/b"},
           {"lab", "up", "--edn", "tcp"},
           {"lab", "up", "--uplink", "fast"},
           {"lab", "up", "--ecn", "20kb,80kb,10%"},
           {"lab", "up", "--rate", "1gbit", "--ecn-to-rtt", "20us"},
           {"lab", "up", "--link-state", "on"},
           {"lab", "up", "--no-such-option", "1"},
           {"lab", "up", "ib_write_bw"},
           {"lab", "up", "--paths", "9"},
           {"lab", "exec", "h1"},
           {"lab", "exec", "--loss", "1%", "h1", "true"},
           {"lab", "set"},
           {"lab", "pair", "--loss", "1%"},
           {"run"},
           {"run", "--recovery", "magic", "true"},
           {"resource", "show", "pd"},
           {"system", "show", "nonsense"},
           {"system", "shutdown", "nonsense"},
       }) {
    const Outcome outcome = run(brdma(words));
    EXPECT_EQ(outcome.exit_code, 2) << testing::PrintToString(words) << outcome.err;
    EXPECT_THAT(outcome.err + outcome.out, HasSubstr("brdma"));
  }
}

// Whatever the number: too large for its range, for 64 bits, or for 64 bits once its unit is applied.
TEST_P(CommandLine, ANumberBeyondItsRangeIsRefusedAndTheRangeShown) {
  const std::string huge = "99999999999999999999";
  struct Case {
    std::vector<std::string> words;
    std::string range;
  };
  for (const Case& each : std::vector<Case>{
           {{"event", "since", "87601h"}, "at most 87600h"},
           {{"event", "since", "5256001m"}, "at most 87600h"},
           {{"event", "since", "315360001"}, "at most 87600h"},
           {{"event", "since", "1000000000h"}, "at most 87600h"},
           {{"event", "since", "9223372036854775807s"}, "at most 87600h"},
           {{"event", "since", huge + "h"}, "at most 87600h"},
           {{"event", "since", "-1s"}, "at most 87600h"},
           {{"lab", "up", "--hosts", huge}, "1 to 64"},
           {{"lab", "up", "--wait", huge}, "0 to 3600"},
           {{"lab", "top", "--interval", huge}, "10 to 3600000"},
           {{"lab", "top", "--count", huge}, "1 to 1000000"},
           {{"lab", "up", "--delay", huge + "s"}, "at most 10s"},
           {{"lab", "up", "--delay", "11s"}, "at most 10s"},
           {{"lab", "up", "--rate", huge + "gbit"}, "8kbit to 400gbit"},
           {{"lab", "up", "--queue", huge + "mb"}, "1500 to 1024mb"},
           {{"recovery", "retransmit", "qp", "3", "psn", huge}, "0..16777215"},
           {{"recovery", "retransmit", "qp", "3", "packets", huge}, "1..1048576"},
           {{"resource", "show", "qp", "lqpn", huge}, "0 to 16777215"},
           {{"resource", "show", "qp", "lqpn", "0x1000000"}, "0 to 16777215"},
           {{"recovery", "set", "depth_max", huge}, "0..1048576"},
           {{"recovery", "set", "age_max_us", huge}, ".."},
       }) {
    const Outcome outcome = run(brdma(each.words));
    EXPECT_EQ(outcome.exit_code, 2) << testing::PrintToString(each.words) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(each.range)) << testing::PrintToString(each.words);
  }
  for (const char* since : {"87600h", "5256000m", "315360000s", "0"}) {
    const Outcome outcome = run(brdma({"event", "since", since}));
    EXPECT_NE(outcome.exit_code, 2) << since << outcome.err;
  }
}

TEST_P(CommandLine, FailureIsOneAndSaysWhatToDo) {
  const Outcome missing = run(lab("exec", {"h1", "true"}));
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("brdma lab up --name " + name_));
  up({});
  const Outcome host = run(lab("exec", {"h3", "true"}));
  EXPECT_EQ(host.exit_code, 1);
  EXPECT_THAT(host.err, HasSubstr("it has h1 to h2"));
  const Outcome network = run(lab("set", {"--loss", "1%"}));
  EXPECT_EQ(network.exit_code, 1);
  EXPECT_THAT(network.err, HasSubstr("has no switch"));
}

TEST_P(CommandLine, LabsAreListed) {
  up({"--loss", "0", "--hosts", "3"});
  const Outcome outcome = run(brdma({"-j", "lab", "list"}));
  bool found = false;
  for (const auto& entry : nlohmann::json::parse(outcome.out)) {
    if (entry.at("lab") != name_) continue;
    found = true;
    EXPECT_EQ(entry.at("hosts"), 3);
    EXPECT_EQ(entry.at("switch"), true);
  }
  EXPECT_TRUE(found) << outcome.out;
}

// Listens under a lab's name and closes each connection: like a lab that ends during a query.
class EndingLab {
 public:
  explicit EndingLab(const std::string& name) : listener_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 4), 0);
    closing_ = std::thread([this] {
      for (int asked = 0; (asked = accept(listener_, nullptr, nullptr)) >= 0; close(asked)) ++asked_;
    });
  }
  ~EndingLab() {
    shutdown(listener_, SHUT_RDWR);
    closing_.join();
    close(listener_);
  }
  EndingLab(const EndingLab&) = delete;
  EndingLab& operator=(const EndingLab&) = delete;
  [[nodiscard]] int asked() const { return asked_; }

 private:
  int listener_;
  std::atomic<int> asked_{0};
  std::thread closing_;
};

TEST_P(CommandLine, ALabThatEndsWhileItIsListedIsLeftOut) {
  up({});
  const std::string uid = std::to_string(GetParam() == User::kNobody ? 65'534 : geteuid());
  const EndingLab ending{"brdma-lab/" + uid + "/" + name_ + "-ending"};
  const Outcome outcome = run(brdma({"-j", "lab", "list"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\"" + name_ + "\""));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("-ending")));
  EXPECT_GE(ending.asked(), 1);
}

TEST_P(CommandLine, DevicesOfAHostAreShown) {
  up({});
  const auto devices = nlohmann::json::parse(run(on_host("h1", {BRDMA_PATH, "-j", "dev", "show"})).out);
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].at("ifname"), "brdma_eth0");
  EXPECT_EQ(devices[0].at("node_type"), "ca");
  const Outcome links = run(on_host("h1", {BRDMA_PATH, "link"}));
  EXPECT_EQ(links.out, "link brdma_eth0/1 state ACTIVE physical_state LINK_UP netdev eth0\n");
  EXPECT_EQ(run(on_host("h1", {BRDMA_PATH, "dev", "show", "brdma_none"})).exit_code, 1);
  EXPECT_EQ(run(on_host("h1", {BRDMA_PATH, "-j", "statistic"})).out, "[]\n");
}

TEST_P(CommandLine, SettingsAreShownWithTheirOrigin) {
  const auto all = nlohmann::json::parse(run(brdma({"-j", "system", "show", "config"})).out);
  const auto recovery = nlohmann::json::parse(run(brdma({"-j", "rec"})).out);
  EXPECT_GT(all.size(), recovery.size());
  EXPECT_EQ(recovery[0].at("key"), "recovery.mode");
  up({});
  const Outcome changed = run(lab("exec", {"--recovery", "gobackn", "h1", BRDMA_PATH, "recovery", "show"}));
  EXPECT_THAT(changed.out, HasSubstr("recovery.mode gobackn source environment (BRDMA_RECOVERY)"));
}

TEST_P(CommandLine, ProgramsSendOnThePathsOfTheLab) {
  up({"--paths", "3"});
  const auto seen_by_program = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"h1", "sh", "-c", "echo paths $BRDMA_PATHS"});
    return run(lab("exec", all)).out;
  };
  EXPECT_EQ(seen_by_program({}), "paths 3\n");
  EXPECT_EQ(seen_by_program({"--paths", "1"}), "paths 1\n");
}

TEST_P(CommandLine, TheDaemonOfAHostIsEnded) {
  up({});
  const Outcome none = run(on_host("h1", {BRDMA_PATH, "system", "shutdown"}));
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("no brdmad runs"));
  const Outcome ended =
      run(on_host("h1", {"sh", "-c", "ibv_devinfo >/dev/null && exec \"$0\" -j system shutdown --force", BRDMA_PATH}));
  EXPECT_THAT(ended.out, HasSubstr("\"leases_ended\":")) << ended.err;
}

TEST_P(CommandLine, RunShowsTheLibraryToTheProgram) {
  const Outcome outcome =
      run(brdma({"run", "--window", "1024", "--", "sh", "-c", "echo $LD_PRELOAD $BRDMA_WINDOW; exit 9"}));
  EXPECT_EQ(outcome.exit_code, 9);
  EXPECT_THAT(outcome.out, HasSubstr("libbitmaprdma.so.1 1024"));
  EXPECT_EQ(run(brdma({"run", "/no/such/program"})).exit_code, 127);
  EXPECT_THAT(run(brdma({"env"})).out, ContainsRegex("^export LD_PRELOAD='.*libbitmaprdma.so.1'\n"));
}

INSTANTIATE_TEST_SUITE_P(Lab, CommandLine, testing::Values(User::kSelf, User::kNobody), user_name);

}  // namespace
}  // namespace brdma::lab_test
