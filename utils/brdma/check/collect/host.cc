// Facts about the machine, its limits and its sandbox.

#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>

#include "check/collect/collect.h"
#include "device_files/runtime_directory.h"
#include "io/system/file_descriptor.h"

namespace brdma::check {
namespace {

int error_of(long result) { return result < 0 ? errno : 0; }

int try_socket(int family, int type) {
  const io::FileDescriptor fd{::socket(family, type | SOCK_CLOEXEC, 0)};
  return fd.valid() ? 0 : errno;
}

int try_fork() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  if (child < 0) return errno;
  int status = 0;
  return error_of(::waitpid(child, &status, 0));
}

int try_read_memory() {
  std::uint64_t from = 1, to = 0;
  const iovec local{&to, sizeof to}, remote{&from, sizeof from};
  return error_of(::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0));
}

// EBADF is what the kernel itself answers.
int but_bad_descriptor(long result) { return result < 0 && errno != EBADF ? errno : 0; }

struct Trial {
  const char* name;
  bool needed;
  const char* purpose;
  int (*run)();
};
const std::array kTrials{
    Trial{"socket(AF_UNIX)", true, "programs reach brdmad by it", [] { return try_socket(AF_UNIX, SOCK_STREAM); }},
    Trial{"socket(AF_INET)", true, "packets leave and arrive by it", [] { return try_socket(AF_INET, SOCK_DGRAM); }},
    Trial{"memfd_create", true, "counters are shared by it",
          [] { return error_of(::memfd_create("brdma-check", MFD_CLOEXEC)); }},
    Trial{"epoll_create1", true, "threads wait by it", [] { return error_of(::epoll_create1(EPOLL_CLOEXEC)); }},
    Trial{"eventfd2", true, "threads are woken by it", [] { return error_of(::eventfd(0, EFD_CLOEXEC)); }},
    Trial{"timerfd_create", true, "timers of retransmission need it",
          [] { return error_of(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)); }},
    Trial{"recvmsg", true, "packets arrive by it", [] { return but_bad_descriptor(::recvmsg(-1, nullptr, 0)); }},
    Trial{"sendmsg", true, "packets leave by it", [] { return but_bad_descriptor(::sendmsg(-1, nullptr, 0)); }},
    Trial{"sendmmsg", true, "batches leave by it", [] { return but_bad_descriptor(::sendmmsg(-1, nullptr, 0, 0)); }},
    Trial{"clone", true, "brdmad is started by it", try_fork},
    Trial{"process_vm_readv", false, "data between processes of this host is sent instead of fetched from memory",
          try_read_memory},
};

bool is_refusal(int error) { return error == EPERM || error == EACCES || error == ENOSYS || error == EAFNOSUPPORT; }

// In a child: a filter may end the process.
SystemCall run_trial(const Trial& trial) {
  SystemCall call{trial.name, 0, false, trial.needed, trial.purpose};
  const pid_t child = ::fork();
  if (child == 0) ::_exit(trial.run() & 0xFF);
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) < 0) return call;
  call.ends = WIFSIGNALED(status);
  if (WIFEXITED(status) && is_refusal(WEXITSTATUS(status))) call.error = WEXITSTATUS(status);
  return call;
}

// Two datagrams in one call arrive as two.
bool segmentation_works() {
  const io::FileDescriptor fd{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  const int size = 100;
  return fd.valid() && ::setsockopt(fd.get(), SOL_UDP, UDP_SEGMENT, &size, sizeof size) == 0;
}

std::string first_word(const char* path) {
  std::ifstream file{path};
  std::string word;
  file >> word;
  return word.substr(0, 64);
}

// 0, or what keeps a file of a page from being written there.
int try_to_write(const std::string& directory) {
  std::string name = directory + "/check-XXXXXX";
  const io::FileDescriptor fd{::mkostemp(name.data(), O_CLOEXEC)};
  if (!fd.valid()) return errno;
  const std::array<char, 4096> page{};
  const int error = error_of(::write(fd.get(), page.data(), page.size()));
  ::unlink(name.c_str());
  return error;
}

RuntimePlace try_place(const std::vector<std::string>& names) {
  RuntimePlace place{names.front(), EPERM};
  for (const std::string& name : names) {
    place.path = name;
    place.error =
        name.ends_with("XXXXXX") ? preload::claim_any_directory(place.path) : preload::claim_directory(place.path);
    if (place.error == 0) place.error = try_to_write(place.path);
    if (place.error != EPERM) break;
  }
  return place;
}

}  // namespace

void collect_host(Host& host) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    host.processors = static_cast<std::uint32_t>(CPU_COUNT(&allowed));
  }
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    host.open_files_soft = files.rlim_cur;
    host.open_files_hard = files.rlim_max;
  }
  const io::FileDescriptor netlink{::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)};
  host.netlink_error = netlink.valid() ? 0 : errno;
  host.has_proc = ::access("/proc/self/stat", R_OK) == 0;
  host.clock_source = first_word("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  host.segmentation_offload = segmentation_works();
  host.receive_buffer_max = std::strtoull(first_word("/proc/sys/net/core/rmem_max").c_str(), nullptr, 10);
  for (const Trial& trial : kTrials) host.calls.push_back(run_trial(trial));
  for (const auto& names : preload::runtime_candidates()) host.places.push_back(try_place(names));
}

}  // namespace brdma::check
