// Findings about devices and GIDs.

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "check/finding.h"

namespace brdma::check {
namespace {

constexpr std::string_view kOurs = "brdma_";

// Variables of other libraries with a GID index.
constexpr std::array<std::string_view, 5> kGidVariables{"NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX", "MC_GID_INDEX",
                                                        "GLOO_IBV_INDEX", "NVSHMEM_IB_GID_INDEX"};
// With names of devices, separated by commas; ":PORT" may follow, and "^", "=" or "mlx5" as a beginning.
constexpr std::array<std::string_view, 4> kDeviceVariables{"NCCL_IB_HCA", "UCX_NET_DEVICES", "NVSHMEM_HCA_LIST",
                                                           "MC_FORCE_HCA"};

bool is_in(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

std::string gid_list(const Facts& facts) {
  std::string list;
  for (const Device& device : facts.devices) {
    for (const Gid& gid : device.gids) {
      list += (list.empty() ? "" : ", ") + device.name + " " + std::to_string(gid.index) + " = " + gid.address;
    }
  }
  return list;
}

bool has_index(const Facts& facts, int index) {
  return std::ranges::any_of(facts.devices, [index](const Device& device) {
    return std::ranges::any_of(device.gids, [index](const Gid& gid) { return gid.index == index; });
  });
}

// Each name of such a variable, without prefix and port.
std::vector<std::string> named_devices(std::string_view value) {
  std::vector<std::string> names;
  if (value.starts_with("^") || value == "all") return names;  // those to leave out
  if (value.starts_with("=")) value.remove_prefix(1);
  while (!value.empty()) {
    const std::string_view one = value.substr(0, value.find(','));
    value.remove_prefix(std::min(value.size(), one.size() + 1));
    const std::string_view name = one.substr(0, one.find(':'));
    if (!name.empty()) names.emplace_back(name);
  }
  return names;
}

bool exists(const Facts& facts, const std::string& name) {
  const auto begins = [&name](const std::string& listed) { return listed.starts_with(name); };
  return std::ranges::any_of(facts.devices,
                             [&](const Device& device) { return begins(device.name) || device.netdev == name; }) ||
         std::ranges::any_of(facts.kernel_devices, begins);
}

}  // namespace

Found find_no_device(const Facts& facts) {
  if (!facts.devices.empty()) return std::nullopt;
  const std::string& reason = facts.no_device_reason;
  const std::size_t colon = reason.rfind(": ");
  return Finding{"no_device", Severity::kError, "programs see no device: " + reason.substr(0, colon),
                 colon == std::string::npos ? "give an interface an address: ip address add ADDRESS dev INTERFACE"
                                            : reason.substr(colon + 2)};
}

Found find_interface_down(const Facts& facts) {
  std::string down;
  for (const Device& device : facts.devices) {
    if (!device.active) down += (down.empty() ? "" : ", ") + device.netdev;
  }
  if (down.empty()) return std::nullopt;
  const bool all = std::ranges::none_of(facts.devices, [](const Device& device) { return device.active; });
  return Finding{"interface_down", all ? Severity::kError : Severity::kWarning,
                 "interface down or without carrier: " + down + ": the port is DOWN and nothing arrives",
                 "ip link set " + down.substr(0, down.find(',')) + " up, and connect its cable or peer"};
}

Found find_other_device_first(const Facts& facts) {
  const std::vector<std::string>& listed = facts.probe.listed;
  const auto ours = std::ranges::find_if(listed, [](const std::string& name) { return name.starts_with(kOurs); });
  const bool before = ours != listed.end() && ours != listed.begin();
  if (!before && (facts.kernel_devices.empty() || facts.devices.empty())) return std::nullopt;
  const std::string other = before ? listed.front() : facts.kernel_devices.front();
  const std::string name = facts.devices.empty() ? *ours : facts.devices.front().name;
  return Finding{"other_device_first", Severity::kWarning,
                 "device " + other + ", of another driver, is beside this library's" + (before ? ", and first" : "") +
                     ": a program that takes any device may take it",
                 "name the device to the program: -d " + name + " for perftest, NCCL_IB_HCA or UCX_NET_DEVICES"};
}

Found find_gid_index_wrong(const Facts& facts) {
  for (const Variable& variable : facts.configuration.others) {
    if (!is_in(variable.name, kGidVariables) || facts.devices.empty()) continue;
    int index = -1;
    const char* const end = variable.value.data() + variable.value.size();
    const auto [stopped, error] = std::from_chars(variable.value.data(), end, index);
    if (variable.value == "-1" || variable.value == "auto") continue;  // the library's own choice
    if (error == std::errc{} && stopped == end && has_index(facts, index)) continue;
    return Finding{"gid_index_wrong", Severity::kError,
                   variable.name + "=" + variable.value + ": no device has a GID of that index",
                   "unset it, or take one of: " + gid_list(facts)};
  }
  return std::nullopt;
}

Found find_device_variable_wrong(const Facts& facts) {
  for (const Variable& variable : facts.configuration.others) {
    if (!is_in(variable.name, kDeviceVariables) || facts.devices.empty()) continue;
    const std::vector<std::string> names = named_devices(variable.value);
    if (names.empty() || std::ranges::any_of(names, [&](const std::string& name) { return exists(facts, name); })) {
      continue;
    }
    return Finding{"device_variable_wrong", Severity::kError,
                   variable.name + "=" + variable.value + " names no device that is here",
                   "unset it, or set it to " + facts.devices.front().name};
  }
  return std::nullopt;
}

}  // namespace brdma::check
