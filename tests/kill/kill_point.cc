// Preloaded: ends the process with SIGKILL at its Nth call of those below, before it or after it. A count, unlike a
// time, is reproducible by its seed.
//   BRDMA_KILL_POINT=GENERATION:N:TOKEN   generation 0: the process that was started; 1: the children that it forks,
//   each counted alone. N/2: the call; odd: after it. Only the process that removes the file TOKEN dies.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace {

struct Point {
  unsigned generation = 0;
  unsigned long call = 0;
  char token[256] = {};
};
Point point;
std::atomic<unsigned long> calls{0};
unsigned generation = 0;

// A surviving process must not notice: errno is the call's.
void end_if(unsigned long number) {
  if (number != point.call || generation != point.generation) return;
  const int error = errno;
  if (::syscall(SYS_unlinkat, AT_FDCWD, point.token, 0) == 0) ::syscall(SYS_kill, ::syscall(SYS_getpid), SIGKILL);
  errno = error;
}

__attribute__((constructor)) void prepare() {
  const char* const text = std::getenv("BRDMA_KILL_POINT");
  if (text == nullptr || std::sscanf(text, "%u:%lu:%255s", &point.generation, &point.call, point.token) != 3) {
    point.call = ~0ul;
  }
  ::pthread_atfork(nullptr, nullptr, [] {
    ++generation;
    calls = 0;
  });
}

template <class Function, class... Arguments>
auto counted(std::atomic<void*>& real, const char* name, Arguments... arguments) {
  void* function = real.load(std::memory_order_relaxed);
  if (function == nullptr) real = function = ::dlsym(RTLD_NEXT, name);
  const unsigned long number = calls.fetch_add(1, std::memory_order_relaxed) * 2;
  end_if(number);
  const auto result = reinterpret_cast<Function*>(function)(arguments...);
  end_if(number + 1);
  return result;
}

}  // namespace

#define BRDMA_COUNTED(result, name, parameters, attributes, ...)                        \
  extern "C" __attribute__((visibility("default"))) result name parameters attributes { \
    static std::atomic<void*> real{nullptr};                                            \
    return counted<result parameters>(real, #name, __VA_ARGS__);                        \
  }

BRDMA_COUNTED(ssize_t, read, (int fd, void* to, size_t size), , fd, to, size)
BRDMA_COUNTED(ssize_t, write, (int fd, const void* from, size_t size), , fd, from, size)
BRDMA_COUNTED(ssize_t, send, (int fd, const void* from, size_t size, int flags), , fd, from, size, flags)
BRDMA_COUNTED(ssize_t, recv, (int fd, void* to, size_t size, int flags), , fd, to, size, flags)
BRDMA_COUNTED(ssize_t, sendmsg, (int fd, const msghdr* message, int flags), , fd, message, flags)
BRDMA_COUNTED(ssize_t, recvmsg, (int fd, msghdr* message, int flags), , fd, message, flags)
BRDMA_COUNTED(int, sendmmsg, (int fd, mmsghdr* messages, unsigned count, int flags), , fd, messages, count, flags)
BRDMA_COUNTED(int, recvmmsg, (int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout), , fd, messages,
              count, flags, timeout)
BRDMA_COUNTED(int, poll, (pollfd * fds, nfds_t count, int timeout), , fds, count, timeout)
BRDMA_COUNTED(int, ppoll, (pollfd * fds, nfds_t count, const timespec* timeout, const sigset_t* mask), , fds, count,
              timeout, mask)
BRDMA_COUNTED(int, epoll_wait, (int fd, epoll_event* events, int count, int timeout), , fd, events, count, timeout)
BRDMA_COUNTED(int, socket, (int domain, int type, int protocol), noexcept, domain, type, protocol)
BRDMA_COUNTED(int, connect, (int fd, const sockaddr* address, socklen_t size), , fd, address, size)
BRDMA_COUNTED(int, accept4, (int fd, sockaddr* address, socklen_t* size, int flags), , fd, address, size, flags)
BRDMA_COUNTED(int, setsockopt, (int fd, int level, int name, const void* value, socklen_t size), noexcept, fd, level,
              name, value, size)
BRDMA_COUNTED(int, close, (int fd), , fd)
