// lab/host_process.h - programs on a lab's host: enters the host's namespaces and runs them there with the RDMA devices
// in sight.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "lab/client.h"

namespace brdma::lab {

// For the calling process and what it forks from now on. It must be single-threaded. Throws LabError.
void enter_host(const HostNamespaces& host);

// The network alone (and the right to enter it): /proc and process numbers stay the caller's.
void enter_host_network(const HostNamespaces& host);

// Enters the host and runs the program there: same standard streams, working directory and environment (with
// LD_PRELOAD, what keeps the host's brdmad from leaving, the lab's controller, the rate of the host's link, and as many
// paths to send on as the network has, unless it says another). Signals sent to this process are passed on. Returns its
// exit code; 128 + n if signal n ended it; 127, 126 as a shell when it can't be run. The program is killed should this
// process be.
[[nodiscard]] int run_on_host(const HostNamespaces& host, const std::vector<std::string>& command);

// Runs `work` in a forked child on the host's network and returns what it wrote to the descriptor that it is given; ""
// on failure.
[[nodiscard]] std::string collect_on_host(const HostNamespaces& host, const std::function<void(int)>& work);

// The exit code that a shell would report for this wait status.
[[nodiscard]] int shell_exit_code(int wait_status);

}  // namespace brdma::lab
