#include "process/system_calls.h"

#include <cerrno>

#ifndef BRDMA_HAS_SECCOMP

namespace brdma::daemon {

ContextError confine_system_calls() { return {EOPNOTSUPP, "built without libseccomp, or with sanitizers"}; }

}  // namespace brdma::daemon

#else

#include <linux/bpf.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>
#include <string>

namespace brdma::daemon {
namespace {

// Names on any architecture and C library; those that this one lacks are skipped.
constexpr const char* kAllowed[] = {
    // memory
    "brk", "madvise", "membarrier", "memfd_create", "mmap", "mmap2", "mprotect", "mremap", "munmap",
    // descriptors
    "close", "close_range", "dup", "dup2", "dup3", "fcntl", "fcntl64", "ftruncate", "ftruncate64", "lseek", "_llseek",
    "pipe", "pipe2", "pread64", "preadv", "pwrite64", "pwritev", "read", "readv", "write", "writev",
    // files: those of /proc and /sys
    "access", "faccessat", "faccessat2", "fstat", "fstat64", "fstatat64", "fstatfs", "fstatfs64", "getcwd", "getdents",
    "getdents64", "lstat", "lstat64", "newfstatat", "open", "openat", "readlink", "readlinkat", "stat", "stat64",
    "statfs", "statfs64", "statx",
    // waiting
    "_newselect", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd2",
    "futex", "futex_time64", "poll", "ppoll", "ppoll_time64", "pselect6", "select", "signalfd4", "timerfd_create",
    "timerfd_gettime", "timerfd_settime",
    // sockets
    "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "recvfrom",
    "recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown", "socketpair",
    // the process, and the worker that it forks
    "arch_prctl", "exit", "exit_group", "fork", "getegid", "geteuid", "getgid", "getgroups", "getpgrp", "getpid",
    "getppid", "getrandom", "getresgid", "getresuid", "getrlimit", "getrusage", "gettid", "getuid", "kill", "prctl",
    "prlimit64", "restart_syscall", "rseq", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigtimedwait",
    "sched_getaffinity", "sched_yield", "set_robust_list", "set_tid_address", "sigaltstack", "sysinfo", "tgkill",
    "ugetrlimit", "uname", "vfork", "wait4", "waitid",
    // time
    "clock_getres", "clock_gettime", "clock_gettime64", "clock_nanosleep", "gettimeofday", "nanosleep", "time"};

constexpr const char* kDeadly[] = {
    // other programs
    "execve", "execveat", "kcmp", "pidfd_getfd", "process_madvise", "process_vm_readv", "process_vm_writev", "ptrace",
    // another view of the system
    "chroot", "fsmount", "fsopen", "fspick", "mount", "mount_setattr", "move_mount", "name_to_handle_at",
    "open_by_handle_at", "open_tree", "pivot_root", "setns", "umount", "umount2", "unshare",
    // the kernel
    "add_key", "delete_module", "finit_module", "init_module", "io_uring_enter", "io_uring_register", "io_uring_setup",
    "ioperm", "iopl", "kexec_file_load", "kexec_load", "keyctl", "perf_event_open", "reboot", "request_key", "swapoff",
    "swapon", "userfaultfd",
    // another user
    "setfsgid", "setfsuid", "setgid", "setregid", "setresgid", "setresuid", "setreuid", "setuid"};

constexpr int kFamilies[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_XDP};
// Steering: maps and programs are made, attached and inspected, never found by their numbers.
constexpr int kBpfCommands[] = {BPF_MAP_CREATE, BPF_MAP_LOOKUP_ELEM, BPF_MAP_UPDATE_ELEM,
                                BPF_PROG_LOAD,  BPF_LINK_CREATE,     BPF_OBJ_GET_INFO_BY_FD};
constexpr unsigned long kOtherIoctls[] = {FIONBIO, FIONREAD};
constexpr scmp_datum_t kIoctlType = 0xFF00, kIoctlsOfSockets = 0x8900;  // SIOC...
constexpr scmp_datum_t kNewNamespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

using Filter = std::unique_ptr<void, void (*)(scmp_filter_ctx)>;

// 0, or a negative errno value.
template <class... Conditions>
int add(const Filter& filter, std::uint32_t action, const char* name, Conditions... conditions) {
  const int number = ::seccomp_syscall_resolve_name(name);
  if (number == __NR_SCMP_ERROR) return 0;  // libseccomp is older than it
  const scmp_arg_cmp all[] = {conditions..., scmp_arg_cmp{}};
  return ::seccomp_rule_add_array(filter.get(), action, number, sizeof...(conditions), all);
}

int fill(const Filter& filter) {
  int error = ::seccomp_attr_set(filter.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  const auto also = [&error](int result) { error = error != 0 ? error : result; };
  for (const char* name : kAllowed) also(add(filter, SCMP_ACT_ALLOW, name));
  for (const char* name : kDeadly) also(add(filter, SCMP_ACT_KILL_PROCESS, name));
  const auto equal = [](unsigned argument, scmp_datum_t value) {
    return scmp_arg_cmp{argument, SCMP_CMP_EQ, value, 0};
  };
  for (const int family : kFamilies) also(add(filter, SCMP_ACT_ALLOW, "socket", equal(0, family)));
  for (const int command : kBpfCommands) also(add(filter, SCMP_ACT_ALLOW, "bpf", equal(0, command)));
  for (const unsigned long request : kOtherIoctls) also(add(filter, SCMP_ACT_ALLOW, "ioctl", equal(1, request)));
  also(add(filter, SCMP_ACT_ALLOW, "ioctl", scmp_arg_cmp{1, SCMP_CMP_MASKED_EQ, kIoctlType, kIoctlsOfSockets}));
  also(add(filter, SCMP_ACT_ALLOW, "clone", scmp_arg_cmp{0, SCMP_CMP_MASKED_EQ, kNewNamespaces, 0}));
  also(add(filter, SCMP_ACT_ERRNO(ENOSYS), "clone3"));  // its flags can't be inspected: the C library takes clone
  return error;
}

}  // namespace

ContextError confine_system_calls() {
  const Filter filter{::seccomp_init(SCMP_ACT_ERRNO(EPERM)), ::seccomp_release};
  if (filter == nullptr) return {ENOMEM, "no memory for it"};
  int error = fill(filter);
  if (error == 0) error = ::seccomp_load(filter.get());
  return error == 0 ? ContextError{} : ContextError{-error, std::strerror(-error)};
}

}  // namespace brdma::daemon

#endif
