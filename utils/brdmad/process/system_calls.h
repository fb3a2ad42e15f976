// brdmad/process/system_calls.h - restricts holder and worker to the system calls that they make (seccomp(2)), so that
// an attacker who takes one over gets no further. Other calls are refused with EPERM, so that an overlooked one is an
// error. Calls that nobody makes by mistake (exec, access to other processes, mounting, loading kernel modules ...) end
// the process.
#pragma once

#include "bitmaprdma/context.h"

namespace brdma::daemon {

// Permanent, for this process and its children, once no privilege can be gained (shed_rights()). On failure the message
// has the reason (built without libseccomp, or with sanitizers; the system refuses).
[[nodiscard]] ContextError confine_system_calls();

}  // namespace brdma::daemon
