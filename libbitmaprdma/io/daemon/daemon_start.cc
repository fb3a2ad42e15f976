#include "io/daemon/daemon_start.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "io/daemon/refusal.h"
#include "io/system/file_descriptor.h"

extern char** environ;

namespace brdma::io {
namespace {

constexpr std::string_view kProgramName = "brdmad";
constexpr std::size_t kStackBytes = 64 * 1024;

std::string directory_of(std::string path) {
  const std::size_t slash = path.rfind('/');
  path.resize(slash == std::string::npos ? 0 : slash);
  return path;
}

// Directory of the shared object or program that holds this code; empty: unknown.
std::string own_directory() {
  Dl_info info{};
  std::array<char, PATH_MAX> path{};
  // A program's own name is its argv[0], which need not be a path: then ask the kernel.
  if (::dladdr(reinterpret_cast<const void*>(&own_directory), &info) != 0 && info.dli_fname != nullptr &&
      std::strchr(info.dli_fname, '/') != nullptr && ::realpath(info.dli_fname, path.data()) != nullptr) {
    return directory_of(path.data());
  }
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  return length > 0 ? directory_of(std::string(path.data(), static_cast<std::size_t>(length))) : std::string();
}

bool runnable(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

std::string find_in_path() {
  const char* variable = ::secure_getenv("PATH");
  std::string_view rest = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    const std::string candidate = std::string(folder) + "/" + std::string(kProgramName);
    if (folder.starts_with('/') && runnable(candidate)) return candidate;
  }
  return {};
}

struct SpawnPlan {
  const char* program;
  char* const* arguments;
  char* const* environment;
  int null_fd;  // these > kVaultFd
  int ready_fd;
  int vault_fd;  // -1: none
  std::byte* inner_stack_top;
};

// Runs on borrowed memory (CLONE_VM) while the application's thread is stopped: system calls only, never the library
// functions, which a preloaded library may replace (librspreload's dup2() forgot the application's sockets).
int run_daemon(void* argument) {
  const auto& plan = *static_cast<const SpawnPlan*>(argument);
  for (int fd = 0; fd < kReadyFd; ++fd) ::syscall(SYS_dup3, plan.null_fd, fd, 0);
  ::syscall(SYS_dup3, plan.ready_fd, kReadyFd, 0);
  const bool vault = plan.vault_fd >= 0 && ::syscall(SYS_dup3, plan.vault_fd, kVaultFd, 0) >= 0;
  ::syscall(SYS_close_range, vault ? kVaultFd + 1 : kVaultFd, ~0u,
            0u);  // older kernels have none: brdmad closes inherited ones as well
  if (::chdir("/") == 0) ::execve(plan.program, plan.arguments, plan.environment);
  constexpr std::string_view kMessage = "error 8 brdmad cannot be executed\n";
  ::syscall(SYS_write, kReadyFd, kMessage.data(), kMessage.size());
  ::_exit(127);
}

int run_intermediate(void* argument) {
  const auto& plan = *static_cast<const SpawnPlan*>(argument);
  ::setsid();
  const int pid = ::clone(run_daemon, plan.inner_stack_top, CLONE_VM | CLONE_VFORK, argument);
  ::_exit(pid > 0 ? 0 : errno);
}

// 0 or an errno value.
int spawn(SpawnPlan& plan) {
  void* stacks =
      ::mmap(nullptr, 2 * kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stacks == MAP_FAILED) return errno;
  plan.inner_stack_top = static_cast<std::byte*>(stacks) + kStackBytes;
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // no handler of the application may run on the borrowed memory
  int error = 0;
  const int pid = ::clone(run_intermediate, plan.inner_stack_top + kStackBytes, CLONE_VM | CLONE_VFORK, &plan);
  if (pid < 0) {
    error = errno;
  } else {
    int status = 0;
    while (::waitpid(pid, &status, __WALL) < 0 && errno == EINTR) {
    }
    if (status != 0) error = WIFEXITED(status) ? WEXITSTATUS(status) : EAGAIN;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::munmap(stacks, 2 * kStackBytes);
  return error;
}

std::vector<char*> environment_without_preload() {
  std::vector<char*> result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("LD_PRELOAD=")) result.push_back(*entry);
  }
  result.push_back(nullptr);
  return result;
}

ContextError refused(const std::string& what, int error) { return {error, refusal(what, error)}; }

// The line that brdmad writes when it is ready or has failed, without its line feed.
Result<std::string, ContextError> read_ready_line(int fd, const std::string& program, Deadline deadline) {
  std::string line;
  while (line.find('\n') == std::string::npos) {
    if (!wait_readable(fd, deadline))
      return ContextError{ETIMEDOUT, program + " did not become ready in time: run it with --foreground to see why"};
    std::array<char, 1024> buffer{};
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || line.size() > 8 * buffer.size()) {
      return ContextError{EIO, program + " ended before it was ready: run it with --foreground to see why"};
    }
    line.append(buffer.data(), static_cast<std::size_t>(got));
  }
  line.resize(line.find('\n'));
  return line;
}

