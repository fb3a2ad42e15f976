#include "device_files/device_files.h"

#include <sys/sysmacros.h>

#include <string_view>

#include "device_files/counter_files.h"
#include "device_files/port.h"

namespace brdma::preload {
namespace {

using Kind = TreeEntry::Kind;

std::uint64_t mix(std::uint64_t hash, std::string_view text) {  // FNV-1a, 64 bits
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return (hash ^ 0xFF) * 0x100000001B3u;  // end mark: "ab","c" differs from "a","bc"
}
constexpr std::uint64_t kHashStart = 0xCBF29CE484222325u;

std::string_view name_of(const CounterName& counter) { return counter.name; }
std::string_view name_of(std::string_view message) { return message; }

class Builder {
 public:
  void directory(const std::string& path, std::int64_t mtime_seconds = 0) {
    entries_.push_back({Kind::kDirectory, path, "", mtime_seconds});
  }
  void file(const std::string& path, const std::string& line, bool writable = false) {
    entries_.push_back({Kind::kFile, path, line + "\n", 0, writable});
  }
  void symlink(const std::string& path, const std::string& target) {
    entries_.push_back({Kind::kSymlink, path, target, 0});
  }
  std::vector<TreeEntry> take() { return std::move(entries_); }

 private:
  std::vector<TreeEntry> entries_;
};

std::int64_t identity_time(const DeviceInfo& device, const std::string& uverbs) {
  std::uint64_t hash = mix(kHashStart, device.name);
  hash = mix(hash, provider::guid_text(device.guid));
  hash = mix(hash, uverbs);
  return static_cast<std::int64_t>(1'000'000'000 + hash % 500'000'000);  // between 2001 and 2017
}

// What a class lists: a device below /sys/devices, and the class's link to it.
constexpr char kVirtualDevices[] = "sys/devices/virtual/";
std::string add_to_class(Builder& tree, const std::string& name_of_class, const std::string& name,
                         std::int64_t mtime_seconds = 0) {
  std::string path = kVirtualDevices + name_of_class + "/" + name;
  tree.directory(path, mtime_seconds);
  tree.symlink(path + "/subsystem", "../../../../class/" + name_of_class);
  tree.directory(path + "/power");
  tree.symlink("sys/class/" + name_of_class + "/" + name, "../../devices/virtual/" + name_of_class + "/" + name);
  return path;
}

// Their values come from brdmad when a program opens them; here they say what no program has counted.
template <class Names>
void add_counters(Builder& tree, const std::string& folder, const Names& names) {
  tree.directory(folder);
  for (const auto& each : names) tree.file(folder + "/" + std::string{name_of(each)}, "0");
}

void add_counter_files(Builder& tree, const std::string& port) {
  add_counters(tree, port + "/hw_counters", kHardwareCounters);
  tree.file(port + "/hw_counters/lifespan", "10", /*writable=*/true);
  add_counters(tree, port + "/counters", kPortCounters);
  for (const std::string_view group : kConnectionGroups) {
    add_counters(tree, port + "/" + std::string{group}, kConnectionMessages);
  }
}

void add_port(Builder& tree, const DeviceInfo& device, const std::string& port) {
  tree.directory(port);
  tree.file(port + "/state", device.active ? "4: ACTIVE" : "1: DOWN");
  tree.file(port + "/phys_state", device.active ? "5: LinkUp" : "3: Disabled");
  tree.file(port + "/link_layer", "Ethernet");
  tree.file(port + "/rate", provider::link_rate(device.speed_mbps).description);
  tree.file(port + "/lid", provider::lid_text(device));
  tree.file(port + "/lid_mask_count", "0");
  tree.file(port + "/sm_lid", "0x0");
  tree.file(port + "/sm_sl", "0");
  tree.file(port + "/cap_mask", "0x00010000");
  tree.directory(port + "/pkeys");
  tree.file(port + "/pkeys/0", "0xffff");
  for (const char* folder : {"/gids", "/gid_attrs", "/gid_attrs/types", "/gid_attrs/ndevs"}) {
    tree.directory(port + folder);
  }
  add_counter_files(tree, port);
  for (std::size_t i = 0; i < device.gids.size(); ++i) {
    const std::string index = "/" + std::to_string(i);
    tree.file(port + "/gids" + index, provider::gid_text(device.gids[i].address));
    tree.file(port + "/gid_attrs/types" + index, "RoCE v2");
    // The kernel has the file of a hole, without contents: no file has the same effect.
    if (!device.gids[i].netdev.empty()) tree.file(port + "/gid_attrs/ndevs" + index, device.gids[i].netdev);
  }
}

void add_uverbs(Builder& tree, const DeviceInfo& device, const std::string& uverbs, dev_t node) {
  const std::string entry = add_to_class(tree, "infiniband_verbs", uverbs);
  const std::string number[] = {std::to_string(major(node)), std::to_string(minor(node))};
  tree.file(entry + "/ibdev", device.name);
  tree.file(entry + "/dev", number[0] + ":" + number[1]);
  tree.file(entry + "/abi_version", "1");
  tree.file(entry + "/uevent",
            "MAJOR=" + number[0] + "\nMINOR=" + number[1] + "\nDEVNAME=infiniband/" + uverbs + "\nDEVMODE=0666", true);
  tree.symlink(entry + "/device", "../../infiniband/" + device.name + "/device");
  tree.symlink("dev/infiniband/" + uverbs, kNodeTarget);
}

void add_device(Builder& tree, const DeviceInfo& device, const std::string& uverbs, dev_t node) {
  add_uverbs(tree, device, uverbs, node);
  const std::string root = add_to_class(tree, "infiniband", device.name, identity_time(device, uverbs));
  tree.file(root + "/node_type", "1: CA");
  tree.file(root + "/node_guid", provider::guid_text(device.guid));
  tree.file(root + "/sys_image_guid", provider::guid_text(device.guid));
  tree.file(root + "/node_desc", device.name, /*writable=*/true);
  tree.file(root + "/fw_ver", provider::kFirmwareVersion);
  tree.file(root + "/parent", device.netdev);
  tree.file(root + "/uevent", "NAME=" + device.name, /*writable=*/true);
  tree.file(root + "/hw_rev", "0");
  tree.file(root + "/hca_type", "bitmaprdma");
  tree.file(root + "/board_id", "bitmaprdma");
  tree.directory(root + "/device");
  tree.file(root + "/device/vendor", "0x0000");
  tree.file(root + "/device/device", "0x0000");
  tree.file(root + "/device/numa_node", "-1");
  tree.directory(root + "/device/net");
  tree.symlink(root + "/device/net/" + device.netdev, "/sys/class/net/" + device.netdev);
  tree.directory(root + "/device/infiniband_verbs");
  tree.symlink(root + "/device/infiniband_verbs/" + uverbs, "../../../../infiniband_verbs/" + uverbs);
  tree.directory(root + "/ports");
  add_port(tree, device, root + "/ports/1");
}

}  // namespace

std::vector<TreeEntry> device_files(std::span<const DeviceInfo> devices, dev_t node, bool beside_kernel) {
  Builder tree;
  for (const char* path : {"dev", "dev/infiniband", "sys", "sys/class", "sys/class/infiniband_verbs",
                           "sys/class/infiniband", "sys/devices", "sys/devices/virtual",
                           "sys/devices/virtual/infiniband_verbs", "sys/devices/virtual/infiniband"}) {
    tree.directory(path);
  }
  tree.file("sys/class/infiniband_verbs/abi_version", "6");
  // Opening it makes an event channel instead (rdma_cm/server.h); the file is for programs that check for RDMA-CM.
  tree.symlink("dev/infiniband/rdma_cm", kNodeTarget);
  // The interface's index serves as number, so a device keeps its name when others come and go.
  const std::uint32_t first = beside_kernel ? kKernelNodesMax : 0;
  for (const DeviceInfo& device : devices) {
    add_device(tree, device, "uverbs" + std::to_string(first + device.ifindex), node);
  }
  return tree.take();
}

std::uint64_t hash_of(std::span<const TreeEntry> entries) {
  std::uint64_t hash = kHashStart;
  for (const TreeEntry& entry : entries) {
    hash = mix(hash, entry.path);
    hash = mix(hash, entry.content);
    hash = mix(hash, std::to_string(static_cast<int>(entry.kind)) + std::to_string(entry.mtime_seconds));
    hash = mix(hash, entry.writable ? "644" : "444");
  }
  return hash;
}

}  // namespace brdma::preload
