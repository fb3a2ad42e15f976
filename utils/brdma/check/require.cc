#include "check/require.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "device_files/runtime_directory.h"
#include "io/system/file_descriptor.h"
#include "output.h"
#include "verbs/use_record.h"

namespace brdma::check {
namespace {

// The file of one run; removed when this ends.
class UseFile {
 public:
  UseFile() {
    const auto problem = preload::with_runtime_directory([this](const std::string& directory) {
      path_ = directory + "/use-XXXXXX";
      fd_.reset(::mkostemp(path_.data(), O_CLOEXEC));
      return fd_.valid() ? 0 : errno;
    });
    if (problem) throw std::runtime_error(*problem);
  }
  ~UseFile() { ::unlink(path_.c_str()); }
  UseFile(const UseFile&) = delete;
  UseFile& operator=(const UseFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] bool was_written() const {
    struct stat status {};
    return ::fstat(fd_.get(), &status) == 0 && status.st_size > 0;
  }

 private:
  std::string path_;
  io::FileDescriptor fd_;
};

// A terminal's signals reach the program too: it decides. Others, which reach brdma alone, are passed on.
volatile pid_t running = 0;
void pass_on(int signal) {
  if (running > 0) ::kill(running, signal);
}

constexpr std::array kOfTerminal{SIGINT, SIGQUIT};
constexpr std::array kPassedOn{SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

int exit_code_of(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int wait_for(pid_t child) {
  running = child;
  struct sigaction action {};
  action.sa_handler = SIG_IGN;
  for (const int signal : kOfTerminal) ::sigaction(signal, &action, nullptr);
  action.sa_handler = pass_on;
  for (const int signal : kPassedOn) ::sigaction(signal, &action, nullptr);
  return exit_code_of(child);
}

}  // namespace

int run_required(const char* name, const std::function<int()>& program) {
  const UseFile file;
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error(std::string{"no process can be made: "} + std::strerror(errno));
  if (child == 0) {
    ::setenv(provider::kUseVariable, file.path().c_str(), 1);
    int code = 126;
    try {
      code = program();
    } catch (const std::exception& reason) {
      print_error(reason.what());
    }
    ::_exit(code);
  }
  const int code = wait_for(child);
  if (file.was_written()) return code;
  print_error(std::string{name} + " ended with " + std::to_string(code) +
              " and has made no queue pair of this library: 'brdma check -- " + name +
              "' shows whether it can load it, and 'brdma check' which device it should take");
  return code == 0 ? 1 : code;
}

}  // namespace brdma::check