ContextError read_answer(int fd, const std::string& program, Deadline deadline) {
  const auto read = read_ready_line(fd, program, deadline);
  if (!read) return read.reason();
  const std::string& line = read.value();
  if (line == "ready" || line == "taken") return {};
  if (line.starts_with("error ")) {
    char* rest = nullptr;
    const long error = std::strtol(line.c_str() + 6, &rest, 10);
    while (*rest == ' ') ++rest;
    return {error > 0 ? static_cast<int>(error) : EIO, rest};
  }
  return {EPROTO,
          program + " is not the brdmad of this library, as it said '" + line + "': correct BRDMA_DAEMON or PATH"};
}

}  // namespace

Result<std::string, ContextError> find_daemon(const std::string& configured) {
  if (!configured.empty()) {
    if (runnable(configured)) return configured;
    return ContextError{ENOENT, "BRDMA_DAEMON (or daemon.path) names " + configured + ", which can't be executed"};
  }
  if (const std::string own = own_directory(); !own.empty()) {
    for (const char* relative : {"/", "/../bin/", "/../../bin/", "/../libexec/bitmaprdma/"}) {
      const std::string candidate = own + relative + std::string(kProgramName);
      if (runnable(candidate)) return candidate;
    }
  }
  if (std::string found = find_in_path(); !found.empty()) return found;
  return ContextError{ENOENT,
                      "the program brdmad was found neither beside this library nor in PATH: name it in BRDMA_DAEMON"};
}

ContextError start_daemon(const std::string& program, Deadline deadline, int vault_fd) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return refused("no pipe for starting brdmad can be made", errno);
  const FileDescriptor read_end{ends[0]};
  FileDescriptor write_end{ends[1]};
  // Moves it beyond the descriptors of the new process: an application may have closed 0, 1 or 2.
  FileDescriptor ready{::fcntl(write_end.get(), F_DUPFD_CLOEXEC, kVaultFd + 1)};
  if (!ready.valid()) return refused("no pipe for starting brdmad can be made", errno);
  const FileDescriptor opened{::open("/dev/null", O_RDWR | O_CLOEXEC)};
  if (!opened.valid()) return refused("/dev/null, for brdmad, cannot be opened", errno);
  const FileDescriptor null{::fcntl(opened.get(), F_DUPFD_CLOEXEC, kVaultFd + 1)};
  if (!null.valid()) return refused("/dev/null, for brdmad, cannot be opened", errno);
  const FileDescriptor vault{vault_fd >= 0 ? ::fcntl(vault_fd, F_DUPFD_CLOEXEC, kVaultFd + 1) : -1};
  if (vault_fd >= 0 && !vault.valid()) return refused("the daemon's sockets cannot be handed to brdmad", errno);
  write_end.reset();

  std::vector<char*> environment = environment_without_preload();
  std::vector<std::string> words{program, "--foreground", "--ready-fd", std::to_string(kReadyFd)};
  if (vault.valid()) words.insert(words.end(), {"--vault-fd", std::to_string(kVaultFd)});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  SpawnPlan plan{program.c_str(), arguments.data(), environment.data(), null.get(), ready.get(), vault.get(), nullptr};
  if (const int error = spawn(plan); error != 0) {
    return refused("cannot start " + program, error);
  }
  ready.reset();
  return read_answer(read_end.get(), program, deadline);
}

}  // namespace brdma::io
