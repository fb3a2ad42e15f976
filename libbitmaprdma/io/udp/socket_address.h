// io/udp/socket_address.h - IpAddress and the kernel's socket addresses. An IPv4 address is ::ffff:a.b.c.d in an
// IpAddress and in the addresses of a dual-stack AF_INET6 socket alike: no translation is needed there.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <cstring>

#include "base/ip_address.h"

namespace brdma::io {

inline constexpr std::size_t kMappedV4Offset = 12;  // offset of a.b.c.d in ::ffff:a.b.c.d

[[nodiscard]] inline IpAddress from_in_addr(const in_addr& address) {
  IpAddress out = IpAddress::v4(0, 0, 0, 0);
  std::memcpy(out.bytes.data() + kMappedV4Offset, &address, sizeof(address));
  return out;
}
[[nodiscard]] inline IpAddress from_in6_addr(const in6_addr& address) {
  IpAddress out;
  std::memcpy(out.bytes.data(), &address, sizeof(address));
  return out;
}
// Precondition: address.is_v4().
[[nodiscard]] inline in_addr to_in_addr(const IpAddress& address) {
  in_addr out{};
  std::memcpy(&out, address.bytes.data() + kMappedV4Offset, sizeof(out));
  return out;
}
[[nodiscard]] inline in6_addr to_in6_addr(const IpAddress& address) {
  in6_addr out{};
  std::memcpy(&out, address.bytes.data(), sizeof(out));
  return out;
}
// fe80::/10: means nothing without an interface.
[[nodiscard]] inline bool is_link_local(const IpAddress& address) {
  return address.bytes[0] == 0xFE && (address.bytes[1] & 0xC0) == 0x80;
}

}  // namespace brdma::io
