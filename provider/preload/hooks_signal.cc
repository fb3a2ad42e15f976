// Hooks: a program that installs or queries a handler of SIGSEGV or SIGBUS after ours sees only its own handlers
// (io/system/fault_handler.h). Every other signal, and these until a device is open, are the system's.
#include <signal.h>

#include <cerrno>

#include "io/system/fault_handler.h"
#include "preload/real.h"

namespace {

BRDMA_REAL(sigaction);
BRDMA_REAL(signal);
constinit brdma::preload::Real<decltype(::signal)> real_sysv_signal{"__sysv_signal"}, real_sigset{"sigset"};
constinit brdma::preload::Real<int(int)> real_sigignore{"sigignore"};

// Before main, so that no signal handler is the first to call dlsym.
__attribute__((constructor)) void prepare() {
  real_sigaction.resolve();
  real_signal.resolve();
  real_sysv_signal.resolve();
  real_sigset.resolve();
  real_sigignore.resolve();
  brdma::io::use_sigaction(real_sigaction.get());
}

sighandler_t handler_of(const struct sigaction& action) { return action.sa_handler; }

sighandler_t exchange(int signal, sighandler_t handler, int flags) {
  struct sigaction next {};
  next.sa_handler = handler;
  next.sa_flags = flags;
  sigemptyset(&next.sa_mask);
  return handler_of(brdma::io::exchange_action(signal, &next));
}

constexpr int kAsBsd = SA_RESTART, kAsSystemV = static_cast<int>(SA_RESETHAND) | SA_NODEFER;

}  // namespace

BRDMA_HOOK int sigaction(int signal, const struct sigaction* next, struct sigaction* before) noexcept {
  if (!brdma::io::handles(signal)) return real_sigaction.get()(signal, next, before);
  const struct sigaction was = brdma::io::exchange_action(signal, next);
  if (before != nullptr) *before = was;
  return 0;
}

BRDMA_HOOK sighandler_t signal(int signal, sighandler_t handler) noexcept {
  if (handler == SIG_ERR || !brdma::io::handles(signal)) return real_signal.get()(signal, handler);
  return exchange(signal, handler, kAsBsd);
}
BRDMA_HOOK sighandler_t bsd_signal(int number, sighandler_t handler) noexcept { return signal(number, handler); }
BRDMA_HOOK sighandler_t ssignal(int number, sighandler_t handler) noexcept { return signal(number, handler); }

BRDMA_HOOK sighandler_t __sysv_signal(int signal, sighandler_t handler) noexcept {
  if (handler == SIG_ERR || !brdma::io::handles(signal)) return real_sysv_signal.get()(signal, handler);
  return exchange(signal, handler, kAsSystemV);
}
BRDMA_HOOK sighandler_t sysv_signal(int number, sighandler_t handler) noexcept {
  return __sysv_signal(number, handler);
}

// With SIG_HOLD the signal is blocked and its handler stays.
BRDMA_HOOK sighandler_t sigset(int signal, sighandler_t handler) noexcept {
  constexpr std::uintptr_t kHold = 2;
  const bool holds = reinterpret_cast<std::uintptr_t>(handler) == kHold;
  if (handler == SIG_ERR || holds || !brdma::io::handles(signal)) return real_sigset.get()(signal, handler);
  sigset_t own, blocked;
  sigemptyset(&own);
  sigaddset(&own, signal);
  sigprocmask(SIG_UNBLOCK, &own, &blocked);
  const sighandler_t was = exchange(signal, handler, 0);
  return sigismember(&blocked, signal) == 1 ? reinterpret_cast<sighandler_t>(kHold) : was;
}

BRDMA_HOOK int sigignore(int signal) noexcept {
  if (!brdma::io::handles(signal)) return real_sigignore.get()(signal);
  (void)exchange(signal, SIG_IGN, 0);
  return 0;
}
