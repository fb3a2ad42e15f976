// memory/guarded.S - see guard.h. Between brdma_guarded_begin and brdma_guarded_end lie functions that call nothing and
// leave the stack pointer where it was on entry: where one of their instructions faults, going on at
// brdma_guarded_failed is the function's returning false. All of them return true in the register for results.

#if defined(__x86_64__) && defined(__linux__)
#include "guarded_x86_64.S"
#elif defined(__aarch64__) && defined(__linux__)
#include "guarded_aarch64.S"
#endif

#if defined(__linux__) && defined(__ELF__)
  .section .note.GNU-stack, "", %progbits
#endif
