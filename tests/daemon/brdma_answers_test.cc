// brdma and the answers of programs, which may be hostile.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "answering_program.h"
#include "daemon_fixture.h"
#include "system_daemon.h"

namespace brdma::test {
namespace {

// One program's answer does not suppress the others', and is no command to a terminal.
TEST_F(SystemDaemonTest, BrdmaNamesWhoAnswersNonsenseAndGoesOn) {
  start({});
  if (IsSkipped()) return;
  const std::string rows = R"("rows":[{"lqpn":5,"type":"no key \u001b[2J\u009b2J","pid":1}],"cut":false)";
  Gate leased;
  Child good([&] { return answer_once_each("good", "\n{\"id\":%," + rows + "}\n", leased); });
  wait_for_lease(leased);
  std::vector<Child> bad;
  for (const std::string answer :
       {R"("rows":7,"cut":false)", R"("cut":false)", R"("rows":[7],"cut":false)", R"("rows":[}")", R"("error":7)"}) {
    bad.emplace_back(
        [&] { return answer_once_each("\x1b]0;bad", "\n{\"a\":\"no key\",\"id\":%," + answer + "}\n", leased); });
    wait_for_lease(leased);
  }
  const Said said = run_brdma(0, "resource show qp");
  EXPECT_EQ(said.code, 1);
  EXPECT_EQ(said.text.find('\x1b'), std::string::npos) << said.text;
  EXPECT_EQ(said.text.find("\xc2\x9b"), std::string::npos);
  EXPECT_TRUE(contains(said.text, "lqpn 5")) << said.text;
  EXPECT_TRUE(contains(said.text, "pid " + std::to_string(good.pid()))) << said.text;
  for (const Child& child : bad) {
    EXPECT_TRUE(contains(said.text, "\\x1b]0;bad pid " + std::to_string(child.pid()))) << said.text;
  }
  const Said as_json = run_brdma(0, "-j resource show qp");
  EXPECT_EQ(as_json.text.find("\xc2\x9b"), std::string::npos);
}

// It could have ended a moment earlier.
TEST_F(SystemDaemonTest, AProgramThatEndsAtTheQuestionIsLeftOut) {
  start({});
  if (IsSkipped()) return;
  Gate leased;
  const std::string rows = R"("rows":[{"lqpn":5,"mark":"no key"}],"cut":false)";
  Child good([&] { return answer_once_each("good", "\n{\"id\":%," + rows + "}\n", leased); });
  wait_for_lease(leased);
  for (const char* words : {"-j resource show qp", "-j statistic show qp"}) {
    Child ends([&] { return answer_once_each("ends", "", leased); });
    wait_for_lease(leased);
    const Said said = run_brdma(0, words);
    EXPECT_EQ(said.code, 0) << said.text;
    const json rows = json::parse(said.text, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(rows.is_array() && rows.size() == 1) << said.text;
    EXPECT_EQ(rows[0].value("lqpn", 0), 5);
    EXPECT_EQ(ends.join(), 0);
  }
}

// Values with which a packet could be forged are shown to the owner and to root.
TEST_F(SystemDaemonTest, KeysAreTheOwnersAndRootsToSee) {
  start({});
  if (IsSkipped()) return;
  Gate leased;
  Child alice([&] {
    if (!become(kAlice)) return 100;
    return answer_once_each("alice", "\n{\"rows\":[{\"k\":\"no key\"}],\"cut\":false,\"id\":%}\n", leased);
  });
  wait_for_lease(leased);
  for (const char* what : {"qp", "mr"}) {
    const std::string words = std::string("-j resource show ") + what;
    EXPECT_TRUE(contains(run_brdma(0, words).text, "a key!"));
    EXPECT_TRUE(contains(run_brdma(kAlice, words).text, "a key!"));
    EXPECT_TRUE(contains(run_brdma(kBob, words).text, "no key"));
  }
}

// Members that brdma itself shows of a program are not the program's to say.
TEST_F(SystemDaemonTest, BrdmaShowsTheProcessWhateverItAnswers) {
  start({});
  if (IsSkipped()) return;
  const std::string forged = R"({"pid":1,"comm":"sshd","ifname":"forged","x":"no key"})";
  const std::string members = R"("settings":)" + forged + R"(,"own_settings":{},"in_force":)" + forged +
                              R"(,"applies":{"comm":"sshd","x":"now"},"datapath":)" + forged +
                              R"(,"qp":0,"lqpn":5,"cq":1,"mr":1,"state_bytes":1})";
  Gate leased;
  Child good([&] {
    return answer_once_each("good", "\n{\"id\":%,\"rows\":[" + forged + "],\"cut\":false," + members + "\n", leased);
  });
  wait_for_lease(leased);
  const std::string slot = std::to_string(ask("leases")["leases"][0].value("slot", 0));
  const std::string pid = std::to_string(good.pid());
  for (const std::string& words :
       {std::string("managed show"), std::string("resource show qp"), std::string("recovery show dev brdma_lo"),
        "recovery show qp " + slot, "recovery set qp " + slot + " recovery.mode bitmap",
        std::string("recovery set dev brdma_lo recovery.qps_max 1000")}) {
    const Said said = run_brdma(0, words);
    EXPECT_EQ(said.code, 0) << words << ": " << said.text;
    EXPECT_TRUE(contains(said.text, "pid " + pid)) << words << ": " << said.text;
    EXPECT_TRUE(contains(said.text, "comm good")) << words << ": " << said.text;
    EXPECT_FALSE(contains(said.text, "sshd")) << words << ": " << said.text;
    const Said as_json = run_brdma(0, "-j " + words);
    const json records = json::parse(as_json.text, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(records.is_array() && !records.empty()) << words << ": " << as_json.text;
    for (const json& record : records) {
      EXPECT_EQ(record["ifname"], "brdma_lo") << words << ": " << record;
      EXPECT_EQ(record.value("pid", good.pid()), good.pid()) << words << ": " << record;
      EXPECT_EQ(record.value("comm", "good"), "good") << words << ": " << record;
    }
  }
  EXPECT_FALSE(contains(run_brdma(0, "-j dev show -d").text, "sshd"));
}

// A change is shown for each program that has made it.
TEST_F(SystemDaemonTest, BrdmaShowsAChangeWhereAnotherProgramAnswersNonsense) {
  start({});
  if (IsSkipped()) return;
  std::vector<Child> children;
  for (const auto& [name, applies] : {std::pair{"odd", "7"}, std::pair{"good", R"({"x":"now"})"}}) {
    Gate leased;
    const std::string answer = std::string("\n{\"id\":%,\"a\":\"no key\",\"qp\":0,\"applies\":") + applies + "}\n";
    children.emplace_back([&, program = std::string(name)] { return answer_once_each(program, answer, leased); });
    wait_for_lease(leased);
  }
  const Said said = run_brdma(0, "recovery set dev brdma_lo recovery.qps_max 1000");
  EXPECT_EQ(said.code, 1) << said.text;
  EXPECT_TRUE(contains(said.text, "odd pid " + std::to_string(children[0].pid()))) << said.text;
  EXPECT_TRUE(contains(said.text, "comm good")) << said.text;
}

// Answers every query with the same line, in brdmad's place.
int answer_as_daemon(const io::FileDescriptor& listener, const std::string& line) {
  for (;;) {
    const io::FileDescriptor client{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)};
    std::array<char, 4096> question{};
    if (::recv(client.get(), question.data(), question.size(), 0) <= 0) continue;
    (void)!::send(client.get(), line.data(), line.size(), MSG_NOSIGNAL);
  }
}

TEST_F(DaemonTest, AlarmsAreShownWhateverAnotherAnswerIs) {
  const std::string line = R"({"answers":[
      {"device":"brdma_lo","pid":11,"comm":"good","alarms":[{"alarm":"a","raised":true,"pid":1,"comm":"sshd"}]},
      {"device":"brdma_lo","pid":12,"comm":"refusing","error":{"errno":1,"message":"not now"}},
      {"device":"brdma_lo","pid":13,"comm":"odd","alarms":7},
      {"device":"brdma_lo","pid":14,"comm":"silent"},
      {"device":"brdma_lo","pid":15,"comm":"half","alarms":[{"alarm":"first"},7]},
      {"device":7,"pid":16,"comm":"typed","alarms":[]},
      {"device":"brdma_lo","pid":[],"comm":{"a":1},"alarms":[{"alarm":"shapeless"}]},
      {"alarms":[]},
      18,
      {"device":"brdma_lo","pid":19,"comm":"last","alarms":[{"alarm":"z","raised":false}]}]})";
  std::string one_line;
  for (const char c : line) one_line += c == '\n' ? ' ' : c;
  const io::FileDescriptor listener = listen_as_daemon(8);
  ASSERT_TRUE(listener.valid());
  const Child daemon([&] { return answer_as_daemon(listener, one_line + "\n"); });
  for (const char* words : {"alarm", "-j alarm"}) {
    const Said said = run_brdma(0, words);
    EXPECT_EQ(said.code, 1) << said.text;
    for (const char* part : {"good", "refusing pid 12: not now",
                             "odd pid 13: ", "silent pid 14: ", "half pid 15: ", "typed pid 16: ", "last"})
      EXPECT_TRUE(contains(said.text, part)) << part << " in: " << said.text;
    for (const char* part : {"sshd", "first", "shapeless"}) EXPECT_FALSE(contains(said.text, part)) << said.text;
  }
  EXPECT_TRUE(contains(run_brdma(0, "alarm").text, "pid 11 comm good alarm a raised true"));
}

}  // namespace
}  // namespace brdma::test
