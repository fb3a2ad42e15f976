#include "lab/processes/listen_watch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <fstream>
#include <string>

#include "lab/processes/host_process.h"

namespace brdma::lab {
namespace {

// Whether any socket listens for TCP in the calling process's network namespace: state 0A in the fourth column.
bool somebody_listens() {
  for (const char* path : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream table{path};
    std::string slot, local, remote, state, rest;
    std::getline(table, rest);
    while (table >> slot >> local >> remote >> state && std::getline(table, rest)) {
      if (state == "0A") return true;
    }
  }
  return false;
}

}  // namespace

ListenWatch::ListenWatch(const HostNamespaces& host, std::uint32_t seconds) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw LabError("cannot make a pipe");
  readable_.reset(ends[0]);
  const io::FileDescriptor write_end{ends[1]};
  child_ = fork();
  if (child_ < 0) throw LabError("cannot start a process");
  if (child_ != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    enter_host_network(host);
  } catch (const LabError&) {
    _exit(1);
  }
  // The kernel announces no listening socket: look every two milliseconds.
  const timespec step{0, 2'000'000};
  for (std::uint32_t i = 0; i < seconds * 500 && !somebody_listens(); ++i) nanosleep(&step, nullptr);
  _exit(0);
}

ListenWatch::~ListenWatch() {
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
}

}  // namespace brdma::lab
