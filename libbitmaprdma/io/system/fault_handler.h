// io/system/fault_handler.h - the process's handler of SIGSEGV and SIGBUS: turns an access to memory that the program
// has removed into an error of a work request (memory/guard.h). Other faults go to the program's own handler, or to the
// default action.
//
// The program's handler is stored here instead of in the kernel: where our sigaction() stands in front of libc's
// (provider/preload), it gets and sets it by exchange_action(). Otherwise, or if a program calls the kernel itself,
// ours may be replaced; keep_fault_handler() notices and takes the newcomer for the program's. Any thread; everything
// but the first keep_fault_handler() may be called inside a signal handler, as sigaction() may.
#pragma once

#include <csignal>

namespace brdma::io {

// Installs ours: called when a context is opened and when memory is registered. Costs two system calls.
void keep_fault_handler();

// SIGSEGV or SIGBUS, and ours is in place.
[[nodiscard]] bool handles(int signal);
// Precondition: handles(signal). Returns the program's present action; `next` null: unchanged.
struct sigaction exchange_action(int signal, const struct sigaction* next);

// Sets the function that calls the kernel, where a hook of that name stands in front of it: before anything else here.
using SystemSigaction = int (*)(int, const struct sigaction*, struct sigaction*);
void use_sigaction(SystemSigaction function);

}  // namespace brdma::io
