// lab/processes/host_process.h - programs on a lab's host: enters the host's namespaces and runs them there with the
// RDMA devices visible.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "lab/processes/client.h"

namespace brdma::lab {

// Affects the calling process and its later children. It must be single-threaded. Throws LabError.
void enter_host(const HostNamespaces& host);

// Enters the network alone (and the right to enter it): /proc and process numbers stay the caller's.
void enter_host_network(const HostNamespaces& host);

// Enters the host and runs the program there, with the same standard streams, working directory and environment. Adds
// LD_PRELOAD, the lab's name (BITMAPRDMA_LAB), the setting that keeps the host's brdmad running, the lab's controller,
// the rate of the host's link, and as many paths as the network has, unless the environment sets another number.
// Forwards signals sent to this process. Returns the program's exit code; 128 + n if signal n ended it; 127, 126 as a
// shell when it cannot be run. The program is killed if this process is.
[[nodiscard]] int run_on_host(const HostNamespaces& host, const std::vector<std::string>& command);

// Runs `work` in a forked child on the host's network and returns the bytes that it wrote to its descriptor; "" on
// failure.
[[nodiscard]] std::string collect_on_host(const HostNamespaces& host, const std::function<void(int)>& work);

// The exit code that a shell would report for this wait status.
[[nodiscard]] int shell_exit_code(int wait_status);

}  // namespace brdma::lab
