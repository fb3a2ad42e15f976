// brdmad/udp/socket_guard.h - restricts a lessee's use of its socket where users do not trust each other (--system).
// The socket is a member of a group in which the kernel steers packets, and
//   - connected to another lessee's peer, it would get that lessee's packets: the kernel prefers connected sockets;
//   - any member can remove the steering of all (SO_DETACH_REUSEPORT_BPF; SO_LOCK_FILTER prevents a replacement).
// BPF programs at the root of the cgroup tree (version 2) refuse both with EPERM, for sockets of UDP port 4791 in this
// network namespace, in any process. They hold as long as somebody has their descriptors.
#pragma once

#include <vector>

#include "base/result.h"
#include "bitmaprdma/context.h"
#include "io/system/file_descriptor.h"

namespace brdma::daemon {

// Needs the machine's root (CAP_BPF, CAP_NET_ADMIN; CAP_SYS_ADMIN where the tree is mounted nowhere) and Linux 5.14.
// The message names what is missing.
[[nodiscard]] Result<std::vector<io::FileDescriptor>, ContextError> guard_sockets();

}  // namespace brdma::daemon
