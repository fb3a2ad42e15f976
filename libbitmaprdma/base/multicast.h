// base/multicast.h - multicast addresses (224.0.0.0/4, ff00::/8), and limits of groups and members.
#pragma once

#include <cstddef>

#include "base/ip_address.h"

namespace brdma {

[[nodiscard]] constexpr bool is_multicast(const IpAddress& address) {
  return address.is_v4() ? (address.bytes[12] & 0xF0) == 0xE0 : address.bytes[0] == 0xFF;
}

// Of a device that a program has opened; beyond them Engine::attach_multicast returns ENOMEM. Each group is a socket of
// the process.
inline constexpr std::size_t kMulticastGroupsMax = 256, kMulticastGroupMembersMax = 1024, kMulticastMembersMax = 4096;

}  // namespace brdma
