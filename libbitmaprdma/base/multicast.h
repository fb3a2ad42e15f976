// base/multicast.h - which addresses stand for a group of hosts (224.0.0.0/4, ff00::/8), and how many queue pairs may
// be members of how many.
#pragma once

#include <cstddef>

#include "base/ip_address.h"

namespace brdma {

[[nodiscard]] constexpr bool is_multicast(const IpAddress& address) {
  return address.is_v4() ? (address.bytes[12] & 0xF0) == 0xE0 : address.bytes[0] == 0xFF;
}

// Of a device that a program has opened; Engine::attach_multicast answers ENOMEM beyond. Each group is a socket of the
// process.
inline constexpr std::size_t kMulticastGroupsMax = 256, kMulticastGroupMembersMax = 1024, kMulticastMembersMax = 4096;

}  // namespace brdma
