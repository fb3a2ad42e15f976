#include "process/shed.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/ioprio.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace brdma::daemon {
namespace {

constexpr int kFirst = 3;                        // behind the standard streams
constexpr unsigned long kTimerSlackNs = 50'000;  // the kernel's own default
constexpr std::size_t kProcessorsMax = 8192;     // the kernel's largest NR_CPUS

void write_to(const char* path, std::string_view text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  static_cast<void>(!::write(fd, text.data(), text.size()));
  ::close(fd);
}

}  // namespace

void shed_descriptors(std::span<const int> keep) {
  std::vector<int> kept{kFirst - 1};
  std::ranges::copy_if(keep, std::back_inserter(kept), [](int fd) { return fd >= kFirst; });
  std::ranges::sort(kept);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const unsigned first = static_cast<unsigned>(kept[i]) + 1;
    const unsigned last = i + 1 < kept.size() ? static_cast<unsigned>(kept[i + 1]) - 1 : ~0u;
    if (first <= last) ::syscall(SYS_close_range, first, last, 0u);
    if (i > 0) ::fcntl(kept[i], F_SETFD, FD_CLOEXEC);
  }
}

void shed_signals() {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal = 1; signal < SIGRTMIN; ++signal) ::signal(signal, SIG_DFL);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // exceeding a file limit that could not be raised is an error, not the end
}

void shed_scheduling() {
  const sched_param normal{};
  ::sched_setscheduler(0, SCHED_OTHER, &normal);
  ::setpriority(PRIO_PROCESS, 0, 0);
  // All processors; the kernel takes out what the cpuset does not have.
  const std::vector<unsigned char> all(kProcessorsMax / 8, 0xFF);
  ::sched_setaffinity(0, all.size(), reinterpret_cast<const cpu_set_t*>(all.data()));
  ::syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_NONE, 0));
  ::prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  write_to("/proc/self/oom_score_adj", "0");
}

// The remaining rights serve steering sockets (BPF programs), their buffers, ICMP, memory for AF_XDP, and descriptors
// in flight. Rights that the process lacks are not requested.
void shed_rights() {
  constexpr std::array kServe{CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK, CAP_SYS_RESOURCE, CAP_BPF};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> rights{};
  if (::syscall(SYS_capget, &header, rights.data()) != 0) return;
  std::array<std::uint32_t, _LINUX_CAPABILITY_U32S_3> kept{};
  for (const int right : kServe) kept[CAP_TO_INDEX(right)] |= CAP_TO_MASK(right);
  for (std::size_t i = 0; i < rights.size(); ++i) {
    rights[i].permitted &= kept[i];
    rights[i].effective &= kept[i];
    rights[i].inheritable = 0;
  }
  ::syscall(SYS_capset, &header, rights.data());
}

void shed_limits() {
  for (const auto which : {RLIMIT_AS, RLIMIT_CPU, RLIMIT_CORE, RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_MEMLOCK,
                           RLIMIT_MSGQUEUE, RLIMIT_NPROC, RLIMIT_RSS, RLIMIT_RTTIME, RLIMIT_SIGPENDING}) {
    rlimit limit{};
    if (::getrlimit(which, &limit) != 0) continue;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(which, &limit);
  }
  ::syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0ul);
  ::prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
  ::personality(PER_LINUX);
  ::umask(022);
  static_cast<void>(!::chdir("/"));
}

}  // namespace brdma::daemon
