// io/netdev/interfaces.h - the network interfaces of this network namespace and their IP addresses, as the kernel lists
// them.
//
// By netlink. Where a sandbox forbids that (seccomp filters such as systemd's RestrictAddressFamilies=, SELinux), by
// ioctls of an ordinary socket for names and IPv4 addresses, and by /proc/net: if_inet6 for IPv6, dev for interfaces
// without an IPv4 address. Never by /sys: the process may see a /sys of our own making.
#pragma once

#include <net/if.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ip_address.h"

namespace brdma::io {

struct Interface {
  std::string name;
  unsigned flags = 0;  // IFF_...
  std::uint32_t index = 0;
  std::uint32_t mtu = 1500;
  bool has_mac = false;
  std::array<std::uint8_t, 6> mac{};
  // IPv4 in the kernel's order, then global IPv6 addresses, then link-local ones; older ones first where known.
  std::vector<IpAddress> addresses{};
  [[nodiscard]] bool is_up() const { return (flags & IFF_UP) != 0; }
  [[nodiscard]] bool is_loopback() const { return (flags & IFF_LOOPBACK) != 0; }
  friend bool operator==(const Interface&, const Interface&) = default;
};

// By index. 0, or the errno value of the socket that could not be opened: then `out` is empty.
[[nodiscard]] int read_interfaces(std::vector<Interface>& out);

// The fallback of read_interfaces() by itself.
[[nodiscard]] int read_interfaces_without_netlink(std::vector<Interface>& out);

}  // namespace brdma::io
