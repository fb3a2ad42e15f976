// brdmad/options.h - results of the command line and the settings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/alarms.h"
#include "controller-session/key_file.h"

namespace brdma::daemon {

// The controller of a wide-area network (controller_link.h).
struct ControllerOptions {
  std::string address;  // empty: none
  session::Keys keys;   // one, this host's
};

struct Options {
  bool foreground = false;           // stay attached; log to standard error
  bool system = false;               // serve every user (root only), keeping them apart
  bool users_trust = false;          // with `system`: users are not kept apart (socket_guard.h)
  bool verbose = false;              // log each query too
  std::uint32_t user_leases = 1024;  // with `system`: leases of one user at a time (quotas.h)
  std::uint32_t idle_seconds = 10;   // seconds without lease and client after which it ends; 0 = never
  control::AlarmThresholds alarms;
  ControllerOptions controller;
  std::vector<std::uint32_t> xdp_transmit_users;  // may transmit by AF_XDP without a right of their own
  int vault_fd = -1;                              // adopt the vault of a dead daemon (vault.h); -1 = none
  int ready_fd = -1;  // the starter waits here for one line (io/daemon/daemon_start.h); -1 = nobody
};

}  // namespace brdma::daemon
