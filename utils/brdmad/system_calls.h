// brdmad/system_calls.h - leaves holder and worker only the system calls that they make (seccomp(2)): whoever takes one
// over by what it reads gets no further than that. Others are refused with EPERM, so that one that was overlooked is an
// error; what nobody calls by mistake (executing something, looking into other processes, mounting, loading kernel
// modules ...) ends the process.
#pragma once

#include "bitmaprdma/context.h"

namespace brdma::daemon {

// For good, of this process and those that it forks, once no privilege can be gained (shed_rights()). Not done: the
// message says why (built without libseccomp, or with sanitizers; the system does not let us).
[[nodiscard]] ContextError confine_system_calls();

}  // namespace brdma::daemon
