// brdmad/port_owner.h - who has a UDP port, and what to do about it.
#pragma once

#include <cstdint>
#include <string>

namespace brdma::daemon {

// Continues "UDP port N is taken ": "by ib_server (pid 77): end it, or ...". From /proc, so as far as we may see.
[[nodiscard]] std::string describe_port_owner(std::uint16_t port);

}  // namespace brdma::daemon
