// brdmad/process/shed.h - resets attributes that a process inherits from its starter: the first program must not decide
// how the daemon of all others runs. Signals, descriptors, working directory, scheduling, limits, memory policy, and
// rights; each as far as the user may: a process at nice 19 without privilege stays there. Not reset: the cgroup and
// the namespaces. A daemon is accounted to its starter's cgroup and ends with it; the programs continue (vault.h).
#pragma once

#include <span>

namespace brdma::daemon {

// Closes every descriptor from 3 on except those of `keep` (-1: none), which exec() would close from now on.
void shed_descriptors(std::span<const int> keep);
void shed_signals();
void shed_scheduling();  // class, nice value, processors, I/O class, timer slack, out-of-memory score
void shed_limits();      // to the hard limit; memory policy, personality, umask, working directory
// Permanent, for this process and its children: drops all capabilities but the few that a daemon of root needs once it
// has its sockets. No exec gains any (PR_SET_NO_NEW_PRIVS).
void shed_rights();

}  // namespace brdma::daemon
