#include "lab_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <sstream>
#include <system_error>

namespace brdma::lab_test {
namespace {

std::vector<std::string> as_nobody(std::vector<std::string> words) {
  words.insert(words.begin(), {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"});
  return words;
}

// The namespace's file of any process that is in it; empty: there is none.
std::string path_of_one_in(const std::string& link) {
  std::error_code error;
  for (const auto& process : std::filesystem::directory_iterator{"/proc"}) {
    const auto path = process.path() / "ns/net";
    if (std::filesystem::read_symlink(path, error).string() == link && !error) return path.string();
  }
  return {};
}

}  // namespace

void LabTest::SetUp() {
  static std::atomic<int> count{0};
  name_ = "test-" + std::to_string(getpid()) + "-" + std::to_string(++count);
  if (GetParam() == User::kNobody) {
    if (geteuid() != 0) GTEST_SKIP() << "not root: this user's own tests show that no right is needed";
    if (run(as_nobody({"test", "-x", BRDMA_PATH})).exit_code != 0) {
      GTEST_SKIP() << "another user can't reach " BRDMA_PATH " (or setpriv is missing)";
    }
  }
}

void LabTest::TearDown() {
  if (is_up_) {
    EXPECT_EQ(run(lab("down")).exit_code, 0);
  }
}

std::vector<std::string> LabTest::brdma(const std::vector<std::string>& words) const {
  std::vector<std::string> command{BRDMA_PATH};
  command.insert(command.end(), words.begin(), words.end());
  return GetParam() == User::kNobody ? as_nobody(command) : command;
}

std::vector<std::string> LabTest::lab(const std::string& command, const std::vector<std::string>& words) const {
  std::vector<std::string> all{"lab", command, "--name", name_};
  all.insert(all.end(), words.begin(), words.end());
  return brdma(all);
}

std::vector<std::string> LabTest::on_host(const std::string& host, const std::vector<std::string>& program) const {
  std::vector<std::string> words{host, "--"};
  words.insert(words.end(), program.begin(), program.end());
  return lab("exec", words);
}

std::vector<std::string> LabTest::traffic(const std::string& host, const std::vector<std::string>& words) const {
  std::vector<std::string> program{TRAFFIC_PATH};
  program.insert(program.end(), words.begin(), words.end());
  return on_host(host, program);
}

void LabTest::up(const std::vector<std::string>& network) {
  const Outcome outcome = run(lab("up", network));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  is_up_ = true;
}

void LabTest::set(const std::vector<std::string>& network) {
  const Outcome outcome = run(lab("set", network));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
}

nlohmann::json LabTest::show() const {
  const Outcome outcome = run(lab("show", {"-j"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return nlohmann::json::parse(outcome.out, nullptr, false);
}

nlohmann::json LabTest::link_to(const std::string& host) const {
  const nlohmann::json shown = show();
  for (const auto& link : shown.at("links")) {
    if (link.at("host") == host) return link.at("to_host");
  }
  ADD_FAILURE() << "no link to " << host;
  return {};
}

LabTest::Values LabTest::values(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  Values result;
  std::istringstream words{outcome.out};
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) result[word.substr(0, equals)] = std::stoll(word.substr(equals + 1));
  }
  return result;
}

LabTest::Values LabTest::send_stream(const Stream& stream) {
  Command receiver{traffic("h2", {"receive", std::to_string(stream.port), "400"})};
  EXPECT_TRUE(receiver.wait_for_output("ready"));
  const Outcome sent =
      run(traffic("h1", {"send", stream.address, std::to_string(stream.port), std::to_string(stream.count),
                         std::to_string(stream.size), std::to_string(stream.batch), std::to_string(stream.gap_us),
                         std::to_string(stream.traffic_class)}));
  EXPECT_EQ(sent.exit_code, 0) << sent.err;
  receiver.send_signal(SIGUSR1);
  Values seen = values(receiver.finish());
  seen["sent_us"] = values(sent)["span_us"];
  return seen;
}

std::string user_name(const testing::TestParamInfo<User>& info) {
  return info.param == User::kSelf ? "AsSelf" : "AsNobody";
}

NetworkNamespace::NetworkNamespace(const std::string& link) : link_(link.substr(0, link.find('\n'))) {
  fd_ = open(path_of_one_in(link_).c_str(), O_RDONLY | O_CLOEXEC);
}

NetworkNamespace::~NetworkNamespace() {
  if (fd_ >= 0) close(fd_);
}

bool NetworkNamespace::is_inhabited() const { return !path_of_one_in(link_).empty(); }

}  // namespace brdma::lab_test
