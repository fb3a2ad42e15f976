// brdmad/xdp/xdp_features.h - reads the XDP features of an interface's driver without trying them: attaching a program
// makes some network cards restart.
#pragma once

#include <cstdint>

namespace brdma::daemon {

struct XdpFeatures {
  bool known = false;      // the kernel reports them (Linux 6.3)
  bool zero_copy = false;  // AF_XDP sockets without copying
};
[[nodiscard]] XdpFeatures xdp_features(std::uint32_t ifindex);

// No device is behind the interface (veth, lo, a bridge): a local sender may then leave segmentation to a device that
// never comes.
[[nodiscard]] bool is_virtual(const char* interface_name);

}  // namespace brdma::daemon
