// collect/collect.h - reads this machine into Facts. Nothing is judged here. No file is left, at most an empty
// directory, and brdmad runs only because the probe opens a device. Nothing throws but std::bad_alloc.
#pragma once

#include <string>

#include "check/facts.h"

namespace brdma::check {

// Devices of ours by name and GID, those of the kernel, the reason why there are none.
void collect_devices(Facts& facts);
void collect_host(Host& host);
void collect_daemon(Daemon& daemon);
void collect_configuration(Configuration& configuration);
void collect_library(Library& library);
// The file that execvp(3) would run for `name`; of a script its interpreter's kind counts.
[[nodiscard]] Program collect_program(const std::string& name);

// By `brdma check-probe` (probe/probe.h), which runs as `brdma run` runs a program.
void collect_probe(Facts& facts);
void collect_peer(Facts& facts, const std::string& address, unsigned short port);

}  // namespace brdma::check
