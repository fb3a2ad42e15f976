// SIGSEGV and SIGBUS beside the program's own handlers: foreign faults reach them as if the library's handler were not
// there.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "io/system/fault_handler.h"
#include "memory/guard.h"

namespace brdma::io {
namespace {

constexpr std::size_t kPage = 4096;

char* mapped(int protection) {
  void* const at = ::mmap(nullptr, kPage, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) std::abort();
  return static_cast<char*>(at);
}

// As a program that does not know the library: not through exchange_action().
void install(int signal, void (*handler)(int, siginfo_t*, void*), int flags = 0) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  if (::sigaction(signal, &action, nullptr) != 0) std::abort();
}
void install_plain(int signal, void (*handler)(int), int flags = 0) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  if (::sigaction(signal, &action, nullptr) != 0) std::abort();
}

bool copies_from(const char* at) {
  std::byte own[64];
  return memory::copy(own, reinterpret_cast<const std::byte*>(at), sizeof own);
}

[[noreturn]] void say(const char* word, int code) {
  (void)!::write(2, word, std::strlen(word));
  ::_exit(code);
}

char* expected = nullptr;

// Each in a process of its own: handlers are the process's.
TEST(FaultHandlerDeathTest, OurFaultsBecomeErrorsAndOthersReachTheProgramUnchanged) {
  const auto body = [] {
    install(SIGSEGV, [](int signal, siginfo_t* info, void* context) {
      const bool right =
          signal == SIGSEGV && info->si_code == SEGV_ACCERR && info->si_addr == expected && context != nullptr;
      say(right ? "right" : "wrong", 7);
    });
    keep_fault_handler();
    expected = mapped(PROT_NONE);
    if (copies_from(expected)) say("copied", 1);
    *const_cast<volatile char*>(expected) = 1;
    say("went on", 1);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(7), "right");
}

TEST(FaultHandlerDeathTest, AHandlerMayRepairAndReturn) {
  const auto body = [] {
    install(SIGSEGV, [](int, siginfo_t* info, void*) { ::mprotect(info->si_addr, kPage, PROT_READ | PROT_WRITE); });
    keep_fault_handler();
    char* const page = mapped(PROT_NONE);
    *const_cast<volatile char*>(page) = 5;
    char* const other = mapped(PROT_NONE);
    const bool again = !copies_from(other);
    *const_cast<volatile char*>(other) = 6;
    say(page[0] == 5 && other[0] == 6 && again ? "repaired" : "wrong", 7);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(7), "repaired");
}

sigjmp_buf back;

TEST(FaultHandlerDeathTest, AHandlerMayJumpAway) {
  const auto body = [] {
    install_plain(SIGSEGV, [](int) { siglongjmp(back, 1); });
    keep_fault_handler();
    char* const page = mapped(PROT_NONE);
    static int jumped = 0, tried = 0;
    for (; tried < 20; ++tried) {
      if (sigsetjmp(back, 1) == 0) {
        *const_cast<volatile char*>(page) = 1;
      } else {
        ++jumped;
      }
      if (copies_from(page)) say("copied", 1);
    }
    say(jumped == 20 ? "jumped" : "wrong", 7);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(7), "jumped");
}

TEST(FaultHandlerDeathTest, FlagsAndMaskOfTheProgramAreKept) {
  const auto body = [] {
    struct sigaction action {};
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaddset(&action.sa_mask, SIGUSR1);
    action.sa_handler = [](int) {
      sigset_t now;
      pthread_sigmask(SIG_SETMASK, nullptr, &now);
      const bool right =
          sigismember(&now, SIGUSR1) == 1 && sigismember(&now, SIGSEGV) == 1 && sigismember(&now, SIGUSR2) == 0;
      (void)!::write(2, right ? "masked" : "wrong", 6);
      ::mprotect(expected, kPage, PROT_READ | PROT_WRITE);
    };
    if (::sigaction(SIGSEGV, &action, nullptr) != 0) std::abort();
    keep_fault_handler();
    expected = mapped(PROT_NONE);
    *const_cast<volatile char*>(expected) = 1;
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, nullptr, &now);
    if (sigismember(&now, SIGUSR1) != 0) say("still masked", 1);
    *const_cast<volatile char*>(mapped(PROT_NONE)) = 1;  // the handler is gone
    say("went on", 1);
  };
  EXPECT_EXIT(body(), testing::KilledBySignal(SIGSEGV), "^masked$");
}

