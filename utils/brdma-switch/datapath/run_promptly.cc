#include "datapath/run_promptly.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace brdma::lab {

void run_promptly() {
  prctl(PR_SET_TIMERSLACK, 1);
  sched_param parameters{};
  parameters.sched_priority = 1;
  if (sched_setscheduler(0, SCHED_RR, &parameters) == 0) return;
  (void)setpriority(PRIO_PROCESS, 0, -20);
  struct {
    std::uint32_t size = 48, policy = SCHED_OTHER;
    std::uint64_t flags = 0;
    std::int32_t nice = 0;
    std::uint32_t priority = 0;
    std::uint64_t runtime_ns = 100'000, deadline = 0, period = 0;
  } attributes;
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace brdma::lab
