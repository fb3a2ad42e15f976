// The first program's nice value, processors, limits and so on are its own: the daemon that it starts serves others.
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "daemon_fixture.h"

namespace brdma::test {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string field(const std::string& status, const std::string& name) {
  const std::size_t at = status.find("\n" + name + ":");
  if (at == std::string::npos) return {};
  const std::size_t begin = status.find_first_not_of(" \t", at + name.size() + 2);
  return status.substr(begin, status.find('\n', begin) - begin);
}

int processors(pid_t pid) {
  cpu_set_t set;
  return ::sched_getaffinity(pid, sizeof set, &set) == 0 ? CPU_COUNT(&set) : -1;
}

// A program with all these attributes; it lives on until `stop`.
int odd_program(Gate& leased, Gate& stop) {
  stop.signal_end.reset();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  ::sched_setaffinity(0, sizeof one, &one);
  const sched_param normal{};
  ::sched_setscheduler(0, SCHED_BATCH, &normal);
  if (can_change_user()) static_cast<void>(::setpriority(PRIO_PROCESS, 0, 7));  // others could not take it back
  ::umask(0777);
  ::prctl(PR_SET_TIMERSLACK, 1'000'000'000ul);
  ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  rlimit cpu{};
  ::getrlimit(RLIMIT_CPU, &cpu);
  cpu.rlim_cur = 1'000;
  ::setrlimit(RLIMIT_CPU, &cpu);
  constexpr int kIoIdle = 3 << 13;  // IOPRIO_CLASS_IDLE
  ::syscall(SYS_ioprio_set, 1, 0, kIoIdle);
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  const io::Lease lease = lease_or_die();
  leased.open();
  return stop.wait() ? 0 : 1;
}

TEST_F(DaemonTest, ItRunsAsIfNobodyHadStartedIt) {
  const int all_processors = processors(0);
  const int nice = can_change_user() ? 0 : ::getpriority(PRIO_PROCESS, 0);  // lower than its own nobody else may set it
  Gate leased, stop;
  Child program([&] { return odd_program(leased, stop); });
  leased.open();
  ASSERT_TRUE(leased.wait());
  for (const pid_t pid : {holder_pid(), worker_pid()}) {
    const std::string process = "/proc/" + std::to_string(pid), status = read(process + "/status");
    EXPECT_EQ(processors(pid), all_processors);
    EXPECT_EQ(::sched_getscheduler(pid), SCHED_OTHER);
    EXPECT_EQ(::getpriority(PRIO_PROCESS, static_cast<id_t>(pid)), nice);
    EXPECT_EQ(field(status, "Umask"), "0022");
    EXPECT_EQ(field(status, "THP_enabled"), "1");
    EXPECT_EQ(::syscall(SYS_ioprio_get, 1, pid), 0);
    rlimit cpu{};
    ASSERT_EQ(::prlimit(pid, RLIMIT_CPU, nullptr, &cpu), 0);
    EXPECT_EQ(cpu.rlim_cur, cpu.rlim_max);
    if (can_change_user()) {
      EXPECT_EQ(read(process + "/timerslack_ns"), "50000\n");
    }
  }
  EXPECT_EQ(field(read("/proc/" + std::to_string(holder_pid()) + "/status"), "SigIgn"), "0000000001001000")
      << "SIGPIPE and SIGXFSZ";
  stop.open();
  EXPECT_EQ(program.join(), 0);
}

}  // namespace
}  // namespace brdma::test
