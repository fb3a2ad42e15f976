// Labs come up, run programs as if those ran here, and leave nothing behind, however they end.

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <ctime>

#include "lab_fixture.h"

namespace brdma::lab_test {
namespace {

using testing::HasSubstr;

using Lifetime = LabTest;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// For pending actions of the kernel or another process: polls every few milliseconds, for ten seconds at most.
template <class Condition>
bool comes_true(Condition condition) {
  const timespec step{0, 5'000'000};
  for (int i = 0; i < 2'000; ++i) {
    if (condition()) return true;
    nanosleep(&step, nullptr);
  }
  return false;
}

TEST_P(Lifetime, DirectlyJoinedHostsReachEachOther) {
  up({});
  for (const char* address : {"10.77.0.2", "fd77::2"}) {
    Values seen = send_stream({.address = address, .count = 1'000});
    EXPECT_EQ(seen["received"], 1'000) << address;
  }
  EXPECT_FALSE(show().at("switch").get<bool>());
  EXPECT_EQ(show().at("interface_mtu"), 9000);
}

TEST_P(Lifetime, ManyHostsReachEachOtherWithAndWithoutSwitch) {
  for (const std::vector<std::string>& network : {std::vector<std::string>{}, {"--loss", "0"}}) {
    std::vector<std::string> words{"--hosts", "4"};
    words.insert(words.end(), network.begin(), network.end());
    up(words);
    Command echo{traffic("h4", {"echo", "4791"})};
    ASSERT_TRUE(echo.wait_for_output("ready"));
    for (const char* host : {"h1", "h2", "h3"}) {
      EXPECT_EQ(values(run(traffic(host, {"ping", "10.77.0.4", "4791", "20"})))["lost"], 0) << host;
    }
    ASSERT_EQ(run(lab("down")).exit_code, 0);
    is_up_ = false;
  }
}

TEST_P(Lifetime, PathMtuChoosesTheInterfaces) {
  up({"--mtu", "1024"});
  EXPECT_EQ(show().at("interface_mtu"), 1500);
}

TEST_P(Lifetime, ExecPassesStreamsExitCodeAndDirectory) {
  up({});
  const Outcome outcome = run(on_host("h1", {"sh", "-c", "cat; echo problem >&2; pwd; exit 7"}), "some words\n");
  EXPECT_EQ(outcome.exit_code, 7);
  EXPECT_THAT(outcome.out, HasSubstr("some words\n"));
  EXPECT_THAT(outcome.err, HasSubstr("problem"));
  std::array<char, 4096> here{};
  ASSERT_NE(getcwd(here.data(), here.size()), nullptr);
  EXPECT_THAT(outcome.out, HasSubstr(here.data()));
  EXPECT_EQ(run(on_host("h1", {"/no/such/program"})).exit_code, 127);
  EXPECT_EQ(run(on_host("h1", {"/etc/passwd"})).exit_code, 126);
  EXPECT_EQ(run(on_host("h1", {"sh", "-c", "kill -9 $$"})).exit_code, 128 + SIGKILL);
}

// As on machines of their own: some programs take hosts with the same name for one.
TEST_P(Lifetime, AHostHasItsName) {
  const std::string before = run({"uname", "-n"}).out;
  up({});
  EXPECT_EQ(run(on_host("h1", {"uname", "-n"})).out, "h1\n");
  EXPECT_EQ(run(on_host("h2", {"uname", "-n"})).out, "h2\n");
  EXPECT_EQ(run({"uname", "-n"}).out, before);
}

TEST_P(Lifetime, HostsFindEachOtherByName) {
  const std::string before = run({"cat", "/etc/hosts"}).out;
  up({"--hosts", "3"});
  for (const char* host : {"h1", "h3"}) {
    const Outcome outcome =
        run(on_host(host, {"sh", "-c", "getent ahostsv4 h2 && getent ahostsv6 h3 && getent hosts localhost"}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("10.77.0.2 "));
    EXPECT_THAT(outcome.out, HasSubstr("fd77::3 "));
  }
  EXPECT_EQ(run({"cat", "/etc/hosts"}).out, before);
  if (run({"test", "-e", "/etc/hostname"}).exit_code == 0) {
    EXPECT_EQ(run(on_host("h2", {"cat", "/etc/hostname"})).out, "h2\n");
  }
}

// As on a machine of its own: a mount is the host's, and stays for its later programs.
TEST_P(Lifetime, MountsAreAHosts) {
  up({});
  const std::string mounted = "grep -c ' /mnt tmpfs' /proc/self/mounts";
  ASSERT_EQ(run(on_host("h1", {"mount", "-t", "tmpfs", "test", "/mnt"})).exit_code, 0);
  EXPECT_EQ(run(on_host("h1", {"sh", "-c", mounted})).out, "1\n");
  EXPECT_EQ(run(on_host("h2", {"sh", "-c", mounted})).out, "0\n");
  EXPECT_EQ(run({"sh", "-c", mounted}).out, "0\n");
}

TEST_P(Lifetime, AProgramOnAHostStartsOthersOnOtherHosts) {
  up({});
  const std::string brdma = BRDMA_PATH;
  const Outcome there = run(on_host("h1", {brdma, "lab", "exec", "h2", "--", "sh", "-c", "uname -n; exit 7"}));
  EXPECT_EQ(there.out, "h2\n") << there.err;
  EXPECT_EQ(there.exit_code, 7);
  EXPECT_EQ(run(on_host("h1", {brdma, "lab", "exec", "10.77.0.2", "--", "uname", "-n"})).out, "h2\n");
  EXPECT_EQ(run(on_host("h2", {brdma, "lab", "exec", "h2", "--", "uname", "-n"})).out, "h2\n");
  const Outcome nobody_there = run(on_host("h1", {brdma, "lab", "exec", "h9", "--", "true"}));
  EXPECT_EQ(nobody_there.exit_code, 1);
  EXPECT_THAT(nobody_there.err, HasSubstr("it has h1 to h2"));
}

TEST_P(Lifetime, TheRemoteShellTakesALineAsSshDoes) {
  up({});
  const std::string brdma = BRDMA_PATH;
  const Outcome there =
      run(on_host("h1", {brdma, "lab", "rsh", "-x", "-l", "root", "h2", "a=3;", "uname -n &&", "exit $a"}));
  EXPECT_EQ(there.out, "h2\n") << there.err;
  EXPECT_EQ(there.exit_code, 3);
  EXPECT_EQ(run(lab("rsh", {"-n", "h1", "uname", "-n"})).out, "h1\n");
  for (const std::vector<std::string>& misuse : std::vector<std::vector<std::string>>{{}, {"h1"}, {"-f", "h1", "true"}})
    EXPECT_EQ(run(lab("rsh", misuse)).exit_code, 2);
}

TEST_P(Lifetime, RunWithANamespaceOfItsOwnWorksOnAHost) {
  up({});
  const Outcome devices =
      run(on_host("h1", {BRDMA_PATH, "run", "--namespace", "--", "sh", "-c", "ibv_devices && uname -n"}));
  EXPECT_EQ(devices.exit_code, 0) << devices.err;
  EXPECT_THAT(devices.out, HasSubstr("brdma_eth0"));
  EXPECT_THAT(devices.out, HasSubstr("h1\n"));
}

TEST_P(Lifetime, AProgramOnAHostDoesNotEndTheLab) {
  up({});
  const Outcome refused = run(on_host("h1", {BRDMA_PATH, "lab", "down"}));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("end the lab from where it was started"));
  EXPECT_EQ(run(on_host("h2", {"uname", "-n"})).out, "h2\n");
}

TEST_P(Lifetime, ExecPassesSignals) {
  up({});
  Command program{on_host("h1", {"sh", "-c", "trap 'exit 42' TERM; echo ready; while :; do sleep 0.01; done"})};
  ASSERT_TRUE(program.wait_for_output("ready"));
  program.send_signal(SIGTERM);
  EXPECT_EQ(program.finish().exit_code, 42);
}

TEST_P(Lifetime, ProgramsDieWithTheExecThatStartedThem) {
  up({});
  Command program{on_host("h1", {"sh", "-c", "readlink /proc/self/ns/pid; echo ready; exec sleep 1000"})};
  ASSERT_TRUE(program.wait_for_output("ready"));
  program.send_signal(SIGKILL);
  EXPECT_TRUE(comes_true([&] {
    return run(on_host("h1", {"sh", "-c", "ps ax | grep -q '[s]leep 1000'"})).exit_code != 0;
  }));
}

TEST_P(Lifetime, HostsSeeTheirOwnProcesses) {
  up({});
  const Outcome outcome = run(on_host("h1", {"sh", "-c", "test -d /proc/$$ && echo same"}));
  EXPECT_THAT(outcome.out, HasSubstr("same"));
}

// Linux shares the cores between sessions first (autogroup): in another one than programs that spin, a switch without
// real-time priority waits for up to a second.
TEST_P(Lifetime, TheSwitchIsInTheSessionOfThePrograms) {
  up({"--loss", "1%"});
  const Outcome outcome = run(on_host("h1", {"sh", "-c", R"sh(
    session() { cut -d ' ' -f 6 "/proc/$1/stat"; }
    for comm in /proc/[0-9]*/comm; do
      read -r name <"$comm"
      if [ "$name" = brdma-switch ]; then session "$(basename "$(dirname "$comm")")"; fi
    done
    session $$)sh"}));
  const std::string of_switch = first_line(outcome.out);
  EXPECT_FALSE(of_switch.empty());
  EXPECT_EQ(outcome.out, of_switch + "\n" + of_switch + "\n") << outcome.err;
}

TEST_P(Lifetime, DownLeavesNothing) {
  up({"--loss", "1%"});
  const std::string link = run(on_host("h1", {"readlink", "/proc/self/ns/net"})).out;
  ASSERT_THAT(link, HasSubstr("net:["));
  // A program that ignores SIGTERM and one that has left its parents.
  Command stubborn{on_host("h1", {"sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"})};
  ASSERT_TRUE(stubborn.wait_for_output("ready"));
  ASSERT_EQ(run(on_host("h1", {"sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & true"})).exit_code, 0);
  const NetworkNamespace space{link};
  ASSERT_TRUE(space.found());
  ASSERT_EQ(run(lab("down")).exit_code, 0);
  is_up_ = false;
  EXPECT_EQ(stubborn.finish().exit_code, 128 + SIGKILL);
  EXPECT_FALSE(space.is_inhabited());
  const Outcome again = run(lab("show"));
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.err, HasSubstr("no lab '" + name_ + "' is up"));
}

TEST_P(Lifetime, ANameIsUsedOnceAtATimeAndIsFreeAfterwards) {
  up({});
  const Outcome second = run(lab("up"));
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.err, HasSubstr("is up already"));
  ASSERT_EQ(run(lab("down")).exit_code, 0);
  up({});
}

TEST_P(Lifetime, ADeadSwitchIsReported) {
  up({"--loss", "0"});
  ASSERT_EQ(run(on_host("h1", {"sh", "-c", "kill -9 $(ps -o pid= -C brdma-switch)"})).exit_code, 0);
  EXPECT_TRUE(comes_true([&] { return !show().at("switch").get<bool>(); }));
  EXPECT_EQ(show().at("switch_error"), "the switch has ended by signal 9");
  const Outcome set = run(lab("set", {"--loss", "1%"}));
  EXPECT_EQ(set.exit_code, 1);
  EXPECT_THAT(set.err, HasSubstr("the switch has ended"));
}

INSTANTIATE_TEST_SUITE_P(Lab, Lifetime, testing::Values(User::kSelf, User::kNobody), user_name);

}  // namespace
}  // namespace brdma::lab_test
