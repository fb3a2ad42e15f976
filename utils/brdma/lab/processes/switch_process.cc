#include "lab/processes/switch_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <vector>

#include "lab/network/system_failure.h"

namespace brdma::lab {
namespace {

constexpr std::size_t kWordsMax = 4'096;

}  // namespace

void SwitchProcess::start(const std::string& program, const LabPlan& plan, int control_fd) {
  std::array<int, 2> ready{}, output{};
  if (pipe2(ready.data(), O_CLOEXEC) != 0 || pipe2(output.data(), O_CLOEXEC) != 0) fail("cannot make a pipe");
  const io::FileDescriptor ready_read{ready[0]};
  io::FileDescriptor ready_write{ready[1]}, output_write{output[1]};
  output_.reset(output[0]);

  std::vector<std::string> words{program, "--control-fd", std::to_string(control_fd), "--ready-fd",
                                 std::to_string(ready[1])};
  for (std::uint32_t host = 1; host <= plan.hosts; ++host) {
    words.insert(words.end(), {"--port", host_name(host) + "=" + host_name(host)});
  }
  if (plan.topology) words.insert(words.end(), {"--topology", plan.topology_text});
  if (!plan.controller.empty()) {
    words.insert(words.end(), {"--controller", plan.controller, "--key", plan.controller_key});
  }
  for (const auto& [option, value] : plan.network) words.insert(words.end(), {"--" + option, value});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  pid_ = fork();
  if (pid_ < 0) fail("cannot start the switch");
  if (pid_ == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    fcntl(ready[1], F_SETFD, 0);
    fcntl(control_fd, F_SETFD, 0);
    dup2(output[1], STDERR_FILENO);
    execv(argv[0], argv.data());
    dprintf(STDERR_FILENO, "cannot run %s: %s\n", argv[0], strerror(errno));
    _exit(127);
  }
  ready_write.reset();
  output_write.reset();
  if (!wait_until_ready(ready_read.get())) {
    read_words();
    throw std::runtime_error("the switch did not start: " + words_);
  }
  fcntl(output_.get(), F_SETFL, O_NONBLOCK);
}

bool SwitchProcess::wait_until_ready(int ready_fd) {
  std::array<char, 64> line{};
  const ssize_t size = read(ready_fd, line.data(), line.size());
  if (size <= 0) return false;
  takes_batches_ = std::string_view{line.data(), static_cast<std::size_t>(size)}.starts_with("ready batches");
  return true;
}

void SwitchProcess::read_words() {
  std::array<char, 1024> bytes{};
  for (;;) {
    const ssize_t size = read(output_.get(), bytes.data(), bytes.size());
    if (size == 0) output_.reset();
    if (size <= 0) return;
    if (words_.size() < kWordsMax) words_.append(bytes.data(), static_cast<std::size_t>(size));
  }
}

void SwitchProcess::handle_exit(int wait_status) {
  pid_ = -1;
  if (output_.valid()) read_words();
  error_ = "the switch has ended ";
  error_ += WIFSIGNALED(wait_status) ? "by signal " + std::to_string(WTERMSIG(wait_status))
                                     : "with code " + std::to_string(WEXITSTATUS(wait_status));
  if (!words_.empty()) error_ += ": " + words_;
}

}  // namespace brdma::lab
