// Devices, ports, counters, the system, and changes.
#include "rdma_netlink/commands.h"

#include <net/if.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "device_files/device_files.h"
#include "device_files/port.h"

namespace brdma::provider::nldev {
namespace {

constexpr std::uint8_t kChannelAdapter = 1;                   // RDMA_NODE_IB_CA
constexpr std::uint8_t kDown = 1, kActive = 4;                // enum ib_port_state
constexpr std::uint8_t kDisabled = 3, kLinkUp = 5;            // enum ib_port_phys_state
constexpr std::uint32_t kOfQueuePairs = 19, kOfRegions = 40;  // values of STAT_RES: tables' attribute numbers
constexpr std::uint32_t kUverbsAbi = 1, kRdmaCmAbi = 4;
constexpr std::string_view kOurType = "brdma";
constexpr std::size_t kNameMax = 63;

void put_device(Writer& to, std::uint32_t index, const DeviceInfo& device) {
  put_handle(to, index, device.name);
  to.u32(Attribute::kPortIndex, kPorts);
  to.u64(Attribute::kCapabilities, kDeviceCapabilities);
  to.text(Attribute::kFirmware, kFirmwareVersion);
  to.u64(Attribute::kNodeGuid, device.guid);
  to.u64(Attribute::kSystemGuid, device.guid);
  to.u8(Attribute::kNodeType, kChannelAdapter);
  to.u8(Attribute::kAdaptiveModeration, 0);
  to.text(Attribute::kProtocol, "roce");
}

void put_port(Writer& to, std::uint32_t index, const DeviceInfo& device) {
  put_handle(to, index, device.name);
  to.u32(Attribute::kPortIndex, kPorts);
  to.u8(Attribute::kPortState, device.active ? kActive : kDown);
  to.u8(Attribute::kPortPhysicalState, device.active ? kLinkUp : kDisabled);
  std::array<char, IF_NAMESIZE> name{};
  if (::if_indextoname(device.ifindex, name.data()) == nullptr) return;  // as if in another network namespace
  to.u32(Attribute::kInterfaceIndex, device.ifindex);
  to.text(Attribute::kInterfaceName, name.data());
}

Reply get_device(const Call& call) {
  const Chosen device = choose_device(call);
  if (device.error != 0) return refusal(device.error);
  Reply reply;
  put_device(reply.parts.emplace_back(Part{Operation::kGet, {}}).payload, device.index, device.info);
  return reply;
}

Reply dump_devices(const Call& call) {
  Reply reply;
  std::uint32_t index = 0;
  for (const DeviceInfo& device : call.source.devices()) {
    put_device(reply.parts.emplace_back(Part{Operation::kGet, {}}).payload, index++, device);
  }
  return reply;
}

Reply get_port(const Call& call) {
  const Chosen device = choose_device(call);
  if (device.error != 0 || call.attributes.number(Attribute::kPortIndex) != kPorts) return refusal(EINVAL);
  Reply reply;
  // The kernel answers a get of a port with the type of a device.
  put_port(reply.parts.emplace_back(Part{Operation::kGet, {}}).payload, device.index, device.info);
  return reply;
}

Reply dump_ports(const Call& call) {
  const Chosen device = choose_device(call);
  if (device.error != 0) return refusal(device.error);
  Reply reply;
  put_port(reply.parts.emplace_back(Part{Operation::kPortGet, {}}).payload, device.index, device.info);
  return reply;
}

// A device belongs to its network namespace, and a fork's child takes nothing from its parent's memory.
Reply get_system(const Call& /*call*/) {
  constexpr std::uint8_t kExclusive = 0, kOff = 0, kOn = 1;
  Reply reply;
  Writer& payload = reply.parts.emplace_back(Part{Operation::kSystemGet, {}}).payload;
  payload.u8(Attribute::kNamespaceMode, kExclusive);
  payload.u8(Attribute::kPrivilegedQkeyMode, kOff);
  payload.u8(Attribute::kCopyOnFork, kOn);
  return reply;
}

Reply get_counters(const Call& call, Operation operation, bool values) {
  const Chosen device = choose_device(call);
  if (device.error != 0 || call.attributes.number(Attribute::kPortIndex) != kPorts) return refusal(EINVAL);
  const auto counters = call.source.counters(device.info);
  if (!counters) return refusal(counters.reason());
  Writer all;
  std::uint32_t index = 0;
  for (const auto& [name, value] : counters.value()) {
    Writer entry;
    entry.text(Attribute::kCounterName, name);
    values ? entry.u64(Attribute::kCounterValue, value) : entry.u32(Attribute::kCounterIndex, index++);
    all.nest(Attribute::kCounterEntry, entry.bytes(), /*flagged=*/true);
  }
  Reply reply;
  Writer& payload = reply.parts.emplace_back(Part{operation, {}}).payload;
  put_handle(payload, device.index, device.info.name);
  payload.u32(Attribute::kPortIndex, kPorts);
  payload.nest(Attribute::kCounters, all.bytes(), /*flagged=*/true);
  return reply;
}

Reply get_statistics(const Call& call) {
  // Queue pairs can't be bound to counters here, as with Soft-RoCE.
  if (call.attributes.has(Attribute::kStatisticResource)) return refusal(EOPNOTSUPP);
  return get_counters(call, Operation::kStatisticGet, /*values=*/true);
}
Reply get_counter_names(const Call& call) { return get_counters(call, Operation::kStatisticStatus, /*values=*/false); }
// Counters of objects: there are none.
Reply dump_statistics(const Call& call) {
  const auto kind = call.attributes.number(Attribute::kStatisticResource);
  return kind == kOfQueuePairs || kind == kOfRegions ? Reply{} : refusal(EINVAL);
}

Reply get_node(const Call& call) {
  const auto kind = call.attributes.text(Attribute::kNodeKind);
  const bool names_device = call.attributes.has(Attribute::kDeviceIndex);
  if (!kind || (names_device != (*kind == "uverbs"))) return refusal(kind ? EOPNOTSUPP : EINVAL);
  Reply reply;
  Writer& payload = reply.parts.emplace_back(Part{Operation::kCharacterDevice, {}}).payload;
  if (*kind == "rdma_cm") {
    payload.u64(Attribute::kNodeNumber, call.asker.node);
    payload.u64(Attribute::kNodeAbi, kRdmaCmAbi);
    payload.text(Attribute::kNodeName, "rdma_cm");
    return reply;
  }
  if (!names_device) return refusal(EOPNOTSUPP);
  const Chosen device = choose_device(call);
  if (device.error != 0) return refusal(device.error);
  payload.u64(Attribute::kNodeNumber, call.asker.node);
  payload.u64(Attribute::kNodeAbi, kUverbsAbi);
  payload.text(Attribute::kNodeName, "uverbs" + std::to_string(call.asker.first + device.info.ifindex));
  payload.u32(Attribute::kDriverId, 0);  // RDMA_DRIVER_UNKNOWN
  return reply;
}

// --- changes. A device follows its network interface: it appears with an address, and is named after it. ---

Reply set_device(const Call& call) {
  const Chosen device = choose_device(call);
  if (device.error != 0) return refusal(device.error);
  const auto name = call.attributes.text(Attribute::kDeviceName);
  if (!name) return refusal(EOPNOTSUPP, "a device stays in the network namespace of its interface");
  if (name->empty()) return refusal(EINVAL);
  if (*name == device.info.name) return {};
  for (const DeviceInfo& other : call.source.devices()) {
    if (other.name == *name) return refusal(EEXIST);
  }
  return refusal(EOPNOTSUPP, "a device is named after its network interface: ip link set DEV name NAME");
}

Reply new_link(const Call& call) {
  const auto name = call.attributes.text(Attribute::kDeviceName);
  const auto type = call.attributes.text(Attribute::kLinkType);
  const auto interface = call.attributes.text(Attribute::kInterfaceName);
  if (!name || !type || !interface) return refusal(EINVAL);
  if (name->empty() || name->size() > kNameMax || name->find('%') != name->npos) return refusal(EINVAL);
  const std::string netdev{*interface};
  const std::uint32_t ifindex = ::if_nametoindex(netdev.c_str());
  if (ifindex == 0) return refusal(ENODEV);
  if (*type != kOurType) return refusal(EINVAL, "the type of these devices is brdma");
  for (const DeviceInfo& device : call.source.devices()) {
    if (device.ifindex == ifindex) return refusal(EEXIST, "the interface is the device " + device.name);
  }
  return refusal(EOPNOTSUPP, "an interface becomes a device with its first address: ip addr add ADDRESS dev " + netdev);
}

// The kernel answers so for devices of hardware.
Reply delete_link(const Call& call) {
  const Chosen device = choose_device(call);
  if (device.error != 0) return refusal(device.error);
  return refusal(EINVAL, "a device ends with its network interface");
}

Reply refuse(const Call& /*call*/) { return refusal(EOPNOTSUPP); }

template <Operation operation>
Reply dump_table(const Call& call) {
  return dump_resources(call, operation);
}
template <Operation operation>
Reply get_table(const Call& call) {
  return get_resource(call, operation);
}

constexpr bool kGet = false, kDump = true, kAnyone = false, kAdmin = true;
template <Operation operation>
constexpr std::array kTable{Command{operation, kDump, kAnyone, &dump_table<operation>},
                            Command{operation, kGet, kAnyone, &get_table<operation>}};

constexpr std::array kCommands{
    Command{Operation::kGet, kDump, kAnyone, &dump_devices},
    Command{Operation::kGet, kGet, kAnyone, &get_device},
    Command{Operation::kSet, kGet, kAdmin, &set_device},
    Command{Operation::kNewLink, kGet, kAdmin, &new_link},
    Command{Operation::kDeleteLink, kGet, kAdmin, &delete_link},
    Command{Operation::kPortGet, kDump, kAnyone, &dump_ports},
    Command{Operation::kPortGet, kGet, kAnyone, &get_port},
    Command{Operation::kSystemGet, kGet, kAnyone, &get_system},
    Command{Operation::kSystemSet, kGet, kAdmin, &refuse},
    Command{Operation::kSummary, kGet, kAnyone, &get_summary},
    kTable<Operation::kQueuePairs>[0],
    kTable<Operation::kQueuePairs>[1],
    kTable<Operation::kCmIds>[0],
    kTable<Operation::kCmIds>[1],
    kTable<Operation::kCompletionQueues>[0],
    kTable<Operation::kCompletionQueues>[1],
    kTable<Operation::kMemoryRegions>[0],
    kTable<Operation::kMemoryRegions>[1],
    kTable<Operation::kProtectionDomains>[0],
    kTable<Operation::kProtectionDomains>[1],
    kTable<Operation::kContexts>[0],
    kTable<Operation::kContexts>[1],
    kTable<Operation::kSharedReceiveQueues>[0],
    kTable<Operation::kSharedReceiveQueues>[1],
    Command { Operation::kCharacterDevice, kGet, kAnyone, &get_node },
    Command { Operation::kStatisticGet, kGet, kAnyone, &get_statistics },
    Command { Operation::kStatisticGet, kDump, kAnyone, &dump_statistics },
    Command { Operation::kStatisticStatus, kGet, kAnyone, &get_counter_names },
    Command { Operation::kStatisticSet, kGet, kAdmin, &refuse },
    Command { Operation::kStatisticDelete, kGet, kAdmin, &refuse },
    Command { Operation::kNewDevice, kGet, kAdmin, &refuse },
    Command { Operation::kDeleteDevice, kGet, kAdmin, &refuse },
};

}  // namespace

Chosen choose_device(const Call& call) {
  const auto index = call.attributes.number(Attribute::kDeviceIndex);
  if (!index) return {EINVAL, 0, {}};
  std::vector<DeviceInfo> devices = call.source.devices();
  if (*index >= devices.size()) return {EINVAL, 0, {}};
  return {0, *index, std::move(devices[*index])};
}

void put_handle(Writer& to, std::uint32_t index, const std::string& name) {
  to.u32(Attribute::kDeviceIndex, index);
  to.text(Attribute::kDeviceName, name);
}

const Command* find_command(std::uint16_t operation, bool dump) {
  const auto found = std::find_if(kCommands.begin(), kCommands.end(), [=](const Command& each) {
    return static_cast<std::uint16_t>(each.operation) == operation && each.dump == dump;
  });
  return found == kCommands.end() ? nullptr : &*found;
}

}  // namespace brdma::provider::nldev
