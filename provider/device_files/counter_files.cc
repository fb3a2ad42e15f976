#include "device_files/counter_files.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>

#include "control/address_text.h"
#include "io/daemon/daemon_client.h"

namespace brdma::preload {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPortPart = "/ports/1/", kHardwareGroup = "hw_counters", kPortGroup = "counters";
constexpr std::uint64_t kWordBytes = 4;  // of port_..._data

// How often the interface lost its carrier, since it was made.
std::uint64_t carrier_losses(const std::string& netdev) {
  std::ifstream file{"/sys/class/net/" + netdev + "/carrier_down_count"};
  std::uint64_t count = 0;
  return file >> count ? count : 0;
}

// The answer of brdmad; null: there is none, so nothing was counted yet.
Result<Json, int> statistics() {
  auto reply = io::query_daemon({{"query", "statistics"}});
  if (reply.ok()) return std::move(reply).value();
  if (reply.reason().error == ENOENT) return Json{};
  return reply.reason().error;
}

// The counters of a device; an empty object: it has none.
Json counters_of(const Json& statistics, const std::string& device) {
  if (!statistics.is_object()) return Json::object();
  for (const Json& each : statistics.value("devices", Json::array())) {
    if (each.is_object() && each.value("device", "") == device) return each.value("counters", Json::object());
  }
  return Json::object();
}

std::uint64_t value_of(const Json& counters, std::string_view name) {
  const auto found = counters.find(std::string{name});  // nlohmann-json 3.10 finds no view
  return found != counters.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

std::uint64_t value_of(const Json& counters, const CounterName& name, const std::string& netdev) {
  return name.counter.empty() ? carrier_losses(netdev) : value_of(counters, name.counter);
}

template <class List>
const CounterName* find_name(const List& list, std::string_view name) {
  const auto found = std::ranges::find(list, name, &CounterName::name);
  return found == list.end() ? nullptr : &*found;
}

template <class List>
bool has(const List& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

// Messages from and to the device's addresses.
std::uint64_t connection_messages(const Json& statistics, const CounterFile& file, const DeviceInfo& device) {
  std::uint64_t sum = 0;
  if (!statistics.is_object()) return sum;
  for (const Json& each : statistics.value("connection_messages", Json::array())) {
    const auto address = each.is_object() ? parse_address(each.value("address", "")) : std::nullopt;
    const auto is_it = [&address](const DeviceInfo::Gid& gid) { return gid.address == *address; };
    if (!address || std::ranges::none_of(device.gids, is_it)) continue;
    sum += value_of(each.value(file.group, Json::object()), file.name);
  }
  return sum;
}

bool is_counter(std::string_view group, std::string_view name) {
  if (group == kHardwareGroup) return find_name(kHardwareCounters, name) != nullptr;
  if (group == kPortGroup) return find_name(kPortCounters, name) != nullptr;
  return has(kConnectionGroups, group) && has(kConnectionMessages, name);
}

}  // namespace

Result<CounterValues, int> hardware_counters(const DeviceInfo& device) {
  const auto all = statistics();
  if (!all) return all.reason();
  const Json counters = counters_of(all.value(), device.name);
  CounterValues values;
  for (const CounterName& name : kHardwareCounters)
    values.emplace_back(name.name, value_of(counters, name, device.netdev));
  return values;
}

bool may_be_counter(std::string_view file_name) {
  return find_name(kHardwareCounters, file_name) != nullptr || find_name(kPortCounters, file_name) != nullptr ||
         has(kConnectionMessages, file_name);
}

std::optional<CounterFile> parse_counter_path(std::string_view path) {
  const std::size_t port = path.rfind(kPortPart);
  if (port == path.npos) return std::nullopt;
  const std::string_view before = path.substr(0, port), behind = path.substr(port + kPortPart.size());
  const std::size_t slash = behind.find('/');
  if (slash == behind.npos) return std::nullopt;
  const std::string_view group = behind.substr(0, slash), name = behind.substr(slash + 1);
  if (!is_counter(group, name)) return std::nullopt;
  return CounterFile{std::string{before.substr(before.rfind('/') + 1)}, std::string{group}, std::string{name}};
}

Result<std::uint64_t, int> counter_value(const CounterFile& file, const DeviceInfo& device) {
  const auto all = statistics();
  if (!all) return all.reason();
  if (has(kConnectionGroups, file.group)) return connection_messages(all.value(), file, device);
  const Json counters = counters_of(all.value(), device.name);
  if (file.group == kHardwareGroup) return value_of(counters, *find_name(kHardwareCounters, file.name), device.netdev);
  const std::uint64_t value = value_of(counters, *find_name(kPortCounters, file.name), device.netdev);
  return file.name.ends_with("_data") ? value / kWordBytes : value;
}

}  // namespace brdma::preload
