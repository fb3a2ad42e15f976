#include "lab/processes/listen_watch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <string>

#include "base/units.h"
#include "io/daemon/daemon_client.h"
#include "io/shard/clock.h"
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

// The same for RDMA-CM, whose listeners only the brdmad of that namespace knows.
bool somebody_listens_by_rdma_cm() {
  const auto answer = io::query_daemon({{"query", "cm_ids"}});
  if (!answer.ok() || !answer.value().contains("cm_ids")) return false;
  return std::ranges::any_of(answer.value().at("cm_ids"),
                             [](const auto& id) { return id.value("state", std::string{}) == "LISTEN"; });
}

void wait_for_listener(Duration limit) {
  // Nothing announces a listening socket: look every two milliseconds, and every 20 ask brdmad.
  constexpr timespec kStep{0, 2'000'000};
  constexpr Duration kAskInterval = 20_ms;
  const Instant end = io::monotonic_now() + limit;
  Instant next_question = io::monotonic_now();
  for (Instant now = next_question; now < end && !somebody_listens(); now = io::monotonic_now()) {
    if (now >= next_question) {
      if (somebody_listens_by_rdma_cm()) return;
      next_question = now + kAskInterval;
    }
    nanosleep(&kStep, nullptr);
  }
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
  wait_for_listener(Duration::from_ns(std::int64_t{seconds} * 1'000'000'000));
  _exit(0);
}

ListenWatch::~ListenWatch() {
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
}

}  // namespace brdma::lab
