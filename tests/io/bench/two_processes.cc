#include "two_processes.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace brdma::bench {

void barrier(Exchange& exchange, std::uint32_t number) {
  exchange.arrived.fetch_add(1);
  while (exchange.arrived.load() < 2 * number) usleep(100);
}

bool run_two(const std::function<void(Exchange&)>& server, const std::function<void(Exchange&)>& client,
             unsigned seconds_max, bool pin, Exchange& out) {
  void* page = mmap(nullptr, sizeof(Exchange), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  auto* exchange = new (page) Exchange;
  pid_t children[2];
  for (int side = 0; side < 2; ++side) {
    children[side] = fork();
    if (children[side] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      alarm(seconds_max);
      if (pin) {  // each on a core of its own, with its threads: else a busy machine's scheduler decides the result
        cpu_set_t core;
        CPU_ZERO(&core);
        CPU_SET(side == 0 ? 1 : 0, &core);
        sched_setaffinity(0, sizeof(core), &core);
      }
      (side == 0 ? server : client)(*exchange);
      _exit(0);
    }
  }
  bool good = true;
  for (int left = 2; left > 0; --left) {
    int status = 0;
    const pid_t ended = wait(&status);
    if (status != 0) {
      good = false;
      std::fprintf(stderr, "the %s ended with status %#x\n", ended == children[0] ? "server" : "client",
                   static_cast<unsigned>(status));
      kill(ended == children[0] ? children[1] : children[0], SIGKILL);
    }
  }
  std::memcpy(out.result.data(), exchange->result.data(), sizeof(out.result));
  munmap(page, sizeof(Exchange));
  return good;
}

}  // namespace brdma::bench
