// io/shard/start_thread.h - starts a thread of ours inside a program: signals are blocked, they are the program's.
// Except those of its own faults, which end the process where they are blocked (io/system/fault_handler.h).
#pragma once

#include <pthread.h>

#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

namespace brdma::io {

// Not joinable: the system has no more threads.
template <class Body>
[[nodiscard]] std::thread start_thread(Body body) {
  sigset_t all, before;
  sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // a new thread inherits the mask
  std::thread thread;
  try {
    thread = std::thread{std::move(body)};
  } catch (const std::system_error&) {  // EAGAIN
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace brdma::io
