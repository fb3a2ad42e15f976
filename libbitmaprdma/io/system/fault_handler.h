// io/system/fault_handler.h - the process's handler of SIGSEGV and SIGBUS, by which an access to memory that the
// program has taken away is an error of a work request (memory/guard.h). What it is not about goes to the program's own
// handler, or does what would have happened without us.
//
// The program's handler is remembered here instead of in the kernel: where our sigaction() stands in front of libc's
// (provider/preload), it asks and sets it by exchange_action(). Where it does not, or a program calls the kernel
// itself, ours may be replaced; keep_fault_handler() notices and takes the newcomer for the program's. Any thread;
// everything but the first keep_fault_handler() may be called inside a signal handler, as sigaction() may.
#pragma once

#include <csignal>

namespace brdma::io {

// Ours is in place from now on: called when a context is opened and when memory is registered. Costs two system calls.
void keep_fault_handler();

// SIGSEGV or SIGBUS, and ours is in place.
[[nodiscard]] bool handles(int signal);
// Precondition: handles(signal). What the program wants done with it now; `next` null: unchanged.
struct sigaction exchange_action(int signal, const struct sigaction* next);

// The function that tells the kernel, where a hook of that name stands in front of it: before anything else here.
using SystemSigaction = int (*)(int, const struct sigaction*, struct sigaction*);
void use_sigaction(SystemSigaction function);

}  // namespace brdma::io
