#include "lab/processes/host_process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "programs.h"

namespace brdma::lab {
namespace {

constexpr std::array kRelayedSignals{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM};

[[noreturn]] void fail_host(const std::string& what) { throw LabError(what + ": " + std::strerror(errno)); }

// No process enters its own user namespace again: a program on a host is there already.
bool in_user_namespace(const io::FileDescriptor& fd) {
  struct stat own {
  }, that{};
  return stat("/proc/self/ns/user", &own) == 0 && fstat(fd.get(), &that) == 0 && own.st_dev == that.st_dev &&
         own.st_ino == that.st_ino;
}

void enter(const io::FileDescriptor& fd, int type, const char* kind) {
  if (setns(fd.get(), type) != 0) fail_host(std::string{"cannot enter the host's "} + kind + " namespace");
}

int start_program(const std::string& library, const std::vector<std::string>& command, const HostNamespaces& host,
                  const sigset_t& signals) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  setenv("BITMAPRDMA_LAB", host.lab.c_str(), /*overwrite=*/1);
  // Statistics are the lab's until its end: the daemon should not end with its last client.
  setenv("BRDMA_IDLE_SECONDS", "0", /*overwrite=*/0);
  if (host.paths > 1) setenv("BRDMA_PATHS", std::to_string(host.paths).c_str(), /*overwrite=*/0);
  if (host.port_rate_mbps != 0) {
    setenv("BRDMA_PORT_RATE_MBPS", std::to_string(host.port_rate_mbps).c_str(), /*overwrite=*/0);
  }
  if (!host.controller.empty()) {
    setenv("BRDMA_CONTROLLER", host.controller.c_str(), /*overwrite=*/0);
    setenv("BRDMA_CONTROLLER_KEY", host.controller_key.c_str(), /*overwrite=*/0);
    setenv("BRDMA_CONTROLLER_NAME", host.name.c_str(), /*overwrite=*/0);
  }
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  return exec_with_devices(library, argv.data());
}

// Forwards signals until the program has ended.
int relay_until_end(pid_t program, int signal_fd) {
  for (;;) {
    signalfd_siginfo signal{};
    if (read(signal_fd, &signal, sizeof signal) != static_cast<ssize_t>(sizeof signal)) continue;
    if (signal.ssi_signo == SIGCHLD) {
      int status = 0;
      if (waitpid(program, &status, WNOHANG) == program) return shell_exit_code(status);
    } else if (signal.ssi_code != SI_KERNEL) {  // the terminal's own signals reach the whole group already
      kill(program, static_cast<int>(signal.ssi_signo));
    }
  }
}

}  // namespace

void enter_host(const HostNamespaces& host) {
  std::array<char, 4096> directory{};
  const bool known = getcwd(directory.data(), directory.size()) != nullptr;
  if (host.user.valid() && !in_user_namespace(host.user)) enter(host.user, CLONE_NEWUSER, "user");
  enter(host.pid, CLONE_NEWPID, "PID");
  enter(host.net, CLONE_NEWNET, "network");
  enter(host.uts, CLONE_NEWUTS, "UTS");
  enter(host.mount, CLONE_NEWNS, "mount");
  if (known) (void)!chdir(directory.data());  // entering a mount namespace moved us to its root
}

void enter_host_network(const HostNamespaces& host) {
  if (host.user.valid() && !in_user_namespace(host.user)) enter(host.user, CLONE_NEWUSER, "user");
  enter(host.net, CLONE_NEWNET, "network");
}

int run_on_host(const HostNamespaces& host, const std::vector<std::string>& command) {
  const std::string library = find_library();
  sigset_t relayed, before;
  sigemptyset(&relayed);
  sigaddset(&relayed, SIGCHLD);
  for (const int signal : kRelayedSignals) sigaddset(&relayed, signal);
  sigprocmask(SIG_BLOCK, &relayed, &before);
  const io::FileDescriptor signals{signalfd(-1, &relayed, SFD_CLOEXEC)};
  if (!signals.valid()) fail_host("cannot watch signals");
  enter_host(host);
  const pid_t program = fork();
  if (program < 0) fail_host("cannot start a process");
  if (program == 0) _exit(start_program(library, command, host, before));
  return relay_until_end(program, signals.get());
}

std::string collect_on_host(const HostNamespaces& host, const std::function<void(int)>& work) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  const io::FileDescriptor read_end{ends[0]};
  io::FileDescriptor write_end{ends[1]};
  const pid_t child = fork();
  if (child == 0) {
    try {
      enter_host_network(host);
      work(write_end.get());
      _exit(0);
    } catch (const std::exception&) {
      _exit(1);
    }
  }
  write_end.reset();
  std::string text;
  std::array<char, 16'384> bytes{};
  for (ssize_t size = 1; child > 0 && size != 0;) {
    size = read(read_end.get(), bytes.data(), bytes.size());
    if (size > 0) text.append(bytes.data(), static_cast<std::size_t>(size));
    if (size < 0 && errno != EINTR) break;
  }
  while (child > 0 && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return text;
}

int shell_exit_code(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace brdma::lab
