// brdmad/options.h - what the command line and the settings decided.
#pragma once

#include <cstdint>

#include "control/alarms.h"

namespace brdma::daemon {

struct Options {
  bool foreground = false;          // stay attached; log to standard error
  bool system = false;              // serve every user (root only), keeping them apart
  bool verbose = false;             // log each query too
  std::uint32_t idle_seconds = 10;  // end after so long without lease and client; 0 = never
  control::AlarmThresholds alarms;
  int ready_fd = -1;  // who started us waits here for one line (io/daemon_start.h); -1 = nobody
};

}  // namespace brdma::daemon
