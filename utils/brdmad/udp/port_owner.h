// brdmad/udp/port_owner.h - finds the process that has a UDP port, and suggests a remedy.
#pragma once

#include <cstdint>
#include <string>

namespace brdma::daemon {

// Continues "UDP port N is taken ": "by ib_server (pid 77): end it, or ...". From /proc, as far as it is readable.
[[nodiscard]] std::string describe_port_owner(std::uint16_t port);

}  // namespace brdma::daemon
