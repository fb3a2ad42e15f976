#include "io/netdev/netdev.h"

#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "control/config.h"
#include "io/daemon/refusal.h"
#include "io/netdev/gid_tables.h"
#include "io/system/file_descriptor.h"
#include "io/udp/open_socket.h"
#include "wire/headers.h"

namespace brdma::io {
namespace {

constexpr std::size_t kDeviceNameMax = 63;  // IBV_SYSFS_NAME_MAX less its NUL

// Mbit/s; 10,000 where the driver reports none (veth of old kernels, tunnels, loopback).
std::uint64_t read_speed(int socket_fd, const std::string& name) {
  constexpr std::uint64_t kUnknown = 10'000;
  // The settings, with room for the words that the kernel may write behind them.
  alignas(ethtool_link_settings) std::array<std::byte, sizeof(ethtool_link_settings) + 3 * 127 * 4> buffer{};
  auto* link = reinterpret_cast<ethtool_link_settings*>(buffer.data());
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(link);
  // The first call returns, as a negative number, the number of words of each mask; the second fills them in.
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

// For an interface without a MAC: the same at each call on this machine and in this network namespace, marked as
// locally assigned (universal bit clear, as in a modified EUI-64).
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

// An interface as this process first saw it as a device: kept when it is renamed, or gets another MAC.
struct Seen {
  std::string name;
  std::uint64_t guid = 0;
};

struct Memory {
  std::mutex lock;
  std::uint64_t network = 0;              // the namespace whose interfaces these are
  std::map<std::uint32_t, Seen> devices;  // by interface index
  GidTables gids;
  std::vector<DeviceInfo> listed;  // the last time
};

void forget(Memory& memory) {
  memory.gids.clear();
  memory.devices.clear();
  memory.listed.clear();
}

// Never destroyed: programs call verbs from their own exit handlers.
Memory& memory() {
  static auto* const instance = new Memory;
  return *instance;
}

// A number for this thread's network namespace, which a program may leave for another one.
std::uint64_t network_namespace(int socket_fd) {
  constexpr int kNamespaceCookie = 71;  // SO_NETNS_COOKIE, since Linux 5.14
  std::uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  if (::getsockopt(socket_fd, SOL_SOCKET, kNamespaceCookie, &cookie, &size) == 0) return cookie;
  struct stat space {};
  return ::stat("/proc/thread-self/ns/net", &space) == 0 ? space.st_ino : 0;
}

DeviceInfo make_device(const Interface& interface, const GidTable& gids, int socket_fd) {
  DeviceInfo device;
  device.name = (kDevicePrefix + interface.name).substr(0, kDeviceNameMax);
  device.netdev = interface.name;
  device.ifindex = interface.index;
  device.guid = interface.has_mac ? guid_from_mac(interface.mac) : made_up_guid(interface.name);
  device.netdev_mtu = interface.mtu;
  device.active_mtu = path_mtu_for(device.netdev_mtu);
  device.active = (interface.flags & IFF_RUNNING) != 0;
  device.speed_mbps = read_speed(socket_fd, interface.name);
  for (const IpAddress& address : gids.slots()) {
    device.gids.push_back({address, address.is_zero() ? std::string{} : interface.name});
  }
  return device;
}

// Loopback is the last one; where another interface is up, it is a device only if that is configured.
std::vector<DeviceInfo> make_devices(const std::vector<Interface>& interfaces, const Memory& memory, int socket_fd) {
  std::vector<DeviceInfo> devices, loopback;
  bool any_up = false;
  for (const Interface& interface : interfaces) {
    const auto gids = memory.gids.find(interface.index);
    if (gids == memory.gids.end()) continue;
    // If lo is down, it adds no information.
    if (interface.is_loopback() && !interface.is_up() && !memory.devices.contains(interface.index)) continue;
    auto& list = interface.is_loopback() ? loopback : devices;
    list.push_back(make_device(interface, gids->second, socket_fd));
    any_up = any_up || (interface.is_up() && !interface.is_loopback());
  }
  if (!any_up || control::load_settings().settings.loopback_device) {
    devices.insert(devices.end(), loopback.begin(), loopback.end());
  }
  return devices;
}

// Applies the names and GUIDs that this process knows; a new device must not have another's.
void use_known_names(std::vector<DeviceInfo>& devices, std::map<std::uint32_t, Seen>& known) {
  for (DeviceInfo& device : devices) {
    const auto seen = known.find(device.ifindex);
    if (seen != known.end()) {
      device.name = seen->second.name;
      device.guid = seen->second.guid;
    }
  }
  for (DeviceInfo& device : devices) {
    const bool taken = std::ranges::any_of(devices, [&](const DeviceInfo& other) {
      return other.ifindex != device.ifindex && other.name == device.name && known.contains(other.ifindex);
    });
    if (!known.contains(device.ifindex) && taken) device.name += "_" + std::to_string(device.ifindex);
  }
}

// Interfaces that share a MAC (VLANs, bridges) would share a GUID: the later ones put their index into its middle.
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

}  // namespace

PathMtu path_mtu_for(std::uint32_t netdev_mtu) {
  PathMtu best = PathMtu::k256;
  for (const PathMtu mtu : {PathMtu::k512, PathMtu::k1024, PathMtu::k2048, PathMtu::k4096}) {
    if (mtu_bytes(mtu) + wire::kOverheadMax <= netdev_mtu) best = mtu;
  }
  return best;
}

std::uint64_t eui64_from_mac(const std::array<std::uint8_t, 6>& mac) {
  std::uint64_t eui64 = 0;
  for (const std::uint8_t byte : {static_cast<std::uint8_t>(mac[0] ^ 2), mac[1], mac[2], std::uint8_t{0xFF},
                                  std::uint8_t{0xFE}, mac[3], mac[4], mac[5]}) {
    eui64 = eui64 << 8 | byte;
  }
  return eui64;
}

std::uint64_t guid_from_mac(const std::array<std::uint8_t, 6>& mac) {
  return eui64_from_mac(mac) ^ (std::uint64_t{0xFE ^ 0xFD} << 24);
}

void forget_devices() {
  const std::lock_guard guard(memory().lock);
  forget(memory());
}

std::string no_device_reason() {
  std::vector<Interface> interfaces;
  if (const int error = read_interfaces(interfaces); error != 0)
    return "the network interfaces cannot be listed: " + refusal("no socket is to be had", error);
  bool any_up = false, loopback_up = false;
  for (const Interface& interface : interfaces) {
    if (interface.is_loopback())
      loopback_up = interface.is_up();
    else if (interface.is_up())
      any_up = true;
  }
  if (any_up) return "the network interfaces that are up have no IP address: give one with 'ip address add'";
  if (loopback_up)
    return "no network interface but lo is up, and lo has no IP address: 'ip address add 127.0.0.1/8 dev lo'";
  return "no network interface is up in this network namespace: 'ip link set lo up' gives brdma_lo";
}

}  // namespace brdma::io

namespace brdma {

namespace {

// Temporary, unlike a refusal by policy: the last result is the best answer.
bool is_want_of_means(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS; }

}  // namespace

// RoCEv2 cannot reach an interface without an address, so it makes no device, unless it was one before. By index,
// loopback last.
std::vector<DeviceInfo> list_devices() {
  io::Memory& memory = io::memory();
  const std::lock_guard guard(memory.lock);
  const io::FileDescriptor socket_fd{io::open_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  if (!socket_fd.valid() && is_want_of_means(errno)) return memory.listed;
  if (const std::uint64_t network = io::network_namespace(socket_fd.get()); network != memory.network) {
    io::forget(memory);
    memory.network = network;
  }
  io::adopt_common(memory.gids);  // before the interfaces are read: entries that only brdmad has are gone meanwhile
  std::vector<io::Interface> interfaces;
  if (io::read_interfaces(interfaces) != 0) return memory.listed;
  io::update(memory.gids, interfaces);
  std::erase_if(memory.devices, [&](const auto& entry) { return !memory.gids.contains(entry.first); });

  std::vector<DeviceInfo> devices = io::make_devices(interfaces, memory, socket_fd.get());
  io::use_known_names(devices, memory.devices);
  io::make_guids_unique(devices);
  for (const DeviceInfo& device : devices) memory.devices[device.ifindex] = {device.name, device.guid};
  memory.listed = devices;
  return devices;
}

}  // namespace brdma
