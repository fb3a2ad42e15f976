#include "io/netdev.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/config.h"
#include "io/file_descriptor.h"
#include "io/open_socket.h"
#include "wire/headers.h"

namespace brdma::io {
namespace {

constexpr std::size_t kDeviceNameMax = 63;  // IBV_SYSFS_NAME_MAX less its NUL

struct Interface {
  std::string name;
  unsigned flags = 0;
  std::uint32_t index = 0;
  bool has_mac = false;
  std::uint8_t mac[6] = {};
  std::vector<IpAddress> addresses;
};

std::optional<IpAddress> usable_address(const sockaddr* address) {
  IpAddress result;
  if (address->sa_family == AF_INET) {
    std::array<std::uint8_t, 4> v4{};
    std::memcpy(v4.data(), &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
    return IpAddress::v4(v4[0], v4[1], v4[2], v4[3]);
  }
  if (address->sa_family == AF_INET6) {
    std::memcpy(result.bytes.data(), &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, 16);
    return result;
  }
  return std::nullopt;
}

// GID order: link-local, IPv4, other IPv6; within a kind as the kernel lists them.
int gid_rank(const IpAddress& address) {
  if (address.bytes[0] == 0xFE && (address.bytes[1] & 0xC0) == 0x80) return 0;
  return address.is_v4() ? 1 : 2;
}

std::vector<Interface> read_interfaces() {
  std::vector<Interface> result;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return result;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    // An address label ("eth0:1") belongs to its interface.
    const std::string name(entry->ifa_name, std::strcspn(entry->ifa_name, ":"));
    auto found = std::find_if(result.begin(), result.end(), [&](const Interface& i) { return i.name == name; });
    if (found == result.end()) {
      result.push_back({});
      found = result.end() - 1;
      found->name = name;
      found->flags = entry->ifa_flags;
      found->index = ::if_nametoindex(name.c_str());
    }
    if (entry->ifa_addr == nullptr) continue;
    if (entry->ifa_addr->sa_family == AF_PACKET) {
      const auto* link = reinterpret_cast<const sockaddr_ll*>(entry->ifa_addr);
      found->has_mac = link->sll_halen == 6 && link->sll_hatype == ARPHRD_ETHER;
      if (found->has_mac) std::memcpy(found->mac, link->sll_addr, 6);
    } else if (const auto address = usable_address(entry->ifa_addr)) {
      if (std::find(found->addresses.begin(), found->addresses.end(), *address) == found->addresses.end()) {
        found->addresses.push_back(*address);
      }
    }
  }
  ::freeifaddrs(list);
  std::sort(result.begin(), result.end(), [](const Interface& a, const Interface& b) { return a.index < b.index; });
  return result;
}

std::uint32_t read_mtu(int socket_fd, const std::string& name) {
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  return ::ioctl(socket_fd, SIOCGIFMTU, &request) == 0 ? static_cast<std::uint32_t>(request.ifr_mtu) : 1500;
}

// Mbit/s; 10,000 where the driver can't tell (veth of old kernels, tunnels, loopback).
std::uint64_t read_speed(int socket_fd, const std::string& name) {
  constexpr std::uint64_t kUnknown = 10'000;
  // The settings and as many words behind them as the kernel may want to write.
  alignas(ethtool_link_settings) std::array<std::byte, sizeof(ethtool_link_settings) + 3 * 127 * 4> buffer{};
  auto* link = reinterpret_cast<ethtool_link_settings*>(buffer.data());
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(link);
  // The first call answers, as a negative number, how many words each mask has; the second fills them in.
  for (int round = 0; round < 2; ++round) {
    link->cmd = ETHTOOL_GLINKSETTINGS;
    link->link_mode_masks_nwords = static_cast<std::int8_t>(-link->link_mode_masks_nwords);
    if (link->link_mode_masks_nwords < 0 || ::ioctl(socket_fd, SIOCETHTOOL, &request) != 0) return kUnknown;
  }
  const std::uint32_t speed = link->speed;
  return speed == 0 || speed == static_cast<std::uint32_t>(SPEED_UNKNOWN) ? kUnknown : speed;
}

std::uint64_t mix(std::uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

// For an interface without a MAC: the same at each call on this machine and in this network namespace, and marked as
// locally assigned (universal bit clear, as a modified EUI-64 has it).
std::uint64_t made_up_guid(const std::string& name) {
  std::uint64_t hash = mix(0xCBF29CE484222325u, name);
  std::array<char, 32> machine{};
  if (const FileDescriptor file{::open("/etc/machine-id", O_RDONLY | O_CLOEXEC)}; file.valid()) {
    const ssize_t got = ::read(file.get(), machine.data(), machine.size());
    if (got > 0) hash = mix(hash, {machine.data(), static_cast<std::size_t>(got)});
  }
  struct stat space {};
  if (::stat("/proc/self/ns/net", &space) == 0) hash = mix(hash, std::to_string(space.st_ino));
  return (hash & ~(std::uint64_t{3} << 56)) | 1;
}

IpAddress link_local_from(std::uint64_t eui64) {
  IpAddress address;
  address.bytes[0] = 0xFE;
  address.bytes[1] = 0x80;
  for (std::size_t i = 0; i < 8; ++i) address.bytes[8 + i] = static_cast<std::uint8_t>(eui64 >> (56 - 8 * i));
  return address;
}

DeviceInfo make_device(const Interface& interface, int socket_fd) {
  DeviceInfo device;
  device.name = (kDevicePrefix + interface.name).substr(0, kDeviceNameMax);
  device.netdev = interface.name;
  device.ifindex = interface.index;
  device.guid = interface.has_mac && (interface.flags & IFF_LOOPBACK) == 0 ? guid_from_mac(interface.mac)
                                                                           : made_up_guid(interface.name);
  device.netdev_mtu = read_mtu(socket_fd, interface.name);
  device.active_mtu = path_mtu_for(device.netdev_mtu);
  device.active = (interface.flags & IFF_RUNNING) != 0;
  device.speed_mbps = read_speed(socket_fd, interface.name);
  for (const IpAddress& address : interface.addresses) device.gids.push_back({address, interface.name});
  // Index 0 is the link-local form of the MAC even while the interface does not have that address (IPv6 off, or the
  // kernel still asking for duplicates), as with Soft-RoCE: indices must not depend on the moment.
  const bool has_link_local = std::any_of(device.gids.begin(), device.gids.end(),
                                          [](const DeviceInfo::Gid& gid) { return gid_rank(gid.address) == 0; });
  if (interface.has_mac && !has_link_local && !device.gids.empty()) {
    device.gids.push_back({link_local_from(eui64_from_mac(interface.mac)), interface.name});
  }
  std::stable_sort(device.gids.begin(), device.gids.end(), [](const DeviceInfo::Gid& a, const DeviceInfo::Gid& b) {
    return gid_rank(a.address) < gid_rank(b.address);
  });
  return device;
}

// Interfaces that share a MAC (VLANs, bridges) would share a GUID: the later ones take their index into its middle.
void make_guids_unique(std::vector<DeviceInfo>& devices) {
  for (std::size_t i = 1; i < devices.size(); ++i) {
    const auto taken = [&] {
      return std::any_of(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(i),
                         [&](const DeviceInfo& other) { return other.guid == devices[i].guid; });
    };
    for (std::uint64_t salt = devices[i].ifindex; taken(); ++salt) {
      devices[i].guid = (devices[i].guid & ~(std::uint64_t{0xFFFF} << 24)) | (salt & 0xFFFF) << 24;
    }
  }
}

bool is_up(const Interface& interface) { return (interface.flags & IFF_UP) != 0; }
bool is_loopback(const Interface& interface) { return (interface.flags & IFF_LOOPBACK) != 0; }

}  // namespace

PathMtu path_mtu_for(std::uint32_t netdev_mtu) {
  PathMtu best = PathMtu::k256;
  for (const PathMtu mtu : {PathMtu::k512, PathMtu::k1024, PathMtu::k2048, PathMtu::k4096}) {
    if (mtu_bytes(mtu) + wire::kOverheadMax <= netdev_mtu) best = mtu;
  }
  return best;
}

std::uint64_t eui64_from_mac(const std::uint8_t (&mac)[6]) {
  std::uint64_t eui64 = 0;
  for (const std::uint8_t byte : {static_cast<std::uint8_t>(mac[0] ^ 2), mac[1], mac[2], std::uint8_t{0xFF},
                                  std::uint8_t{0xFE}, mac[3], mac[4], mac[5]}) {
    eui64 = eui64 << 8 | byte;
  }
  return eui64;
}

std::uint64_t guid_from_mac(const std::uint8_t (&mac)[6]) {
  return eui64_from_mac(mac) ^ (std::uint64_t{0xFE ^ 0xFD} << 24);
}

std::string no_device_reason() {
  bool any_up = false, loopback_up = false;
  for (const Interface& interface : read_interfaces()) {
    if (is_loopback(interface))
      loopback_up = is_up(interface);
    else if (is_up(interface))
      any_up = true;
  }
  if (any_up) return "the network interfaces that are up have no IP address: give one with 'ip address add'";
  if (loopback_up)
    return "no network interface but lo is up, and lo has no IP address: 'ip address add 127.0.0.1/8 dev lo'";
  return "no network interface is up in this network namespace: 'ip link set lo up' gives brdma_lo";
}

}  // namespace brdma::io

namespace brdma {

// An interface without an address can't be reached by RoCEv2, so it makes no device.
std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> devices, loopback;
  const io::FileDescriptor socket_fd{io::open_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  for (const io::Interface& interface : io::read_interfaces()) {
    if (!io::is_up(interface) || interface.addresses.empty()) continue;
    auto& list = io::is_loopback(interface) ? loopback : devices;
    list.push_back(io::make_device(interface, socket_fd.get()));
  }
  if (devices.empty() || control::load_settings().settings.loopback_device) {
    devices.insert(devices.end(), loopback.begin(), loopback.end());
  }
  io::make_guids_unique(devices);
  return devices;
}

}  // namespace brdma
