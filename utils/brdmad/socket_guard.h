// brdmad/socket_guard.h - what a lessee may not do with its socket, where users do not trust each other (--system): it
// is one of a group that the kernel steers packets in, and
//   - once connected to another lessee's peer it would get that one's packets, as the kernel prefers connected sockets;
//   - whoever has one of the group may take away the steering of all (SO_DETACH_REUSEPORT_BPF; SO_LOCK_FILTER keeps
//     them from replacing it).
// BPF programs at the root of the cgroup tree (version 2) refuse both with EPERM, for sockets of UDP port 4791 in this
// network namespace, whoever has them and wherever he runs. They hold as long as somebody has their descriptors.
#pragma once

#include <vector>

#include "base/result.h"
#include "bitmaprdma/context.h"
#include "io/system/file_descriptor.h"

namespace brdma::daemon {

// Needs the machine's root (CAP_BPF, CAP_NET_ADMIN; CAP_SYS_ADMIN where the tree is mounted nowhere) and Linux 5.14.
// The message says what is missing.
[[nodiscard]] Result<std::vector<io::FileDescriptor>, ContextError> guard_sockets();

}  // namespace brdma::daemon
