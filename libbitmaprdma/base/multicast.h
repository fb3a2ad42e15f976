// base/multicast.h - which addresses stand for a group of hosts: 224.0.0.0/4, ff00::/8.
#pragma once

#include "base/ip_address.h"

namespace brdma {

[[nodiscard]] constexpr bool is_multicast(const IpAddress& address) {
  return address.is_v4() ? (address.bytes[12] & 0xF0) == 0xE0 : address.bytes[0] == 0xFF;
}

}  // namespace brdma
