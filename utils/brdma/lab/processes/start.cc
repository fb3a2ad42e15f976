#include "lab/processes/start.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>

#include "lab/processes/channel.h"
#include "lab/processes/keeper.h"
#include "programs.h"
#include "rights/rights.h"

namespace brdma::lab {
namespace {

struct Pipe {
  io::FileDescriptor read, write;
  Pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw LabError(std::string{"cannot make a pipe: "} + std::strerror(errno));
    read.reset(ends[0]);
    write.reset(ends[1]);
  }
};

// Like fork, with new namespaces. No threads exist in this program, so the raw call is safe.
pid_t clone_process(unsigned long flags) {
  return static_cast<pid_t>(syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

constexpr unsigned long kNamespaces = CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS;

std::string refused(int error) {
  return std::string{"cannot make namespaces for the lab ("} + std::strerror(error) + "): ";
}

bool write_file(const char* path, const std::string& text) {
  const io::FileDescriptor file{open(path, O_WRONLY | O_CLOEXEC)};
  return file.valid() && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// In the new user namespace: this user is root in it, and nobody else exists.
bool map_user(uid_t uid, gid_t gid) {
  if (!write_file("/proc/self/setgroups", "deny") && errno != ENOENT) return false;
  return write_file("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1") &&
         write_file("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1");
}

// Becomes the keeper. Runs in the new process; only returns an exit code when that fails.
int become_keeper(const KeeperDescription& description, uid_t uid, gid_t gid, bool could_map_itself) {
  const auto give_up = [&](const std::string& error) {
    const std::string line = nlohmann::json{{"ok", false}, {"error", error}}.dump();
    (void)!write(description.ready_fd, line.data(), line.size());
    return 1;
  };
  if (description.user_namespace && !map_user(uid, gid)) {
    return give_up(refused(errno) + cure_for_no_map(could_map_itself));
  }
  // Keeps the terminal's signals from the lab. A session of its own would do that as well. But the scheduler groups by
  // sessions (sched(7), autogroup). A switch in another group than spinning programs was seen to wait up to a second
  // for a core, if the user may not give it a real-time priority.
  (void)setpgid(0, 0);
  for (const int fd : {description.control_fd, description.switch_fd, description.ready_fd, description.life_fd}) {
    if (fd >= 0) fcntl(fd, F_SETFD, 0);
  }
  const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < 3; ++fd) dup2(null_fd, fd);
  const std::string text = to_text(description);
  execl("/proc/self/exe", "brdma", "lab-keeper", text.c_str(), static_cast<char*>(nullptr));
  return give_up(std::string{"cannot start the lab's keeper: "} + std::strerror(errno));
}

pid_t clone_keeper(KeeperDescription& description) {
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  const CapabilitySets sets = own_capabilities();
  description.user_namespace = !can_make_lab_directly(sets, uid == 0);
  pid_t pid = clone_process(description.user_namespace ? kNamespaces | CLONE_NEWUSER : kNamespaces);
  if (pid < 0 && errno == EPERM && !description.user_namespace) {  // a filter or a policy forbids these alone
    description.user_namespace = true;
    pid = clone_process(kNamespaces | CLONE_NEWUSER);
  }
  if (pid < 0) throw LabError(refused(errno) + cure_for_no_namespaces(errno));
  if (pid == 0) _exit(become_keeper(description, uid, gid, can_map_itself(sets, uid == 0)));
  return pid;
}

io::FileDescriptor listen_for(const std::string& lab, const std::string& socket, int type) {
  try {
    return listen_abstract(socket, type);
  } catch (const std::system_error& error) {
    if (error.code().value() == EADDRINUSE) {
      throw LabError("lab '" + lab + "' is up already: end it with 'brdma lab down --name " + lab +
                     "', or give the new one another --name");
    }
    throw LabError(error.what());
  }
}

void wait_until_ready(int ready_fd) {
  std::string text;
  std::array<char, 4096> bytes{};
  for (;;) {
    const ssize_t size = read(ready_fd, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    text.append(bytes.data(), static_cast<std::size_t>(size));
  }
  const auto result = nlohmann::json::parse(text, nullptr, false);
  if (!result.is_object()) throw LabError("the lab's keeper ended before the lab was up");
  if (!result.value("ok", false)) throw LabError(result.value("error", "the lab could not be set up"));
}

}  // namespace

RunningLab::~RunningLab() {
  if (!life_.valid()) return;
  life_.reset();
  while (waitpid(keeper_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

RunningLab start_lab(const LabPlan& plan, Lifetime lifetime) {
  KeeperDescription description;
  description.plan = plan;
  description.switch_program = find_own_program("brdma-switch");
  const auto control = listen_for(plan.name, keeper_socket_name(plan.name), SOCK_SEQPACKET);
  const auto switch_control = listen_for(plan.name, switch_socket_name(plan.name), SOCK_STREAM);
  Pipe ready;
  std::optional<Pipe> life;
  if (lifetime == Lifetime::kWithCaller) life.emplace();
  description.control_fd = control.get();
  description.switch_fd = switch_control.get();
  description.ready_fd = ready.write.get();
  description.life_fd = life ? life->read.get() : -1;
  const pid_t keeper = clone_keeper(description);
  ready.write.reset();
  RunningLab lab{keeper, life ? std::move(life->write) : io::FileDescriptor{}};
  try {
    wait_until_ready(ready.read.get());
  } catch (const LabError&) {
    if (!life) waitpid(keeper, nullptr, 0);
    throw;
  }
  return lab;
}

}  // namespace brdma::lab