#if !defined(BRDMA_ADDRESS_SANITIZER)  // which has a handler of its own from the beginning
TEST(FaultHandlerDeathTest, WithoutAHandlerTheProgramEndsAsEver) {
  const auto fault = [] {
    keep_fault_handler();
    *const_cast<volatile char*>(mapped(PROT_NONE)) = 1;
  };
  EXPECT_EXIT(fault(), testing::KilledBySignal(SIGSEGV), "");
  const auto ignored = [] {
    ::signal(SIGSEGV, SIG_IGN);
    keep_fault_handler();
    *const_cast<volatile char*>(mapped(PROT_NONE)) = 1;
  };
  EXPECT_EXIT(ignored(), testing::KilledBySignal(SIGSEGV), "");
  const auto sent = [] {
    keep_fault_handler();
    ::raise(SIGBUS);
    say("survived", 1);
  };
  EXPECT_EXIT(sent(), testing::KilledBySignal(SIGBUS), "");
}
#endif

TEST(FaultHandlerDeathTest, WhatIsSentAndIgnoredIsIgnored) {
  const auto body = [] {
    ::signal(SIGSEGV, SIG_IGN);
    keep_fault_handler();
    ::raise(SIGSEGV);
    say("ignored", 7);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(7), "ignored");
}

struct sigaction found;

// A program that replaces our handler, not through our sigaction(), and calls the former one for faults it does not
// know.
TEST(FaultHandlerDeathTest, AHandlerThatReplacesOursIsFoundAndAsked) {
  const auto body = [](bool asks_ours) {
    keep_fault_handler();
    if (::sigaction(SIGSEGV, nullptr, &found) != 0) std::abort();
    if (asks_ours) {
      install(SIGSEGV, [](int signal, siginfo_t* info, void* context) {
        (void)!::write(2, "asked;", 6);
        found.sa_sigaction(signal, info, context);
      });
    } else {
      install(SIGSEGV, [](int, siginfo_t*, void*) { say("theirs", 7); });
    }
    keep_fault_handler();
    if (copies_from(mapped(PROT_NONE))) say("copied", 1);
    *const_cast<volatile char*>(mapped(PROT_NONE)) = 1;
    say("went on", 1);
  };
  EXPECT_EXIT(body(false), testing::ExitedWithCode(7), "theirs");
  EXPECT_EXIT(body(true), testing::KilledBySignal(SIGSEGV), "^asked;$");
}

// Until this is noticed, its handler calls ours.
TEST(FaultHandlerDeathTest, AHandlerThatAsksOursGetsOurAnswer) {
  const auto body = [] {
    keep_fault_handler();
    if (::sigaction(SIGSEGV, nullptr, &found) != 0) std::abort();
    install(SIGSEGV, [](int signal, siginfo_t* info, void* context) { found.sa_sigaction(signal, info, context); });
    say(copies_from(mapped(PROT_NONE)) ? "copied" : "answered", 7);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(7), "answered");
}

TEST(FaultHandlerDeathTest, WhatTheProgramAsksForIsWhatItHasSet) {
  const auto body = [] {
    keep_fault_handler();
    if (!handles(SIGSEGV) || !handles(SIGBUS) || handles(SIGUSR1)) say("handles", 1);
    struct sigaction mine {};
    mine.sa_handler = [](int) { say("mine", 7); };
    for (int i = 0; i < 20; ++i) (void)exchange_action(SIGSEGV, &mine);
    if (exchange_action(SIGSEGV, nullptr).sa_handler != mine.sa_handler) say("another", 1);
    if (exchange_action(SIGBUS, nullptr).sa_handler == mine.sa_handler) say("both", 1);
    if (copies_from(mapped(PROT_NONE))) say("copied", 1);
    *const_cast<volatile char*>(mapped(PROT_NONE)) = 1;
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(7), "mine");
}

}  // namespace
}  // namespace brdma::io
