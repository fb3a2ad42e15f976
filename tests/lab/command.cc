#include "command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <stdexcept>

namespace brdma::lab_test {
namespace {

std::int64_t now_ms() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000 + time.tv_nsec / 1'000'000;
}

// False at the end of file.
bool append_available(int fd, std::string& text) {
  std::array<char, 16'384> bytes{};
  const ssize_t size = read(fd, bytes.data(), bytes.size());
  if (size > 0) text.append(bytes.data(), static_cast<std::size_t>(size));
  return size > 0 || (size < 0 && errno == EAGAIN);
}

}  // namespace

Command::Command(const std::vector<std::string>& words, const std::string& input) {
  std::array<int, 2> in{}, out{}, err{};
  if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0 || pipe2(err.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipe");
  }
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    dup2(err[1], 2);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  close(err[1]);
  (void)!write(in[1], input.data(), input.size());  // short: fits the pipe
  close(in[1]);
  out_ = out[0];
  err_ = err[0];
}

Command::~Command() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (out_ >= 0) close(out_);
  if (err_ >= 0) close(err_);
}

bool Command::read_some(int timeout_ms) {
  std::array<pollfd, 2> polled{pollfd{out_, POLLIN, 0}, pollfd{err_, POLLIN, 0}};
  if ((out_ < 0 && err_ < 0) || poll(polled.data(), polled.size(), timeout_ms) <= 0) return false;
  const auto take = [](const pollfd& ready, int& fd, std::string& text) {
    if (ready.revents == 0 || append_available(fd, text)) return;
    close(fd);
    fd = -1;
  };
  take(polled[0], out_, outcome_.out);
  take(polled[1], err_, outcome_.err);
  return true;
}

bool Command::wait_for_output(const std::string& text, int timeout_ms) {
  const std::int64_t deadline = now_ms() + timeout_ms;
  while (outcome_.out.find(text) == std::string::npos) {
    if (now_ms() > deadline || !read_some(static_cast<int>(deadline - now_ms()) + 1)) return false;
  }
  return true;
}

Outcome Command::finish(int timeout_ms) {
  const std::int64_t deadline = now_ms() + timeout_ms;
  while (now_ms() <= deadline && read_some(static_cast<int>(deadline - now_ms()) + 1)) {
  }
  if (out_ >= 0 || err_ >= 0) {  // another process still holds the pipes
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
    return outcome_;
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  outcome_.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return outcome_;
}

void Command::send_signal(int signal) { kill(pid_, signal); }

Outcome run(const std::vector<std::string>& words, const std::string& input) { return Command{words, input}.finish(); }

}  // namespace brdma::lab_test
