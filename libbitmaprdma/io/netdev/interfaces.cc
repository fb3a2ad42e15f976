#include "io/netdev/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include "io/system/file_descriptor.h"
#include "io/udp/open_socket.h"
#include "io/udp/socket_address.h"

namespace brdma::io {
namespace {

std::optional<IpAddress> ip_address(const sockaddr* address) {
  if (address->sa_family == AF_INET) return from_in_addr(reinterpret_cast<const sockaddr_in*>(address)->sin_addr);
  if (address->sa_family == AF_INET6) return from_in6_addr(reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  return std::nullopt;
}

// An address label ("eth0:1") belongs to its interface.
std::string without_label(const char* name) { return {name, std::strcspn(name, ":")}; }

int rank(const IpAddress& address) { return address.is_v4() ? 0 : is_link_local(address) ? 2 : 1; }

void put_in_order(std::vector<Interface>& interfaces) {
  std::erase_if(interfaces, [](const Interface& interface) { return interface.index == 0; });  // removed meanwhile
  std::ranges::sort(interfaces, {}, &Interface::index);
  for (Interface& interface : interfaces) std::ranges::stable_sort(interface.addresses, {}, rank);
}

FileDescriptor any_socket() {
  FileDescriptor fd{open_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  if (!fd.valid()) fd.reset(open_socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return fd;
}

void ask_mtu(int fd, Interface& interface) {
  ifreq request{};
  interface.name.copy(request.ifr_name, IFNAMSIZ - 1);
  if (::ioctl(fd, SIOCGIFMTU, &request) == 0) interface.mtu = static_cast<std::uint32_t>(request.ifr_mtu);
}

void add_address(Interface& interface, const IpAddress& address) {
  if (std::ranges::find(interface.addresses, address) == interface.addresses.end())
    interface.addresses.push_back(address);
}

int read_by_netlink(std::vector<Interface>& out) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return errno;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const std::string name = without_label(entry->ifa_name);
    auto found = std::ranges::find(out, name, &Interface::name);
    if (found == out.end()) {
      found = out.insert(out.end(), Interface{.name = name, .flags = entry->ifa_flags});
      found->index = ::if_nametoindex(name.c_str());
    }
    if (entry->ifa_addr == nullptr) continue;
    if (entry->ifa_addr->sa_family == AF_PACKET) {
      const auto* link = reinterpret_cast<const sockaddr_ll*>(entry->ifa_addr);
      found->has_mac = link->sll_halen == 6 && link->sll_hatype == ARPHRD_ETHER;
      if (found->has_mac) std::memcpy(found->mac.data(), link->sll_addr, found->mac.size());
    } else if (const auto address = ip_address(entry->ifa_addr)) {
      add_address(*found, *address);
    }
  }
  ::freeifaddrs(list);
  // The kernel lists IPv6 addresses newest first.
  const FileDescriptor fd = any_socket();
  for (Interface& interface : out) {
    ask_mtu(fd.get(), interface);
    const auto first = std::ranges::find_if_not(interface.addresses, &IpAddress::is_v4);
    std::reverse(first, interface.addresses.end());
  }
  put_in_order(out);
  return 0;
}

Interface& named(std::vector<Interface>& interfaces, const std::string& name) {
  const auto found = std::ranges::find(interfaces, name, &Interface::name);
  if (found != interfaces.end()) return *found;
  interfaces.push_back({.name = name});
  return interfaces.back();
}

void add_ipv4_addresses(int fd, std::vector<Interface>& out) {
  constexpr std::size_t kSpare = 16;  // for interfaces added between the two calls
  ifconf list{};
  if (::ioctl(fd, SIOCGIFCONF, &list) != 0) return;
  std::vector<ifreq> entries(static_cast<std::size_t>(list.ifc_len) / sizeof(ifreq) + kSpare);
  list.ifc_req = entries.data();
  list.ifc_len = static_cast<int>(entries.size() * sizeof(ifreq));
  if (::ioctl(fd, SIOCGIFCONF, &list) != 0) return;
  entries.resize(static_cast<std::size_t>(list.ifc_len) / sizeof(ifreq));
  for (ifreq& entry : entries) {
    entry.ifr_name[IFNAMSIZ - 1] = '\0';
    if (const auto address = ip_address(&entry.ifr_addr))
      add_address(named(out, without_label(entry.ifr_name)), *address);
  }
}

// Lines such as "fe8000000000000000163efffe8a1f2b 02 40 20 80 eth0": address, then hexadecimal numbers, then the name.
void add_ipv6_addresses(std::vector<Interface>& out) {
  std::ifstream file("/proc/self/net/if_inet6");
  std::vector<std::pair<std::string, std::string>> lines;  // the kernel's order is arbitrary: use a stable one
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string digits, skipped, name;
    words >> digits >> skipped >> skipped >> skipped >> skipped >> name;
    if (digits.size() == 32 && !name.empty()) lines.emplace_back(digits, name);
  }
  std::ranges::sort(lines);
  for (const auto& [digits, name] : lines) {
    IpAddress address;
    bool good = true;
    for (std::size_t i = 0; i < address.bytes.size(); ++i) {
      const char* const at = digits.data() + 2 * i;
      good = good && std::from_chars(at, at + 2, address.bytes[i], 16).ptr == at + 2;
    }
    if (good) add_address(named(out, name), address);
  }
}

// Two lines of heading, then "  eth0: numbers".
void add_names(std::vector<Interface>& out) {
  std::ifstream file("/proc/self/net/dev");
  for (std::string line; std::getline(file, line);) {
    const std::size_t begin = line.find_first_not_of(' '), end = line.find(':');
    if (begin != std::string::npos && end != std::string::npos && begin < end)
      (void)named(out, line.substr(begin, end - begin));
  }
}

void ask_for_the_rest(int fd, Interface& interface) {
  ifreq request{};
  interface.name.copy(request.ifr_name, IFNAMSIZ - 1);
  if (::ioctl(fd, SIOCGIFINDEX, &request) == 0) interface.index = static_cast<std::uint32_t>(request.ifr_ifindex);
  if (::ioctl(fd, SIOCGIFFLAGS, &request) == 0) interface.flags = static_cast<unsigned short>(request.ifr_flags);
  if (::ioctl(fd, SIOCGIFHWADDR, &request) != 0 || request.ifr_hwaddr.sa_family != ARPHRD_ETHER) return;
  interface.has_mac = true;
  std::memcpy(interface.mac.data(), request.ifr_hwaddr.sa_data, interface.mac.size());
}

}  // namespace

int read_interfaces_without_netlink(std::vector<Interface>& out) {
  const FileDescriptor fd = any_socket();
  if (!fd.valid()) return errno;
  add_ipv4_addresses(fd.get(), out);
  add_ipv6_addresses(out);
  add_names(out);
  for (Interface& interface : out) {
    ask_for_the_rest(fd.get(), interface);
    ask_mtu(fd.get(), interface);
  }
  put_in_order(out);
  return 0;
}

int read_interfaces(std::vector<Interface>& out) {
  out.clear();
  if (read_by_netlink(out) == 0) return 0;
  out.clear();
  return read_interfaces_without_netlink(out);
}

}  // namespace brdma::io
