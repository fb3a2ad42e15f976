// brdmad/shed.h - puts away what a process inherits from whoever started it: a program that went first must not decide
// how the daemon of all others runs. Signals, descriptors, working folder, scheduling, limits, memory policy;
// and rights.
// Each as far as the user may: who started at nice 19 without privilege stays there.
// Not put away: the cgroup and the namespaces. A daemon is accounted to who started it and ends with it; the programs
// go on (vault.h).
#pragma once

#include <span>

namespace brdma::daemon {

// Closes every descriptor from 3 on but those of `keep` (-1: none), which an exec() would close from now on.
void shed_descriptors(std::span<const int> keep);
void shed_signals();
void shed_scheduling();  // class, nice value, processors, I/O class, timer slack, out-of-memory score
void shed_limits();      // to what is the hard limit; memory policy, personality, umask, working folder
// For good, of this process and those that it forks: capabilities but the few that a daemon of root needs, once it has
// its sockets; and it gains none by executing anything (PR_SET_NO_NEW_PRIVS).
void shed_rights();

}  // namespace brdma::daemon
