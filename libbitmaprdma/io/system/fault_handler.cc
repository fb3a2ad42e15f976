#include "io/system/fault_handler.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>

#include "memory/guard.h"

namespace brdma::io {
namespace {

constexpr std::array kSignals{SIGSEGV, SIGBUS};

// The program's action for a signal. Set inside handlers and read by them: no lock. A record is reused after seven
// others.
class ProgramsAction {
 public:
  [[nodiscard]] struct sigaction get() const { return *now_.load(std::memory_order_acquire); }
  struct sigaction exchange(const struct sigaction& next) {
    struct sigaction& record = records_[used_.fetch_add(1, std::memory_order_relaxed) % records_.size()];
    record = next;
    return *now_.exchange(&record, std::memory_order_acq_rel);
  }

 private:
  std::array<struct sigaction, 8> records_{};  // zero: SIG_DFL
  std::atomic<unsigned> used_{1};
  std::atomic<const struct sigaction*> now_{records_.data()};
};

constinit std::array<std::atomic<bool>, kSignals.size()> in_place{};
constinit std::atomic<SystemSigaction> system_sigaction{nullptr};
// The program's handler is running for this thread's fault, called by ours.
thread_local constinit bool program_asked [[gnu::tls_model("initial-exec")]] = false;

constinit std::array<ProgramsAction, kSignals.size()> programs_actions;

std::size_t index_of(int signal) { return signal == SIGSEGV ? 0 : 1; }
ProgramsAction& programs(int signal) { return programs_actions[index_of(signal)]; }

int set_system_action(int signal, const struct sigaction* next, struct sigaction* before) {
  const SystemSigaction known = system_sigaction.load(std::memory_order_relaxed);
  return known != nullptr ? known(signal, next, before) : ::sigaction(signal, next, before);
}

// A fault of the thread's own instruction, which will repeat.
bool is_fault(const siginfo_t& info) {
  return info.si_code > 0 && (info.si_signo != SIGBUS || info.si_code != BUS_MCEERR_AO);
}

// As without a handler: a fault repeats itself and ends the program in place; a sent signal is sent again.
void do_the_usual(int signal, siginfo_t* info) {
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  sigemptyset(&usual.sa_mask);
  in_place[index_of(signal)].store(false, std::memory_order_relaxed);
  (void)set_system_action(signal, &usual, nullptr);
  if (!is_fault(*info)) ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), ::syscall(SYS_gettid), signal, info);
}

void call_program(int signal, siginfo_t* info, void* context, const struct sigaction& action) {
  sigset_t blocked = action.sa_mask, before;
  if ((action.sa_flags & SA_NODEFER) == 0) sigaddset(&blocked, signal);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  if ((action.sa_flags & SA_NODEFER) != 0 && sigismember(&action.sa_mask, signal) == 0) {
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, signal);
    pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
  }
  program_asked = true;
  if ((action.sa_flags & SA_SIGINFO) != 0) {
    action.sa_sigaction(signal, info, context);
  } else {
    action.sa_handler(signal);
  }
  program_asked = false;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void ask_program(int signal, siginfo_t* info, void* context) {
  ProgramsAction& own = programs(signal);
  const struct sigaction action = own.get();
  const bool handled =
      (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
  if (!handled) {
    if (action.sa_handler == SIG_IGN && !is_fault(*info)) return;  // the kernel ignores no fault
    return do_the_usual(signal, info);
  }
  if ((action.sa_flags & static_cast<int>(SA_RESETHAND)) != 0) (void)own.exchange({});
  call_program(signal, info, context, action);
}

// If the kernel calls a handler, its data is right behind the place for the return address (x86-64), or at the stack
// pointer (aarch64). Any other caller is a handler of the program, which saved ours as its predecessor and calls it in
// turn.
bool called_by_kernel([[maybe_unused]] const void* frame, [[maybe_unused]] const siginfo_t* info,
                      [[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  return frame == context;
#elif defined(__aarch64__)
  return frame == info;
#else
  return !program_asked;
#endif
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  // the program may have left a handler by longjmp
  if (called_by_kernel(__builtin_dwarf_cfa(), info, context)) program_asked = false;
  if (memory::recovers_by_jump() && is_fault(*info))
    pthread_sigmask(SIG_SETMASK, &static_cast<ucontext_t*>(context)->uc_sigmask, nullptr);
  if (!is_fault(*info) || !memory::recover(info->si_addr, context)) {
    if (program_asked) {  // by us, and it calls us back: no handler is left
      do_the_usual(signal, info);
    } else {
      ask_program(signal, info, context);
    }
  }
  errno = error;
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == on_fault;
}

void keep(int signal) {
  struct sigaction found {};
  if (set_system_action(signal, nullptr, &found) != 0) return;
  const std::size_t index = index_of(signal);
  if (!is_ours(found)) {
    (void)programs(signal).exchange(found);
    struct sigaction ours {};
    ours.sa_sigaction = on_fault;
    // On the thread's signal stack, if it has one: Go and other users of small stacks rely on that.
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&ours.sa_mask);
    if (set_system_action(signal, &ours, nullptr) != 0) return;
  }
  in_place[index].store(true, std::memory_order_release);
}

}  // namespace

void keep_fault_handler() {
  for (const int signal : kSignals) keep(signal);
}

bool handles(int signal) {
  return (signal == SIGSEGV || signal == SIGBUS) && in_place[index_of(signal)].load(std::memory_order_acquire);
}

struct sigaction exchange_action(int signal, const struct sigaction* next) {
  ProgramsAction& own = programs(signal);
  return next != nullptr ? own.exchange(*next) : own.get();
}

void use_sigaction(SystemSigaction function) { system_sigaction.store(function, std::memory_order_relaxed); }

}  // namespace brdma::io
