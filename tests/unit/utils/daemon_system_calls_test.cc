// System calls of brdmad's confined processes: needed ones are allowed; others are refused, or end the process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <thread>

#include "process/system_calls.h"

namespace brdma::daemon {
namespace {

constexpr int kNotConfined = 120;

// The exit code of a confined child; -signal if it was killed.
int confined(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    ::_exit(confine_system_calls().error == 0 ? body() : kNotConfined);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

template <class... Arguments>
int error_of(long number, Arguments... arguments) {
  return ::syscall(number, arguments...) >= 0 ? 0 : errno;
}

class SystemCallsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (confined([] { return 0; }) == kNotConfined) GTEST_SKIP() << confine_system_calls().message;
  }
};

TEST_F(SystemCallsTest, WhatNobodyCallsByMistakeEndsTheProcess) {
  EXPECT_EQ(confined([] {
              char program[] = "/bin/true";
              char* const words[] = {program, nullptr};
              return ::execv(program, words);
            }),
            -SIGSYS);
  for (const long number :
       {SYS_execveat,     SYS_ptrace,         SYS_process_vm_readv, SYS_process_vm_writev, SYS_mount,
        SYS_umount2,      SYS_fsopen,         SYS_move_mount,       SYS_open_tree,         SYS_pivot_root,
        SYS_chroot,       SYS_setns,          SYS_unshare,          SYS_kexec_load,        SYS_init_module,
        SYS_finit_module, SYS_delete_module,  SYS_keyctl,           SYS_add_key,           SYS_open_by_handle_at,
        SYS_userfaultfd,  SYS_io_uring_setup, SYS_perf_event_open,  SYS_pidfd_getfd,       SYS_setresuid,
        SYS_reboot}) {
    EXPECT_EQ(confined([number] { return error_of(number, -1, 0, 0, 0, 0); }), -SIGSYS) << number;
  }
}

TEST_F(SystemCallsTest, TheRestIsRefused) {
  EXPECT_EQ(confined([] { return error_of(SYS_unlinkat, AT_FDCWD, "/nonexistent", 0); }), EPERM);
  EXPECT_EQ(confined([] { return error_of(SYS_mkdirat, AT_FDCWD, "/nonexistent/a", 0700); }), EPERM);
  EXPECT_EQ(confined([] { return error_of(SYS_socket, AF_PACKET, SOCK_RAW, 0); }), EPERM);
  EXPECT_EQ(confined([] { return error_of(SYS_socket, AF_VSOCK, SOCK_STREAM, 0); }), EPERM);
  EXPECT_EQ(confined([] { return error_of(SYS_ioctl, 0, TIOCSTI, "a"); }), EPERM);
  EXPECT_EQ(confined([] {
              bpf_attr attributes{};
              return error_of(SYS_bpf, BPF_LINK_GET_NEXT_ID, &attributes, sizeof attributes);
            }),
            EPERM);
  EXPECT_EQ(confined([] { return error_of(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0); }), EPERM);
}

TEST_F(SystemCallsTest, WhatServesIsAllowed) {
  EXPECT_EQ(confined([] {
              for (const int family : {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}) {
                const int fd = ::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
                if (fd < 0) return 1;
                ::close(fd);
              }
              const int memory = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
              if (memory < 0 || ::ftruncate(memory, 4096) != 0 || ::fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
                return 2;
              if (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0) == MAP_FAILED) return 3;
              if (::open("/proc/self/stat", O_RDONLY | O_CLOEXEC) < 0) return 4;
              if (::poll(nullptr, 0, 1) != 0) return 5;
              const pid_t child = ::fork();
              if (child == 0) ::_exit(::prctl(PR_SET_PDEATHSIG, SIGKILL));
              int status = 0;
              return ::waitpid(child, &status, 0) == child && status == 0 ? 0 : 6;
            }),
            0);
  EXPECT_EQ(confined([] {
              std::thread([] {}).join();  // the C library's clone3() is not there
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace brdma::daemon
