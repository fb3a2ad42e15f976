#include "check/collect/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>

#include "io/system/file_descriptor.h"

namespace brdma::check {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kOutputMax = 1u << 20, kMessagesMax = 64, kMessageMax = 1000;

struct Pipe {
  io::FileDescriptor read_end, write_end;
};

Pipe make_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  return {io::FileDescriptor{ends[0]}, io::FileDescriptor{ends[1]}};
}

// With the two pipes as its streams, and nothing on its standard input.
[[noreturn]] void become(const std::function<int()>& program, const Pipe& output, const Pipe& errors) {
  const io::FileDescriptor nothing{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  if (nothing.valid()) ::dup2(nothing.get(), STDIN_FILENO);
  ::dup2(output.write_end.get(), STDOUT_FILENO);
  ::dup2(errors.write_end.get(), STDERR_FILENO);
  int code = 126;
  try {
    code = program();
  } catch (const std::exception& reason) {
    std::fprintf(stderr, "brdma: %s\n", reason.what());
  }
  std::fflush(stderr);
  ::_exit(code);
}

// Appends what there is to read; false at the end of the stream.
bool take(int fd, std::string& text) {
  std::array<char, 16 * 1024> buffer{};
  const ssize_t got = ::read(fd, buffer.data(), buffer.size());
  if (got < 0) return errno == EINTR;
  if (text.size() < kOutputMax) text.append(buffer.data(), static_cast<std::size_t>(got));
  return got > 0;
}

// Until both streams end, or the deadline has passed: then false.
bool read_both(const Pipe& output, const Pipe& errors, std::string& text, std::string& messages,
               Clock::time_point deadline) {
  std::array<pollfd, 2> waits{pollfd{output.read_end.get(), POLLIN, 0}, pollfd{errors.read_end.get(), POLLIN, 0}};
  while (waits[0].fd >= 0 || waits[1].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    if (::poll(waits.data(), waits.size(), static_cast<int>(left)) < 0 && errno != EINTR) return false;
    if (waits[0].revents != 0 && !take(waits[0].fd, text)) waits[0].fd = -1;
    if (waits[1].revents != 0 && !take(waits[1].fd, messages)) waits[1].fd = -1;
  }
  return true;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t from = 0; from < text.size() && lines.size() < kMessagesMax;) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    if (end > from) lines.push_back(text.substr(from, std::min(end - from, kMessageMax)));
    from = end + 1;
  }
  return lines;
}

}  // namespace

ChildRun run_child(const std::function<int()>& program, unsigned seconds) {
  ChildRun run;
  Pipe output = make_pipe(), errors = make_pipe();
  if (!output.read_end.valid() || !errors.read_end.valid()) {
    run.error = std::string{"no pipe can be made: "} + std::strerror(errno);
    return run;
  }
  const pid_t child = ::fork();
  if (child < 0) {
    run.error = std::string{"no process can be made: "} + std::strerror(errno);
    return run;
  }
  if (child == 0) become(program, output, errors);
  output.write_end.reset();
  errors.write_end.reset();
  std::string messages;
  run.in_time = read_both(output, errors, run.output, messages, Clock::now() + std::chrono::seconds{seconds});
  if (!run.in_time) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  run.messages = lines_of(messages);
  return run;
}

}  // namespace brdma::check
