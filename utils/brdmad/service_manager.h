// brdmad/service_manager.h - systemd keeps the vault (vault.h) of a daemon that is its service, and gives it to the
// next one when this one was killed or is started again: sd_notify(3), FDSTORE=1; sd_listen_fds(3). For `brdmad
// --system`, whose programs are of several users and must not have the vault themselves.
#pragma once

namespace brdma::daemon {

// What was kept for this process; -1: nothing. Before descriptors are shed.
[[nodiscard]] int stored_vault();

// In place of what was stored before. Does nothing where no service manager asks for it.
void store_vault(int vault_fd);

}  // namespace brdma::daemon
