// io/netdev/netdev.h - network interfaces as RDMA devices; beside list_devices() of bitmaprdma/context.h.
// A device is identified by its interface's index: name and GUID stay as this process first saw them, and GIDs keep
// their indices (io/netdev/gid_tables.h). Reads netlink and socket ioctls only, never /sys: the process may see a /sys
// of our own making.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "bitmaprdma/context.h"

namespace brdma::io {

// Prefix of our devices' names, and of no other's.
inline constexpr char kDevicePrefix[] = "brdma_";

// Reason and remedy for an empty list_devices(), as one sentence; for the command line and the provider's messages.
[[nodiscard]] std::string no_device_reason();

// Forgets the devices seen so far: names, GUIDs and GID indices start again.
void forget_devices();

// Largest path MTU whose packets, with all headers, fit an interface of `netdev_mtu` bytes.
[[nodiscard]] PathMtu path_mtu_for(std::uint32_t netdev_mtu);

// EUI-64 of a 48-bit MAC, host order (RFC 4291 appendix A: universal/local bit inverted, FFFE in the middle).
[[nodiscard]] std::uint64_t eui64_from_mac(const std::array<std::uint8_t, 6>& mac);

// The same with FFFD in the middle, for ours: Soft-RoCE uses the EUI-64 on the same interface, and librdmacm identifies
// devices by it.
[[nodiscard]] std::uint64_t guid_from_mac(const std::array<std::uint8_t, 6>& mac);

}  // namespace brdma::io
