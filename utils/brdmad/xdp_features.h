// brdmad/xdp_features.h - what an interface's driver does for XDP, without trying it: attaching a program makes some
// network cards start anew.
#pragma once

#include <cstdint>

namespace brdma::daemon {

struct XdpFeatures {
  bool known = false;      // the kernel tells (Linux 6.3)
  bool zero_copy = false;  // AF_XDP sockets without copying
};
[[nodiscard]] XdpFeatures xdp_features(std::uint32_t ifindex);

// Whether no device is behind the interface (veth, lo, a bridge): who sends on this machine then may leave the
// splitting of his batches to a device that never comes.
[[nodiscard]] bool is_virtual(const char* interface_name);

}  // namespace brdma::daemon
