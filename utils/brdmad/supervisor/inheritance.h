// brdmad/supervisor/inheritance.h - the holder's resources: created by the first holder, or found in the vault
// (vault.h) of one that was killed together with its worker.
#pragma once

#include <vector>

#include "base/result.h"
#include "bitmaprdma/context.h"
#include "connections/connection_table.h"
#include "io/system/file_descriptor.h"
#include "lease/shared_state.h"
#include "options.h"
#include "supervisor/handover.h"
#include "supervisor/vault.h"
#include "udp/socket_group.h"

namespace brdma::daemon {

struct Inheritance {
  io::FileDescriptor listener;  // at @brdmad
  SocketGroup group;
  io::FileDescriptor state_memory;
  SharedState* state = nullptr;  // mapped for the process's life
  io::FileDescriptor connections_memory;
  ConnectionTable* connections = nullptr;  // likewise
  Kept kept;
  std::vector<io::FileDescriptor> guard;  // socket_guard.h; empty: users need not be kept apart
  Vault vault;                            // not valid(): nothing survives this daemon
};

// The name that one daemon of a network namespace has, from its first step to the end of its last process; a process
// without it starts nothing. Separate from the listener, which may outlive the daemon. EADDRINUSE: another one has it.
[[nodiscard]] Result<io::FileDescriptor, ContextError> be_the_only_one();

// EADDRINUSE with an empty message: another brdmad is there, or its programs are starting one. Otherwise the message
// has the reason.
[[nodiscard]] Result<Inheritance, ContextError> make_inheritance(const Options& options);

// Takes over options, too. ESTALE: the previous daemon was stopped and left nothing; EPERM: another user's; EPROTO:
// another version's. `or_nobody`: drops a vault that cannot be adopted.
[[nodiscard]] Result<Inheritance, ContextError> adopt_inheritance(io::FileDescriptor vault_fd, Options& options,
                                                                  bool or_nobody);

}  // namespace brdma::daemon
