// brdmad/supervisor/service_manager.h - systemd keeps the vault (vault.h) of a daemon that is its service, and passes
// it to the next one when this one was killed or is restarted: sd_notify(3), FDSTORE=1; sd_listen_fds(3). For `brdmad
// --system`: its programs belong to several users and must not have the vault.
#pragma once

namespace brdma::daemon {

// The vault stored for this process; -1: none. Call before descriptors are shed.
[[nodiscard]] int stored_vault();

// Replaces the stored vault. Does nothing without a service manager.
void store_vault(int vault_fd);

// READY=1: programs that connect are served from now on (Type=notify). Does nothing without a service manager.
void report_ready();

}  // namespace brdma::daemon
