// support/survive_faults.h - tests of memory that goes away while a packet is made of it.
#pragma once

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "memory/guard.h"

namespace brdma::test {

// As a driver's handler: without one, a fault ends the program (memory/guard.h).
inline void survive_faults() {
  struct sigaction action {};
  action.sa_sigaction = [](int, siginfo_t* info, void* context) {
    if (!memory::recover(info->si_addr, context)) std::abort();
  };
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ASSERT_EQ(::sigaction(SIGSEGV, &action, nullptr), 0);
  ASSERT_EQ(::sigaction(SIGBUS, &action, nullptr), 0);
}

}  // namespace brdma::test
